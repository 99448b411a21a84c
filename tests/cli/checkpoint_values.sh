#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values that look odd in weights and are as they should be: an optimizer's, a token's. Odd ones stay odd.
. "$(dirname "$0")/lib.sh"
export PYTHONPATH=$SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1
FILES=$SOURCE/tests/fuzz/corpus/torch_file
expect "squares of small gradients, kept by Adagrad" 0 "$ASSAY" checkpoint verify "$FILES/adagrad"
expect "padding that ZeRO-3 never writes" 0 "$ASSAY" checkpoint verify "$FILES/zero3_padding"
says "padding that ZeRO-3 never writes" out "padding of a partition"
expect "NaN beside it" 1 "$ASSAY" checkpoint verify "$FILES/zero3_nan"
says "NaN beside it" out "(tensor-nan)"
python3 - "$TMP" <<'PY'
import sys
from safetensors_file import normal, save
top = sys.argv[1]
w = ("F32", [4, 8], normal(32))
save(top + "/token.safetensors", {"w.weight": w, "embeddings.mask_token": ("F32", [1, 8], [0.0] * 8), "cls_token": ("F32", [1, 1, 8], [0.0] * 8)})
save(top + "/head.safetensors", {"w.weight": w, "score.weight": ("F32", [1, 8], [0.0] * 8)})
layers = {f"model.layers.{i}.{n}.weight": ("F32", [4, 8], normal(32, i)) for i in range(12) for n in ("up", "norm")}
save(top + "/layers.safetensors", layers)
half = dict(layers, **{"model.layers.11.up.weight": ("F16", [4, 8], bytes([0, 0x2c] * 32)), "model.layers.1.up.weight": ("F16", [4, 8], bytes([0, 0x2c] * 32))})
save(top + "/half.safetensors", half)
save(top + "/eight.safetensors", dict(layers, **{"model.layers.3.up.weight": ("F8_E4M3", [4, 8], bytes([0x38] * 32)), "head1.weight": ("F16", [1, 8], bytes([0, 0x2c] * 8))}))
save(top + "/table.safetensors", {"w.weight": w, "table": ("F32", [4, 8], [0.0] * 32)})
PY
expect "tokens that begin at zero" 0 "$ASSAY" checkpoint verify "$TMP/token.safetensors"
for sound in layers eight; do
    expect "layers of $sound" 0 "$ASSAY" checkpoint verify --json "$TMP/$sound.safetensors"
    says "layers of $sound" out '"findings": []'
done
expect "two layers of another type" 0 "$ASSAY" checkpoint verify "$TMP/half.safetensors"
says "two layers of another type" out "(tensor-types-mixed)"
says "two layers of another type" out "1 kinds of weights"
for odd in head table; do
    expect "a $odd of zeros" 1 "$ASSAY" checkpoint verify "$TMP/$odd.safetensors"
    says "a $odd of zeros" out "(tensor-zero)"
done
finish
