#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay run and assay report: nothing changes for the command, nothing of the run is lost, faults are named.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)

# A library of the same name that over-reads is found through the soname.
mkdir over; ln -s "$(dirname "$JOB_OVER")/libtinyblas-over.so" over/libtinyblas.so

expect "a job that ends" 0 "${run[@]}" --record good -- "$JOB" steps 5
says "its output is passed on" out "step 4 loss 0.400"
says "the calls are counted" err "10 library calls recorded"
says "the library is named" err "libtinyblas.so"
[ "$(cat good/stdout.log)" = "$(cat "$TMP/out")" ] || { echo "FAILED: stdout.log is not what the job printed"; FAILED=1; }
[ "$(wc -l <good/metrics.jsonl)" = 5 ] || { echo "FAILED: five steps, not $(wc -l <good/metrics.jsonl) lines of metrics"; FAILED=1; }
expect "its report" 0 "$ASSAY" report good --json
jq -e '.calls == 10 and .libraries[0].library == "libtinyblas.so"' out >/dev/null || { echo "FAILED: JSON of the report"; FAILED=1; }
expect "a second run into the same folder" 64 "${run[@]}" --record good -- true

expect "guarded, healthy library" 0 "${run[@]}" --guard --record guarded -- "$JOB" steps 3
says "the guard proved itself" err "guard proven at the start"
expect "guarded, a program at fixed addresses" 0 "${run[@]}" --guard --record fixed -- "$JOB_FIXED" steps 3
says "a stub of the program is no free of its own" err "guard proven at the start"
expect "guarded at the front" 0 "${run[@]}" --guard --guard-side begin --record front -- "$JOB" steps 3
export LD_LIBRARY_PATH=$TMP/over
expect "over-reading library, not guarded" 0 "${run[@]}" --record lucky -- "$JOB_OVER" steps 3
expect "over-reading library, guarded" 139 "${run[@]}" --guard --record caught -- "$JOB_OVER" steps 3
unset LD_LIBRARY_PATH
says "the operand and the distance" err "sgemm_ read 0 bytes past the end of operand A"
says "the call" err "NN 16x16x32 float32"
says "the class" err "gemm-reads-past-operand"
if [ -z "${SANITIZED:-}" ]; then # a sanitized assay does not live in so few addresses
    expect "a guard without room" 2 bash -c 'ulimit -v 3500000; exec "$@"' - "${run[@]}" --guard --record noroom -- "$JOB" large
    says "a guard without room is never a pass" err "the guard found no room: nothing was guarded"
fi
expect "a guard that does not work" 2 env ASSAY_RECORD_TEST_NO_GUARD=1 "${run[@]}" --guard --record unproven -- "$JOB" steps 1
says "is never a pass" err "guard-not-proven"

expect "crash" 139 "${run[@]}" --record crash -- "$JOB" crash
says "crash is named" err "signal SEGV in"
expect "own handler still works" 7 "${run[@]}" --record own -- "$JOB" own-handler
expect "read after free, not guarded" 0 "${run[@]}" --record free0 -- "$JOB" after-free
expect "read after free, quarantined" 139 "${run[@]}" --guard --quarantine --record free1 -- "$JOB" after-free
says "read after free" err "already freed"
expect "write past the end" 0 "${run[@]}" --record past0 -- "$JOB" write-past
expect "write into the slack" 1 "${run[@]}" --guard --record past1 -- "$JOB" write-past
says "write into the slack is seen" err "write-past-block"

expect "threads" 0 "${run[@]}" --record threads -- "$JOB" threads 8
says "no call of a thread is lost" err "8002 library calls recorded"
expect "children" 0 "${run[@]}" --record fork -- "$JOB" fork
[ "$(ls fork/record.*.bin | wc -l)" = 3 ] || { echo "FAILED: three processes, not $(ls fork/record.*.bin | wc -l) records"; FAILED=1; }

used=$(du -sk fork | cut -f 1)
[ "$used" -lt 3000 ] || { echo "FAILED: three short records take $used KiB of disk"; FAILED=1; }
expect "helpers of a job" 0 "${run[@]}" --record helpers -- sh -c 'head -c 100000 /dev/zero | cat >/dev/null'
if ls helpers/record.* helpers/maps.* 2>/dev/null; then echo "FAILED: a helper left a record"; FAILED=1; fi

expect "status passed through" 3 "${run[@]}" --record s3 -- sh -c 'exit 3'
expect "signal passed through" 143 "${run[@]}" --record s15 -- sh -c 'kill -TERM $$'
expect "no such command" 127 "${run[@]}" --record none -- "$TMP/nowhere"
says "no such command is said" err "cannot start"
expect "time limit" 124 "${run[@]}" --timeout 1 --record limit -- "$JOB" hang
expect "hang" 124 "${run[@]}" --hang 1 --kill-hung --record hang -- "$JOB" hang
says "hang is seen" err "taking the stacks"
grep -q "waits in" hang/stacks.*.txt || { echo "FAILED: no stack of the job that hangs"; FAILED=1; }
expect "a job that closes stderr" 0 "${run[@]}" --record close -- "$JOB" close
expect "a static program" 0 "${run[@]}" --record static -- "$JOB_STATIC" steps 1
says "a static program leaves no record" err "no process left a record"

expect "expectation met" 0 "${run[@]}" --expect no:mkl --record e1 -- "$JOB" steps 1
expect "expectation broken" 1 "${run[@]}" --expect no:tinyblas --record e2 -- "$JOB" steps 1
mkdir odd-blas; cp "$(dirname "$JOB")/libtinyblas.so" odd-blas/ # one file name in two folders, as libblas.so.3
expect "a library is left by its folder" 0 "${run[@]}" --expect no:odd-blas --record e3 -- "$JOB" steps 1
expect "a library is not left" 1 env LD_LIBRARY_PATH="$TMP/odd-blas" "${run[@]}" --expect no:odd-blas --record e4 -- "$JOB" steps 1
says "it is named by its folder" err "odd-blas/libtinyblas.so"
expect "another library of that name" 0 env LD_LIBRARY_PATH="$TMP/odd-blas" "${run[@]}" --record odd -- "$JOB" steps 1
expect "a full path" 0 "$ASSAY" report odd --expect "yes:$TMP/odd-blas/libtinyblas.so" --expect "no:$(dirname "$JOB")/"
expect "a full path of the other library" 1 "$ASSAY" report odd --expect "yes:$(dirname "$JOB")/libtinyblas.so"
expect "compared" 2 "$ASSAY" compare e3 odd
says "two libraries of one name are told apart" out " odd-blas/libtinyblas.so"
cp -r odd e5; sed -i 's/"build_id": "[0-9a-f]*"/"build_id": "0123456789abcdef"/' e5/libraries.json
expect "compared, rebuilt" 2 "$ASSAY" compare odd e5
says "one path, two builds" out "libtinyblas.so (build id 0123456789ab)"
expect "expectation asked later" 1 "$ASSAY" report good --expect yes:mkl
expect "expectation that cannot be told" 2 "$ASSAY" report static --expect no:mkl
expect "expectation that is none" 64 "$ASSAY" report good --expect mkl

expect "a refinement of no guard" 64 "${run[@]}" --record none2 --quarantine -- true
says "a refinement of no guard" err "give --guard with it"
expect "no command" 64 "$ASSAY" run
expect "no folder" 2 "$ASSAY" report "$TMP/nowhere"
expect "a folder that is no run" 2 "$ASSAY" report "$TMP/over"
expect "a time limit that is no number" 64 "${run[@]}" --timeout soon -- true
if [ "$(id -u)" -ne 0 ]; then
    mkdir readonly; chmod 555 readonly
    expect "a read-only folder" 2 "${run[@]}" --record readonly/x -- true
fi

# A job that is stopped, or will not end, is ended at the limit; a folder that is taken away or a disk
# without room cost the record and never the job.
"${run[@]}" --timeout 2 --record stopped -- "$JOB" forever >/dev/null 2>"$TMP/err" &
supervisor=$!
sleep 0.4
kill -STOP "$(pgrep -P $supervisor)"
wait $supervisor && got=0 || got=$?
[ $got = 124 ] || { echo "FAILED: a stopped job: status $got, not 124"; FAILED=1; }
says "a stopped job" err "stopped at the time limit"
expect "a job that ignores SIGTERM" 124 "${run[@]}" --timeout 1 --record deaf -- "$JOB" deaf
"${run[@]}" --record gone -- "$JOB" steps 20000 >"$TMP/out" 2>"$TMP/err" &
supervisor=$!
until grep -q step gone/stdout.log 2>/dev/null || ! kill -0 $supervisor; do sleep 0.01; done
rm -rf gone
wait $supervisor && got=0 || got=$?
[ $got = 0 ] || { echo "FAILED: a folder that was taken away: status $got, not the job's 0"; FAILED=1; }
says "a folder that was taken away" out "done"
says "a folder that was taken away" err "gone/run.json: No such file"
if unshare -rm true 2>/dev/null; then
    mkdir small
    expect "a small disk" 0 unshare -rm bash -c \
        'mount -t tmpfs -o size=3m none small && exec "$@"' - "${run[@]}" --record small/r -- "$JOB" threads 4
    says "a small disk" out "done"
    says "a small disk" err "no room on the disk"
fi

# What only a build reads is not told as a switch that the job ignored.
expect "switches of a build" 2 env MAX_JOBS=4 PYTORCH_ROCM_ARCH=gfx1100 HCC_DB=1 \
    "$ASSAY" qualify --only command --device cpu --save built --json -- "$JOB" steps 5
jq -e '[.switches[] | .switch + ": " + .result] | sort ==
    ["HCC_DB: does nothing", "MAX_JOBS: build-time switch", "PYTORCH_ROCM_ARCH: build-time switch"]' out >/dev/null ||
    { echo "FAILED: switches of a build"; FAILED=1; }

# A record cut off, or of something else, is said and not believed.
head -c 5000 good/record.*.bin >cut.bin; mkdir cut; cp good/run.json good/stdout.log cut/; cp cut.bin cut/record.1.bin
expect "a record cut off" 0 "$ASSAY" report cut
says "a record cut off is said" out "cut off"
printf 'ASSAYREC' >cut/record.1.bin
expect "a record of eight bytes" 0 "$ASSAY" report cut
says "a record of eight bytes is said" out "not a record"
finish
