#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: kill.sh ASSAY SOURCE [COUNT]
# A run that writes a checkpoint after every update is killed with SIGKILL at COUNT random instants. What it leaves
# must verify each time, and the run that was killed COUNT times must end with the bytes of one that was not.
set -euo pipefail
ASSAY=$(realpath "$1")
SOURCE=$2
count=${3:-20}
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
. "$SOURCE/tests/train/model.sh"
make_model "$TMP/model"
make_text "$TMP/data.txt"
seed=${KILL_SEED:-$$}
RANDOM=$seed
steps=$((count * 6 + 20))
# Without a function around it: $! must be the process itself.
train=("$ASSAY" train "$TMP/model" --random --data "$TMP/data.txt" --length 32 --batch 2 --steps "$steps" --lr 1e-3
    --save-every 1 --threads 2 --eval-share 0.02 --resume --quiet --save)
fail() {
    echo "FAILED (KILL_SEED=$seed): $*"
    exit 1
}

began=$(date +%s%N)
"${train[@]}" "$TMP/whole" >/dev/null
ms_per_step=$((($(date +%s%N) - began) / 1000000 / steps))
killed=0
torn=0
for _ in $(seq "$count"); do
    "${train[@]}" "$TMP/torn" >"$TMP/out" 2>&1 &
    pid=$!
    # Somewhere within the next six updates, in steps of a tenth of a millisecond.
    us=$((RANDOM * 32768 + RANDOM))
    us=$((us % ((ms_per_step * 5 + 20) * 1000) + 1000))
    sleep "$((us / 1000000)).$(printf '%06d' $((us % 1000000)))"
    if kill -9 "$pid" 2>/dev/null; then
        killed=$((killed + 1))
    fi
    wait "$pid" 2>/dev/null || true
    if compgen -G "$TMP/torn/*.part" >/dev/null || compgen -G "$TMP/torn/*.old" >/dev/null; then
        torn=$((torn + 1))
    fi
    for c in "$TMP"/torn/checkpoint-*; do
        [[ $c =~ checkpoint-[0-9]+$ ]] || continue
        "$ASSAY" checkpoint verify "$c" >"$TMP/out" 2>&1 || { cat "$TMP/out"; fail "$c does not verify"; }
    done
done
"${train[@]}" "$TMP/torn" >"$TMP/out" 2>&1 || { cat "$TMP/out"; fail "it cannot be resumed"; }
for file in model.safetensors optimizer.safetensors assay_state.json; do
    cmp "$TMP/whole/checkpoint-$steps/$file" "$TMP/torn/checkpoint-$steps/$file" || fail "$file differs"
done
# All updates once each, in order, with the same loss; only times and memory may differ.
for run in whole torn; do
    sed -E 's/"(seconds|tokens_per_second|eval_seconds|memory_bytes|grad_cosine)": [^,}]*[,]? ?//g' \
        "$TMP/$run/metrics.jsonl" >"$TMP/$run.lines"
done
cmp "$TMP/whole.lines" "$TMP/torn.lines" || fail "metrics.jsonl differs"
echo "killed $killed of $count times, $torn times in the middle of a checkpoint; $steps updates, same bytes at the end"
[ "$killed" -gt 0 ] || fail "no process was killed: nothing was tested"
