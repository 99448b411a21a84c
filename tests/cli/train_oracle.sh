#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay train --oracle: dumps of transformers and peft are judged right, other weights are found, a written
# dump equals itself, and what a user got wrong is named.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE/tests/golden/train
oracle() { local model=$1; shift; echo "$ASSAY" train "$golden/$model" --oracle --quiet "$@"; }

for model in llama llama_tied qwen2 qwen3; do
    for dtype in float64 bfloat16; do
        # shellcheck disable=SC2046
        expect "$model $dtype" 0 $(oracle $model --against "$golden/$model.$dtype.safetensors")
        says "$model $dtype" out "equal up to rounding"
        says "$model $dtype" out ", 0 wrong"
    done
done
for model in llama qwen3; do
    # shellcheck disable=SC2046
    expect "adapter of $model" 0 $(oracle $model --adapter "$golden/${model}_adapter" \
        --against "$golden/${model}_lora.bfloat16.safetensors")
    says "adapter of $model" out ", 0 wrong"
done

# A fresh adapter is not the one of the dump.
# shellcheck disable=SC2046
expect "other weights" 1 $(oracle qwen3 --lora r=3,alpha=6 --against "$golden/qwen3_lora.float64.safetensors" --json)
says "other weights" out '"id": "step-diverges"'
says "other weights" out '"wrong": true'

echo '{"input_ids": [1, 2, 3, 4, 5, 6], "labels": [-100, 2, 3, 4, -100, 6]}' >"$TMP/data.jsonl"
for precision in f64 f32; do
    # shellcheck disable=SC2046
    expect "write $precision" 0 $(oracle qwen2 --data "$TMP/data.jsonl" --dump "$TMP/own.safetensors" -p $precision)
    says "write $precision" out "over 4 labels"
    # shellcheck disable=SC2046
    expect "judge $precision" 0 $(oracle qwen2 --data "$TMP/data.jsonl" --against "$TMP/own.safetensors")
    says "judge $precision" out "0 wrong"
done
# shellcheck disable=SC2046
expect "dump of another model" 2 $(oracle llama --data "$TMP/data.jsonl" --against "$golden/qwen3/model.safetensors")
says "dump of another model" err "nothing was compared"

expect "nothing to do" 64 "$ASSAY" train "$golden/llama" --oracle
says "nothing to do" err "--against FILE"
expect "no batch" 64 "$ASSAY" train "$golden/llama" --oracle --dump "$TMP/x"
says "no batch" err "needs data"
expect "missing dump" 2 "$ASSAY" train "$golden/llama" --oracle --against "$TMP/none.safetensors"
says "missing dump" err "$TMP/none.safetensors"
expect "no folder to write to" 2 "$ASSAY" train "$golden/llama" --oracle --data "$TMP/data.jsonl" --dump "$TMP/none/x"
expect "two adapters" 64 "$ASSAY" train "$golden/llama" --oracle --adapter "$golden/llama_adapter" --lora r=4 --dump "$TMP/x"
says "two adapters" err "leave --lora out"
: >"$TMP/empty.safetensors"
expect "empty dump" 2 "$ASSAY" train "$golden/llama" --oracle --against "$TMP/empty.safetensors"
head -c 40000 "$golden/llama.float64.safetensors" >"$TMP/cut.safetensors"
expect "dump cut off" 2 "$ASSAY" train "$golden/llama" --oracle --against "$TMP/cut.safetensors"
finish
