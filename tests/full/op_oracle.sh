#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: op_oracle.sh ASSAY
# PyTorch as oracle for every operator: float64 and float32 must pass `assay probe --check` without an
# exception; in 16-bit formats the operators whose CPU kernels add up in the format itself are named.
# Python with torch, safetensors, numpy and transformers: oracle_env.sh.
set -euo pipefail
assay=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
python=$("$here/oracle_env.sh") || exit 77
"$python" -c 'import torch, safetensors, numpy, transformers' 2>/dev/null ||
    { echo "$python has no torch, safetensors, numpy and transformers"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# judge DTYPE [NAME...]: files of that format; those named may fail, all others must pass.
judge() {
    local dtype=$1 file name status passed=0 convicted=""
    shift
    for file in "$scratch/$dtype"/*.safetensors; do
        name=$(basename "$file" .safetensors)
        status=0
        "$assay" probe --check "$file" >"$scratch/out" 2>&1 || status=$?
        if [ "$status" = 0 ]; then
            passed=$((passed + 1))
        elif [ "$status" = 1 ] && [[ " $* " == *" $name "* ]]; then
            convicted="$convicted $name"
        else
            echo "FAILED $dtype $name: exit $status"
            grep -E 'beyond|RMS|assay:' "$scratch/out" | head -4
            failures=$((failures + 1))
        fi
    done
    echo "$dtype: $passed passed; convicted:${convicted:- none}"
}

for seed in 1 2; do
    for dtype in float64 float32 bfloat16 float16; do
        rm -rf "${scratch:?}/$dtype"
        "$python" "$here/op_oracle.py" "$scratch/$dtype" --dtype $dtype --seed $seed >/dev/null
    done
    judge float64
    judge float32
    judge bfloat16 conv3d causal_conv1d_none causal_conv1d_silu patch_embed_conv3d layer_norm layer_norm_far
    # Besides, the mean of squares of a float16 gradient underflows in the first step of AdamW.
    judge float16 conv3d causal_conv1d_none causal_conv1d_silu patch_embed_conv3d layer_norm layer_norm_far adamw_1
done
"$python" "$here/op_oracle.py" "$scratch/long" --dtype float32 --long >/dev/null
judge long
exit $((failures > 0))
