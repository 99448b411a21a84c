#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints written by the real libraries are accepted, and 3,300 copies with one fault each are not.
# Needs torch, transformers, peft, deepspeed and gguf: oracle_env.sh.
set -euo pipefail
python=$("$(dirname "$0")/oracle_env.sh") || exit 77
for package in torch transformers peft deepspeed gguf; do
    "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)" || {
        echo "skipped: $python has no $package"
        exit 77
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$SOURCE/tests/full/make_checkpoints.py" "$work/real" >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
tail -n 1 "$work/log"
mkdir "$work/real/gguf"
"$python" "$SOURCE/tests/full/make_gguf.py" "$work/real/gguf/types.gguf" 64 2>>"$work/log"
cd "$work/real"
samples=(torch/state.pt torch/legacy.pt torch/views.pt trainer peft/run/checkpoint-4 dcp fsdp zero1 zero2 zero3
    gguf/types.gguf)
for s in "${samples[@]}"; do
    [ -e "$s" ] || { echo "FAILED: $s was not made"; exit 1; }
done
"$READ_CHECKPOINT" families/* >"$work/families" || { grep rejected "$work/families"; exit 1; }
echo "$(wc -l <"$work/families") models of families accepted"
for m in merge/*; do
    "$ASSAY" checkpoint diff "$m/base" "$m/merged" --adapter "$m/adapter" >"$work/merge" || { cat "$work/merge"; exit 1; }
done
python3 "$SOURCE/tools/corrupt.py" --count 300 "$READ_CHECKPOINT" "${samples[@]}"
