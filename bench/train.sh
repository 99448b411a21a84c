#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The reference trainer beside PyTorch eager on this CPU: a Llama of 25 M parameters, float32, updates of 4 x 256
# tokens with AdamW. CPU seconds of one thread are steady on a busy machine; seconds on all cores are not.
# usage: train.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
steps=${STEPS:-7}
cores=$(nproc)
if ! python=$(tests/full/oracle_env.sh); then
    echo "no PyTorch to compare with"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" bench/train_torch.py make "$work"

# Seconds of one update: two runs of different length, so that start and random weights fall out.
ours() { # THREADS BLAS user|wall
    local short long
    run() {
        local TIMEFORMAT='%R %U %S'
        { time "$build/assay" train "$work" --random --data "$work/ids.safetensors" --batch 4 --length 256 --lr 1e-4 \
            --brief --quiet --steps "$1" --threads "$2" --blas "$3" >/dev/null; } 2>&1 | tail -n 1
    }
    short=$(run 2 "$1" "$2")
    long=$(run $((2 + steps)) "$1" "$2")
    echo "$short $long" | awk -v n="$steps" -v what="$3" \
        '{print what == "wall" ? ($4 - $1) / n : ($5 + $6 - $2 - $3) / n}'
}

read -r torch_cpu _ < <("$python" bench/train_torch.py "$work" "$steps" 1 2>/dev/null)
read -r _ torch_wall < <("$python" bench/train_torch.py "$work" "$steps" "$cores" 2>/dev/null)
printf '%-34s %14s %14s\n' "" "CPU s, 1 thread" "s, $cores threads"
printf '%-34s %14.3f %14.3f\n' "PyTorch eager" "$torch_cpu" "$torch_wall"
for blas in own libopenblas.so.0; do
    cpu=$(ours 1 $blas user)
    wall=$(ours "$cores" $blas wall)
    printf '%-34s %14.3f %14.3f\n' "assay train --blas $blas" "$cpu" "$wall"
    printf '%-34s %14.2f %14.2f\n' "  times as fast" "$(awk "BEGIN {print $torch_cpu / $cpu}")" \
        "$(awk "BEGIN {print $torch_wall / $wall}")"
done
