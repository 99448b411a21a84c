#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Steps that a GPU computed, judged by the oracle: sound ways must agree, a wrong scale of one attention must be named,
# and TF32, which nobody told the oracle of, must not pass for float32.
# usage: h200_oracle.sh [ASSAY]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=$(realpath "${1:-$here/../../dist/bin/assay}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
python3 "$here/h200_oracle.py" "$work" 2>&1 | grep loss
for model in qwen3 llama; do
    for way in float32-eager float32-sdpa float32-tf32 bfloat16-eager bfloat16-sdpa bfloat16-wrong-scale; do
        want=0
        case $way in *tf32 | *wrong*) want=1 ;; esac
        got=0
        "$assay" train "$work/$model" --oracle --against "$work/$model.$way.safetensors" --quiet >"$work/out" 2>&1 || got=$?
        [ $got = $want ] && echo "h200: ok: $model $way: status $got" || { echo "h200: FAILED: $model $way: status $got, wanted $want"; failures=$((failures + 1)); }
        head -n 3 "$work/out"; tail -n 2 "$work/out"
    done
done
echo "h200: $failures of 12 checks failed"
exit $((failures != 0))
