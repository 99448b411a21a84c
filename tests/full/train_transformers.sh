#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_transformers.sh ASSAY SOURCE
# Runs of `assay train` beside transformers, PEFT and torch on the same data: full training and LoRA, accumulation with
# samples of unequal length and masked prompts, clipping, warm-up, decay groups, the last update of an epoch smaller.
# Python with torch, transformers, peft, safetensors: oracle_env.sh.
set -euo pipefail
assay=$(realpath "$1")
SOURCE=$2
here=$(dirname "$(realpath "$0")")
python=$("$here/oracle_env.sh") || exit 77
"$python" -c 'import torch, transformers, peft, safetensors' 2>/dev/null ||
    { echo "$python has no torch, transformers, peft, safetensors"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" - "$scratch/data.jsonl" <<'PY'
import json, random, sys
random.seed(1)
with open(sys.argv[1], "w") as f:
    for _ in range(25):
        ids = [random.randrange(512) for _ in range(random.randrange(4, 40))]
        masked = random.randrange(0, len(ids) - 1)
        json.dump({"input_ids": ids, "labels": [-100] * masked + ids[masked:]}, f)
        f.write("\n")
PY
train=("$assay" train --data "$scratch/data.jsonl" --steps 20 --batch 2 --accumulate 3 --lr 1e-2 --warmup 3
    --weight-decay 0.1 --precision f64 --save-every 1 --keep 0 --quiet)
"$assay" train "$SOURCE/examples/train/model" --random --data "$scratch/data.jsonl" --steps 1 --lr 0 --save "$scratch/init" --quiet >/dev/null
model=$scratch/init/checkpoint-1
rm "$model/optimizer.safetensors" "$model/assay-manifest.json"
"${train[@]}" "$model" --save "$scratch/whole" >/dev/null
"$python" "$here/train_transformers.py" "$model" "$scratch/data.jsonl" "$scratch/whole"
"${train[@]}" "$model" --save "$scratch/lora" --lora r=4,alpha=8,targets=q_proj+v_proj+down_proj >/dev/null
"$python" "$here/train_transformers.py" "$model" "$scratch/data.jsonl" "$scratch/lora" --lora
