#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay train with pictures: a step of transformers is judged right, training goes on from its loss, the
# checkpoint it writes is read again, and pictures in the wrong place are named.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE/tests/golden/train

for model in qwen3_5 qwen3_vl; do
    step=$golden/$model/step.float64.safetensors
    expect "$model oracle" 0 "$ASSAY" train "$golden/$model" --oracle --quiet --against "$step"
    says "$model oracle" out ", 0 wrong"
    expect "$model train" 0 "$ASSAY" train "$golden/$model" --data "$step" --batch 3 --steps 3 --lr 1e-2 \
        --no-shuffle --schedule constant --quiet --save "$TMP/$model"
    expect "$model again" 0 "$ASSAY" train "$TMP/$model/checkpoint-3" --data "$step" --batch 3 --steps 1 \
        --no-shuffle --quiet
done
# The first loss is the dump's own, three updates later it is lower.
expect "loss" 0 grep -c '"loss": 4.6077' "$TMP/qwen3_5/metrics.jsonl"
expect "loss falls" 0 awk -F'"loss": ' '/"loss"/ { split($2, v, ","); if (NR > 1 && v[1] >= last) exit 1; last = v[1] }' \
    "$TMP/qwen3_5/metrics.jsonl"

step=$golden/qwen3_5/step.float64.safetensors
expect "cut sample" 2 "$ASSAY" train "$golden/qwen3_5" --data "$step" --length 20 --steps 1 --quiet
says "cut sample" err "raise the length"
expect "no tower" 2 "$ASSAY" train "$golden/qwen3" --data "$step" --steps 1 --quiet
says "no tower" err "no vision tower"
echo '{"input_ids": [1, 58, 3], "labels": [1, 2, 3]}' >"$TMP/lost.jsonl"
expect "token without picture" 2 "$ASSAY" train "$golden/qwen3_5" --data "$TMP/lost.jsonl" --steps 1 --quiet
says "token without picture" err "lost.jsonl:1: token 58 stands for a picture, and there is none"
finish
