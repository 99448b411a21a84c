#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ld_paths.sh TOOL CC: our search for libraries against the machine's own loader, on programs
# of the system and on small ones linked for one rule of ld.so(8) each.
set -euo pipefail
tool=$(realpath "$1")
cc=$2
command -v ldd >/dev/null || { echo "ldd is not installed"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
unset LD_LIBRARY_PATH LD_PRELOAD

# "name => path" lines, sorted, without the kernel's own object.
loader_says() { # [VARIABLE=VALUE...] FILE
    local file=${*: -1}
    env "${@:1:$#-1}" LD_TRACE_LOADED_OBJECTS=1 "$file" 2>/dev/null |
        sed -E 's/^[[:space:]]+//; s/ \(0x[0-9a-f]+\)$//' | grep -v '^linux-vdso' |
        awk '{ print ($2 == "=>") ? $0 : $1 " => " $1 }' | sort -u
}

compare() { # TITLE LIBRARY_PATH FILE
    local title=$1 path=$2 file=$3
    if ! diff <(loader_says ${path:+"LD_LIBRARY_PATH=$path"} "$file") \
        <(JOB_LIBRARY_PATH=$path "$tool" "$file" | sort -u) >"$dir/diff"; then
        echo "differs from the loader: $title ($file)"
        cat "$dir/diff"
        failures=$((failures + 1))
    fi
}

for program in bash ls git gcc clang clang-19 gdb python3 perl cmake openssl ssh curl llvm-readelf-14; do
    file=$(command -v "$program" || true)
    [ -n "$file" ] && head -c 4 "$file" | grep -q ELF && compare "system program" "" "$file"
done

cd "$dir"
mkdir -p bin one two three hw/glibc-hwcaps/x86-64-v2
for d in one two three hw hw/glibc-hwcaps/x86-64-v2; do
    echo "const char *leaf(void) { return \"$d\"; }" | "$cc" -shared -fPIC -x c - -o "$d/libleaf.so" -Wl,-soname,libleaf.so
done
echo 'const char *leaf(void); const char *middle(void) { return leaf(); }' >middle.c
echo 'const char *middle(void); int main(void) { return middle()[0] == 0; }' >main.c
link_middle() { "$cc" -shared -fPIC middle.c -o two/libmiddle.so -Wl,-soname,libmiddle.so -Lone -lleaf "$@"; }
link_main() { "$cc" main.c -o bin/main -Ltwo -lmiddle -Wl,--allow-shlib-undefined "$@"; }
rpath='-Wl,--disable-new-dtags'
runpath='-Wl,--enable-new-dtags'

link_middle
link_main $runpath "-Wl,-rpath,$dir/two"
compare "RUNPATH is not inherited: leaf is missing" "" "$dir/bin/main"
compare "LD_LIBRARY_PATH fills the gap" "$dir/one" "$dir/bin/main"
link_main $rpath "-Wl,-rpath,$dir/two:$dir/three"
compare "RPATH of the program is inherited" "" "$dir/bin/main"
compare "RPATH comes before LD_LIBRARY_PATH" "$dir/one" "$dir/bin/main"
link_main $runpath "-Wl,-rpath,$dir/two:$dir/three"
compare "RUNPATH comes after LD_LIBRARY_PATH" "$dir/one" "$dir/bin/main"
link_middle $runpath "-Wl,-rpath,$dir/nowhere"
link_main $rpath "-Wl,-rpath,$dir/two:$dir/three"
compare "a RUNPATH of the requester switches RPATHs off" "" "$dir/bin/main"
link_middle $runpath '-Wl,-rpath,$ORIGIN/../one'
link_main $runpath '-Wl,-rpath,$ORIGIN/../two'
compare "\$ORIGIN of each object" "" "$dir/bin/main"
ln -sf ../bin/main three/main
compare "\$ORIGIN of a program behind a link" "" "$dir/three/main"
link_main $runpath '-Wl,-rpath,${ORIGIN}/../two:$ORIGINAL'
compare "\${ORIGIN} in braces; \$ORIGINAL is another word" "" "$dir/bin/main"
# Two ask for leaf, the first without a path to it: ldd prints it missing and found.
echo 'const char *leaf(void); const char *other(void) { return leaf(); }' >other.c
link_middle
"$cc" -shared -fPIC other.c -o two/libother.so -Wl,-soname,libother.so -Lone -lleaf $runpath "-Wl,-rpath,$dir/one"
"$cc" main.c -o bin/main -Wl,--no-as-needed -Ltwo -lmiddle -lother -Wl,--allow-shlib-undefined $runpath "-Wl,-rpath,$dir/two"
compare "a failed search is forgotten" "" "$dir/bin/main"
mkdir -p lib/x86_64-linux-gnu lib64
for d in lib lib/x86_64-linux-gnu lib64; do
    echo "const char *leaf(void) { return \"$d\"; }" | "$cc" -shared -fPIC -x c - -o "$d/libleaf.so" -Wl,-soname,libleaf.so
done
link_middle $runpath "-Wl,-rpath,$dir/\$LIB"
compare "\$LIB" "" "$dir/bin/main"
link_middle
compare "a folder for the CPU comes first" "$dir/hw" "$dir/bin/main"
compare "semicolons separate, too" "$dir/none;$dir/three" "$dir/bin/main"
link_main "-Wl,-rpath,$dir/two" -Wl,--no-as-needed -Lthree -lleaf $rpath "-Wl,-rpath,$dir/three"
compare "a library already loaded serves all" "" "$dir/bin/main"
mkdir -p text && echo 'INPUT(libleaf.so.1)' >text/libleaf.so
link_main $runpath "-Wl,-rpath,$dir/two"
JOB_LIBRARY_PATH="$dir/text:$dir/one" WHY=1 "$tool" "$dir/bin/main" | grep -q 'libleaf.so => .*/text/libleaf.so.*search ends there' ||
    { echo "a text file in the place of a library must be reported as what stops ld.so"; failures=$((failures + 1)); }
WHY=1 "$tool" "$dir/bin/main" | grep -q "RUNPATH of $dir/bin/main" ||
    { echo "the reason for a RUNPATH hit is not given"; failures=$((failures + 1)); }
WHY=1 JOB_LIBRARY_PATH="$dir/one" "$tool" "$dir/bin/main" | grep -q 'libleaf.so => .*\[LD_LIBRARY_PATH\]' ||
    { echo "the reason for an LD_LIBRARY_PATH hit is not given"; failures=$((failures + 1)); }
# The cache as ldconfig itself lists it.
if ldconfig -p >cache 2>/dev/null; then
    awk '/x86-64\)/ && !seen[$1]++ { print $1 " => " $NF }' cache >expected
    mapfile -t names < <(sed 's/ => .*//' expected)
    "$tool" --resolve "${names[@]}" >answers
    if ! diff expected answers; then
        echo "differs from ldconfig -p"
        failures=$((failures + 1))
    fi
fi
[ "$failures" = 0 ] && echo "all answers are the loader's"
exit $((failures != 0))
