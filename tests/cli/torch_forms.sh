#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Forms of torch.save that are no plain state dict of floats, as torch 2.15 wrote them (tests/fuzz/corpus/torch_file),
# and element types that only safetensors names.
. "$(dirname "$0")/lib.sh"
export PYTHONPATH=$SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1
FILES=$SOURCE/tests/fuzz/corpus/torch_file
for form in archive legacy legacy_protocol4 legacy_complex quantised builtins views; do
    expect "$form" 0 "$ASSAY" checkpoint verify "$FILES/$form"
done
expect "complex numbers" 0 "$ASSAY" checkpoint show "$FILES/legacy_complex"
says "complex numbers" out "C128"
expect "complex numbers against themselves" 0 "$ASSAY" checkpoint diff "$FILES/legacy_complex" "$FILES/legacy_complex"
expect "tensors of the meta device" 1 "$ASSAY" checkpoint verify "$FILES/meta"
says "tensors of the meta device" out "(torch-meta-tensor)"
expect "a whole model" 1 "$ASSAY" checkpoint verify "$FILES/whole_model"
says "a whole model" out "(torch-whole-model)"
expect "an exported program" 2 "$ASSAY" checkpoint verify "$FILES/exported"
says "an exported program" out "torch.export"

python3 - "$TMP" <<'PY'
import struct, sys
from safetensors_file import save
top = sys.argv[1]
nan = float("nan")
save(top + "/small.safetensors", {"e8m0": ("F8_E8M0", [4], bytes([127, 120, 0, 254])), "f4": ("F4", [4, 2], bytes([0x12, 0x9a, 0xf3, 0x01])),
                                  "c64": ("C64", [2], struct.pack("<4f", .1, .2, .3, .4))})
save(top + "/scale.safetensors", {"e8m0": ("F8_E8M0", [4], bytes([127, 120, 255, 254]))})
save(top + "/complex.safetensors", {"c64": ("C64", [2], struct.pack("<4f", .1, .2, .3, nan))})
save(top + "/a.safetensors", {"c64": ("C64", [2], struct.pack("<4f", 1, 2, 3, 4))})
save(top + "/b.safetensors", {"c64": ("C64", [2], struct.pack("<4f", 1, 2, 3, 4.5))})
PY
expect "small types" 0 "$ASSAY" checkpoint verify "$TMP/small.safetensors"
expect "a scale that is NaN" 1 "$ASSAY" checkpoint verify "$TMP/scale.safetensors"
says "a scale that is NaN" out "(tensor-nan)"
expect "an imaginary part that is NaN" 1 "$ASSAY" checkpoint verify "$TMP/complex.safetensors"
says "an imaginary part that is NaN" out "(tensor-nan)"
expect "complex numbers that differ" 0 "$ASSAY" checkpoint diff --json "$TMP/a.safetensors" "$TMP/b.safetensors"
says "complex numbers that differ" out '"max_difference": 0.5'
finish
