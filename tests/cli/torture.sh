#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails the n-th malloc, open, read, mmap and opendir of a run: each must end with one of our exit
# statuses and, when it is 2, with a sentence; never by a signal, never by hanging, and never with
# "nothing wrong" on a log that holds a fault.
. "$(dirname "$0")/lib.sh"
FAIL_LIB=${FAIL_LIB:?set FAIL_LIB to fail_nth.so}
case $(ldd "$ASSAY") in *asan*) echo "the sanitizer owns malloc"; exit 77 ;; esac

printf 'step 1\nRuntimeError: HIP error: invalid device function\n' >"$TMP/fault.log"
gzip -k "$TMP/fault.log"

# torture NAME STEPS COMMAND...: at most STEPS positions per call, spread over all that happen.
torture() {
    local name=$1 steps=$2 call total n status stride
    shift 2
    for call in malloc open read mmap opendir; do
        FAIL_CALL=$call FAIL_NTH=0 FAIL_COUNT="$TMP/count" LD_PRELOAD="$FAIL_LIB" "$@" >/dev/null 2>&1 </dev/null || true
        total=$(cat "$TMP/count")
        stride=$((total / steps + 1))
        for ((n = 1; n <= total; n += stride)); do
            status=0
            FAIL_CALL=$call FAIL_NTH=$n LD_PRELOAD="$FAIL_LIB" timeout 20 "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
            case $status in
            0) [ "$name" = doctor ] || { echo "FAILED $name: $call number $n fails, and it exits 0"; FAILED=1; } ;;
            1) ;;
            2) [ -s "$TMP/err" ] || [ -s "$TMP/out" ] || { echo "FAILED $name: $call number $n: exit 2 and no sentence"; FAILED=1; } ;;
            *) echo "FAILED $name: $call number $n of $total fails: exit $status"; head -n 5 "$TMP/err"; FAILED=1 ;;
            esac
        done
        echo "$name: $call failed at $(((total + stride - 1) / stride)) of $total places"
    done
}

torture diagnose 60 "$ASSAY" diagnose "$TMP/fault.log"
torture "diagnose gz" 25 "$ASSAY" diagnose "$TMP/fault.log.gz"
torture doctor 30 "$ASSAY" doctor --root "$SOURCE/tests/hosts/r9700-therock-kpack/root"

# Losses that differ: no failing call may make them the same.
for i in $(seq 30); do
    echo "step $i loss 1.$((30 - i + 10))" >>"$TMP/a.log"
    echo "step $i loss 2.$((30 - i + 10))" >>"$TMP/b.log"
done
torture compare 25 "$ASSAY" compare --force "$TMP/a.log" "$TMP/b.log"
finish
