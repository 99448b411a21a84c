#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay reproduce: from the folder of a run to a program that fails alone; honest where nothing fails.
. "$(dirname "$0")/../cli/lib.sh"
command -v cc >/dev/null || { echo "no C compiler"; exit 77; }
cd "$TMP"
run=("$ASSAY" run --no-facts)
bad=$(dirname "$JOB_OVER")/libtinyblas-over.so
good=$(dirname "$JOB")/libtinyblas.so
mkdir over; cp "$bad" over/libtinyblas.so
on=(env LD_LIBRARY_PATH="$TMP/over")

# alone FOLDER: the program of a reproducer, as a stranger uses it.
alone() {
    expect "$1 builds" 0 cc -O1 -Wall -Werror -o alone "$1/reproducer.c" -ldl -lm
    expect "$1 fails alone" 1 ./alone
    says "$1 says what is wrong" out "FAILED: sgemm_ read memory 0 bytes past the end of operand A"
    [ "$(grep -c FAILED out)" = 1 ] || { echo "FAILED: $1 says more than one sentence"; FAILED=1; }
    expect "$1 passes with slack" 0 ./alone --slack
    expect "$1 passes with the right library" 0 ./alone "$good"
    [ "$(wc -l <"$1/reproducer.c")" -le 100 ] || { echo "FAILED: $1: more than 100 lines"; FAILED=1; }
}
expect "guarded" 139 "${on[@]}" "${run[@]}" --guard --record caught -- "$JOB_OVER" steps 3
expect "reproduce the fault" 1 "$ASSAY" reproduce caught
says "reproduce the fault" out "a fault happened in it"
says "it is the recorded one" out "the same operand, the same direction"
says "unguarded it passes" out "without the guard the same call passes in all"
says "the program was tried" out "fails on its own: yes"
alone caught/reproducer
grep -q "in the run: operand A: 2048 bytes at 0x" caught/reproducer/report.md || { echo "FAILED: no layout in the report"; FAILED=1; }
expect "again, as JSON" 1 "$ASSAY" reproduce caught --json --reproducer elsewhere
jq -e '.schema_version == 1 and .replays[0].verdict == "fails" and .findings[0].id == "gemm-reads-past-operand"' out >/dev/null || { echo "FAILED: JSON"; FAILED=1; }
alone elsewhere

# A run that did not crash: every distinct product is tried, the most frequent first.
expect "not guarded" 0 "${on[@]}" "${run[@]}" --record lucky -- "$JOB_OVER" steps 3
expect "reproduce what did not crash" 1 "$ASSAY" reproduce lucky
says "reproduce what did not crash" out "was called"
expect "a right library in its place" 2 "$ASSAY" reproduce lucky --library "$good" --reproducer none
says "a right library in its place" out "this excludes an access outside the operands"
says "both products were tried" out "2 recorded products"
[ ! -e none ] || { echo "FAILED: a folder for nothing"; FAILED=1; }
expect "a fault that does not come" 2 "$ASSAY" reproduce caught --library "$good"
says "a fault that does not come" out "the fault of the run does not come in isolation"
expect "a sound run" 0 "${run[@]}" --record sound -- "$JOB" steps 3
expect "nothing fails" 2 "$ASSAY" reproduce sound
says "nothing fails" out "no recorded product fails in isolation"
expect "a library that cannot be opened" 2 "$ASSAY" reproduce sound --library "$TMP/none.so"
says "a library that cannot be opened" out "no recorded product could be replayed"

# A library that gives up: the call was in flight, and the program says how it ended.
mkdir gives-up; cp "$FAKES/libblas_abort.so" gives-up/libtinyblas.so
expect "a library that gives up" 134 env LD_LIBRARY_PATH="$TMP/gives-up" "${run[@]}" --record aborted -- "$JOB" steps 1
expect "a library that gives up, reproduce" 1 "$ASSAY" reproduce aborted
says "a library that gives up, reproduce" out "gemm-aborts"
expect "its program builds" 0 cc -O1 -Wall -Werror -o alone aborted/reproducer/reproducer.c -ldl -lm
expect "its program fails" 1 ./alone
says "its program fails" out "ended with: Aborted"

# Wrong numbers, found without a crash.
mkdir wrong; cp "$FAKES/libblas_wrong.so" wrong/libtinyblas.so
expect "a library that is wrong" 0 env LD_LIBRARY_PATH="$TMP/wrong" "${run[@]}" --record wrong-numbers -- "$JOB" steps 1
expect "a library that is wrong, reproduce" 1 "$ASSAY" reproduce wrong-numbers
says "a library that is wrong, reproduce" out "gemm-inaccurate"
says "wrong without a guard, too" out "without the guard"

# What cannot be replayed is said.
expect "no folder given" 64 "$ASSAY" reproduce
expect "two folders" 64 "$ASSAY" reproduce caught lucky
expect "no such folder" 2 "$ASSAY" reproduce "$TMP/nowhere"
expect "not a run folder" 2 "$ASSAY" reproduce "$TMP/over"
says "not a run folder" err "is no run folder"
expect "a time that is none" 64 "$ASSAY" reproduce caught --time soon
expect "no record" 0 "${run[@]}" --record static -- "$JOB_STATIC" steps 1
expect "reproduce without a record" 2 "$ASSAY" reproduce static
says "reproduce without a record" err "holds no record that can be read"
expect "no product" 0 "${run[@]}" --guard --record idle -- "$JOB" after-free 0
expect "reproduce without a product" 2 "$ASSAY" reproduce idle
says "reproduce without a product" err "nothing to replay"
mkdir cut; cp caught/run.json cut/; head -c 3000 caught/record.*.bin >cut/record.1.bin
expect "a record cut off" 2 "$ASSAY" reproduce cut
touch static/reproducer
expect "a file where the folder goes" 2 "$ASSAY" reproduce caught --reproducer static/reproducer
mkdir full; touch full/notes
expect "a folder with something else" 64 "$ASSAY" reproduce caught --reproducer full
cp "$good" over/libtinyblas.so
expect "the library was replaced" 2 "$ASSAY" reproduce caught
says "the library was replaced" err "is another file than the one that was recorded (build id"
expect "the library was replaced, tried all the same" 2 "$ASSAY" reproduce caught --library over/libtinyblas.so
rm over/libtinyblas.so
expect "the library is gone" 2 "$ASSAY" reproduce caught
says "the library is gone" err "is not on this machine any more"
finish
