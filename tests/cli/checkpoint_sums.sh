#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checksums that torch archives carry are compared by `checkpoint verify`, in every kind of file that holds such archives.
. "$(dirname "$0")/lib.sh"
SAMPLES=$SOURCE/tests/samples/checkpoints

# flip FILE MEMBER: changes a byte inside of a member of a torch archive, or of the archive that contains its last copy
flip() {
    python3 - "$@" <<'PY'
import sys
path, member = sys.argv[1:]
raw = bytearray(open(path, "rb").read())
at = raw.find(member.encode())
start = raw.rfind(b"PK\x03\x04", 0, at)
data = start + 30 + int.from_bytes(raw[start + 26:start + 28], "little") + int.from_bytes(raw[start + 28:start + 30], "little")
raw[data] ^= 4
open(path, "wb").write(raw)
PY
}
cp "$SAMPLES/trainer/checkpoint-2/optimizer.pt" "$TMP/whole.pt"
expect "a whole archive" 0 "$ASSAY" checkpoint verify "$TMP/whole.pt"
cp "$TMP/whole.pt" "$TMP/flipped.pt"
flip "$TMP/flipped.pt" data/1
expect "a byte of a storage changed" 1 "$ASSAY" checkpoint verify "$TMP/flipped.pt"
says "a byte of a storage changed" out "(zip-crc)"
says "a byte of a storage changed" out "data/1"
expect "nothing is hashed that was changed" 1 "$ASSAY" checkpoint hash "$TMP/flipped.pt"

mkdir "$TMP/lightning"
cp "$TMP/flipped.pt" "$TMP/lightning/last.ckpt"
expect "the same in a .ckpt" 1 "$ASSAY" checkpoint verify "$TMP/lightning"
says "the same in a .ckpt" out "(zip-crc)"

cp -r "$SAMPLES/dcp" "$TMP/dcp"
expect "a distributed checkpoint" 0 "$ASSAY" checkpoint verify "$TMP/dcp"
says "a distributed checkpoint" out "distcp"
expect "a distributed checkpoint against itself" 0 "$ASSAY" checkpoint diff --json "$TMP/dcp" "$SAMPLES/dcp"
says "a distributed checkpoint against itself" out '"findings": []'
"$ASSAY" checkpoint show --json "$TMP/dcp" | PYTHONPATH=$SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1 python3 -c '
import json, sys
from safetensors_file import weights
weights(sys.argv[1], {t["tensor"]: [1, 7] for t in json.load(sys.stdin)["tensors"]})' "$TMP/cut.safetensors"
expect "a distributed checkpoint against one that is cut otherwise" 2 "$ASSAY" checkpoint diff "$TMP/dcp" "$TMP/cut.safetensors"
says "a distributed checkpoint against one that is cut otherwise" out "(diff-chunks)"
flip "$TMP/dcp/__0_0.distcp" data/0
expect "a byte of an item changed" 1 "$ASSAY" checkpoint verify "$TMP/dcp"
says "a byte of an item changed" out "(zip-crc)"
python3 - "$TMP/dcp/__0_0.distcp" <<'PY'
import sys
raw = bytearray(open(sys.argv[1], "rb").read())
raw[-300:] = bytes(300)
open(sys.argv[1], "wb").write(raw)
PY
expect "the end of an item is zero" 1 "$ASSAY" checkpoint verify "$TMP/dcp"
says "the end of an item is zero" out "(dcp-item-damaged)"

# torch.serialization.set_crc32_options(False) writes 0 for every member.
python3 - "$TMP/whole.pt" "$TMP/none.pt" <<'PY'
import sys
raw = bytearray(open(sys.argv[1], "rb").read())
for mark, at in ((b"PK\x01\x02", 16), (b"PK\x03\x04", 14), (b"PK\x07\x08", 4)):
    i = raw.find(mark)
    while i >= 0:
        raw[i + at:i + at + 4] = bytes(4)
        i = raw.find(mark, i + 4)
open(sys.argv[2], "wb").write(raw)
PY
expect "an archive without checksums" 0 "$ASSAY" checkpoint verify "$TMP/none.pt"
says "an archive without checksums" out "(zip-without-checksums)"
finish
