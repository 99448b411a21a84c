#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Qwen3.5 and Qwen3-VL against transformers and peft: text, pictures, deepstack and adapters; loss and every
# gradient in float64, float32 and bfloat16. Usage: train_oracle_qwen35.sh TEST (tests/unit/
# test_train_golden_qwen.c).
set -euo pipefail
test=$1
here=$(realpath "$(dirname "$0")")
python=$("$here/oracle_env.sh") || exit 77
if ! "$python" -c 'import transformers.models.qwen3_5, transformers.models.qwen3_vl' 2>/dev/null; then
    echo "this transformers has no Qwen3.5"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for dtype in float32 float64 bfloat16; do
    "$python" "$here/train_oracle_qwen35.py" "$work" "$dtype" 2>"$work/log" || { cat "$work/log"; exit 1; }
done
"$test" "$work"
