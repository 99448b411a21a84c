#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The trainer's step against transformers and peft, all families, full and LoRA: loss, logits, every
# gradient and activation. Usage: train_oracle.sh TOOL (tests/tools/train_oracle.c).
set -euo pipefail
tool=$1
here=$(realpath "$(dirname "$0")")
python=$("$here/oracle_env.sh") || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$here/train_oracle.py" "$work" 2>"$work/log" || { cat "$work/log"; exit 1; }
"$python" "$here/train_oracle.py" "$work" --double 2>"$work/log" || { cat "$work/log"; exit 1; }
# Largest relative error of any tensor; bfloat16 is held against this program's own rounding instead.
declare -A limit=([float64]=1e-10 [float32]=1e-4 [bfloat16]=1)
failed=0
for dump in "$work"/*.safetensors; do
    name=$(basename "$dump" .safetensors)
    case=${name%%.*}
    dtype=${name#*.}
    model=${case%_lora}
    args=()
    if [ "$case" != "$model" ]; then
        args=("$work/${model}_adapter")
    fi
    "$tool" "$work/$model" "$dump" "${args[@]}" >"$work/rows" || { cat "$work/rows"; failed=1; }
    tensors=$(grep -vc '^#' "$work/rows")
    worst=$(grep -v '^#' "$work/rows" | sort -gr | sed -n '1s/\t.*//p')
    echo "$name: $tensors tensors, largest error $worst"
    if [ "$tensors" -lt 40 ] || ! awk -v x="$worst" -v y="${limit[$dtype]}" 'BEGIN { exit !(x <= y) }'; then
        echo "$name: expected at least 40 tensors and no error above ${limit[$dtype]}"
        failed=1
    fi
done
exit $failed
