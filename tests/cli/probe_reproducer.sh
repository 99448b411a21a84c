#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --reproducer: for each planted fault a program of at most 100 lines that fails on its own
# against the guilty library and passes against a right one.
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null || { echo "no C compiler"; exit 77; }
cd "$TMP"
good=$FAKES/libblas_none.so
printf '9 7 5\n12 6 4 dtype=f64\n' >shapes

# check NAME WORDS...: convict the library, then use its reproducer as a stranger would.
check() {
    local name=$1 words=$2 bad=$FAKES/libblas_$1.so
    expect "$name is convicted" 1 "$ASSAY" probe --library "$bad" --shapes shapes --reproducer "$name"
    says "$name fails on its own" out "fails on its own: yes"
    [ "$(wc -l <"$name/reproducer.c")" -le 100 ] || { echo "FAILED: $name: more than 100 lines"; FAILED=1; }
    expect "$name builds without a warning" 0 cc -O1 -Wall -Werror -o "$name.run" "$name/reproducer.c" -ldl -lm
    expect "$name fails" 1 "./$name.run"
    says "$name says what is wrong" out "$words"
    expect "$name passes with a right library" 0 "./$name.run" "$good"
    expect "$name with no library" 2 "./$name.run" "$TMP/none.so"
    expect "$name again by its own product" 1 "$ASSAY" probe --library "$bad" --shapes "$name/shapes.txt"
    for part in "# Problem Description" "# Steps to Reproduce" "operating system"; do
        grep -q "$part" "$name/report.md" || { echo "FAILED: $name/report.md lacks '$part'"; FAILED=1; }
    done
}
check read "read memory 0 bytes past the end of operand B"
expect "with slack the over-read is not seen" 0 ./read.run --slack
check write "wrote memory 0 bytes past the end of operand C"
check wrong "and should be"
check gap "wrote row"
check unwritten "is nan and should be"
check abort "ended with: Aborted"

# A fault that no program of this kind can show is told all the same.
if [ -e "$FAKES/libblas_float.so" ]; then
    expect "float mode" 1 "$ASSAY" probe --library "$FAKES/libblas_float.so" --shapes shapes --reproducer float
    says "float mode" out "gemm-changes-float-mode"
    says "float mode" out "there is no reproducer for a fault of this kind"
    [ ! -e float ] || { echo "FAILED: a folder for nothing"; FAILED=1; }
fi

expect "a right library" 0 "$ASSAY" probe --library "$good" --shapes shapes --reproducer clean
says "a right library" out "no reproducer was written"
[ ! -e clean ] || { echo "FAILED: a folder for nothing"; FAILED=1; }
expect "an earlier reproducer is replaced" 1 "$ASSAY" probe --library "$FAKES/libblas_read.so" --shapes shapes --reproducer read
mkdir full; touch full/thesis.tex
expect "a folder with something else" 64 "$ASSAY" probe --library "$good" --shapes shapes --reproducer full
says "a folder with something else" err "thesis.tex"
expect "a folder that cannot be made" 2 "$ASSAY" probe --library "$good" --shapes shapes --reproducer no/such/place
expect "a file as folder" 2 "$ASSAY" probe --library "$good" --shapes shapes --reproducer shapes
expect "for another way of trying" 64 "$ASSAY" probe --why --reproducer x

# A library named from here must be found by a program that runs elsewhere.
cp "$FAKES/libblas_read.so" near.so
expect "a relative path" 1 "$ASSAY" probe --library ./near.so --shapes shapes --reproducer relative
says "a relative path" out "fails on its own: yes"

# Without a compiler it is written and not praised. The tools of the test are kept on the way.
mkdir bin
expect "without a compiler" 1 env PATH="$TMP/bin" "$ASSAY" probe --library "$FAKES/libblas_read.so" --shapes shapes --reproducer nocc
says "without a compiler" out "was not built or run"
grep -q "was not built or run" nocc/report.md || { echo "FAILED: the report praises what nobody ran"; FAILED=1; }

# Nothing of the owner: home, user, host.
mkdir -p home/joe; cp "$FAKES/libblas_read.so" home/joe/libsecret.so
expect "in a home folder" 1 env HOME="$TMP/home/joe" USER=joeuser "$ASSAY" probe --library "$TMP/home/joe/libsecret.so" \
    --shapes shapes --reproducer private
! grep -rqE "home/joe|joeuser|$(hostname)" private || { echo "FAILED: the owner is told:"; grep -rnE "home/joe|joeuser|$(hostname)" private; FAILED=1; }
grep -q "./reproducer ~/libsecret.so" private/report.md || { echo "FAILED: the library must be named on the command line"; FAILED=1; }
finish
