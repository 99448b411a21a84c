#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: kill.sh COUNT
# A recorded job is killed at COUNT random instants. Each time the record can be read, the report names
# the signal, and the number of calls fits what the job had printed: two calls before each line, so
# lines * 2 or at most two and a bit more.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
count=${1:-20}

killed() { # NUMBER: one run, killed; prints what is wrong
    local name=kill$1 job lines calls status
    "$ASSAY" run --no-facts --quiet --record "$name" -- "$JOB" forever >/dev/null 2>&1 &
    local run=$!
    while ! grep -q step "$name/stdout.log" 2>/dev/null; do
        kill -0 $run 2>/dev/null || { echo "$name: the run ended by itself"; return; }
        sleep 0.01
    done
    sleep "$(printf '0.%03d' $((RANDOM % 200)))"
    job=$(pgrep -P $run -f "$JOB" | head -n 1)
    kill -KILL "$job"
    wait $run
    status=$?
    [ $status = 137 ] || echo "$name: status $status, not 137"
    "$ASSAY" report "$name" --json >"$name.json" 2>"$name.err"
    status=$?
    [ $status = 1 ] || echo "$name: the report's status is $status, not 1"
    lines=$(grep -c '^step' "$name/stdout.log")
    calls=$(jq .calls "$name.json" 2>/dev/null)
    [ "${calls:-0}" -ge $((lines * 2)) ] && [ "$calls" -le $((lines * 2 + 2)) ] ||
        echo "$name: $lines steps were printed, and $calls calls recorded"
    jq -e '.. | strings | select(test("SIGKILL"))' "$name.json" >/dev/null || echo "$name: SIGKILL is not named"
    rm -rf "$name" "$name.json" "$name.err"
}
export -f killed
export ASSAY JOB
seq "$count" | xargs -P 4 -I{} bash -c 'killed {}' >faults 2>&1
if [ -s faults ]; then
    head -n 20 faults
    FAILED=1
fi
echo "$count jobs killed, $(wc -l <faults) faults"
finish
