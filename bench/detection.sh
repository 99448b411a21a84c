#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: bench/detection.sh [BUILD [SERIES]]
# Recall and false alarms of 'assay watch' beside fixed limits: on made-up series, and on losses of real trainings of the
# built-in trainer (all weights and LoRA, small and larger batches) with anomalies planted into them. Prints the tables.
set -euo pipefail
build=$PWD/${1:-build}
series=${2:-20}
top=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ "$series" = 0 ] || "$build/tests/tools/anomaly_figures" "$series"
train() { # NAME OPTION...
    local name=$1
    shift
    timeout 300 "$build/assay" train "$top/examples/train/model" --random --data "$top/examples/train/alice.txt" --quiet \
        --save "$tmp/$name.run" "$@" >"$tmp/$name.out" 2>&1
    python3 - "$tmp/$name.run/metrics.jsonl" >"$tmp/$name" <<'P'
import json, sys
for line in open(sys.argv[1]):
    loss = json.loads(line).get("loss")
    if loss is not None: print(loss)
P
}
train small-batches --length 32 --batch 1 --steps 6000 --lr 1e-3
train larger-batches --length 64 --batch 8 --steps 2500 --lr 1e-3
train adapters --length 32 --batch 4 --steps 4000 --lr 2e-3 --lora r=8,alpha=16
train no-shuffle --length 32 --batch 4 --steps 3000 --lr 1e-3 --no-shuffle
echo
"$build/tests/tools/anomaly_figures" 10 "$tmp/small-batches" "$tmp/larger-batches" "$tmp/adapters" "$tmp/no-shuffle"
