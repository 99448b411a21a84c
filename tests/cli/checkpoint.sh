#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checkpoint: what is whole passes; cut, padded, poisoned, misplaced and altered files are named.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 77
python3 - "$TMP" <<'PY'
import json, os, random, struct, sys
top = sys.argv[1]
random.seed(1)

def save(path, tensors):
    head, data = {}, b""
    for name, values in tensors.items():
        raw = struct.pack("<%df" % len(values), *values)
        head[name] = {"dtype": "F32", "shape": [len(values) // 64, 64], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
    return len(data)

w = {"model.layers.%d.w" % i: [random.gauss(0, .02) for _ in range(4096)] for i in range(4)}
a, b = dict(list(w.items())[:2]), dict(list(w.items())[2:])
names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
total = save(f"{top}/whole/{names[0]}", a) + save(f"{top}/whole/{names[1]}", b)
index = {"metadata": {"total_size": total}, "weight_map": {**{k: names[0] for k in a}, **{k: names[1] for k in b}}}
json.dump(index, open(f"{top}/whole/model.safetensors.index.json", "w"))
for name, change in {"total": lambda x: x["metadata"].update(total_size=total + 4),
                     "elsewhere": lambda x: x["weight_map"].update({"model.layers.0.w": names[1]}),
                     "extra": lambda x: x["weight_map"].pop("model.layers.3.w")}.items():
    x = json.loads(json.dumps(index)); change(x)
    save(f"{top}/{name}/{names[0]}", a); save(f"{top}/{name}/{names[1]}", b)
    json.dump(x, open(f"{top}/{name}/model.safetensors.index.json", "w"))
for value, name in ((float("nan"), "nan"), (float("inf"), "inf"), (1e30, "huge")):
    x = {k: list(v) for k, v in w.items()}; x["model.layers.1.w"][777] = value
    save(f"{top}/{name}.safetensors", x)
x = {"module." + k: list(v) for k, v in w.items()}; x["module.model.layers.2.w"][5] += 1
save(f"{top}/trained.safetensors", x)
save(f"{top}/base.safetensors", w)
raw = open(f"{top}/base.safetensors", "rb").read()
open(f"{top}/cut.safetensors", "wb").write(raw[:-100])
open(f"{top}/padded.safetensors", "wb").write(raw + b"\0")
open(f"{top}/lfs.safetensors", "w").write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
open(f"{top}/page.safetensors", "w").write("<!DOCTYPE html><title>404</title>")
PY

flags() { # NAME FINDING PATH
    expect "$1" 1 "$ASSAY" checkpoint verify --json "$3"
    says "$1" out "\"id\": \"$2\""
}
expect "whole shards" 0 "$ASSAY" checkpoint verify "$TMP/whole"
expect "whole file" 0 "$ASSAY" checkpoint verify "$TMP/base.safetensors"
flags "cut file" safetensors-truncated "$TMP/cut.safetensors"
flags "padded file" safetensors-trailing "$TMP/padded.safetensors"
flags "LFS pointer" not-the-weights "$TMP/lfs.safetensors"
flags "HTML page" not-the-weights "$TMP/page.safetensors"
flags "NaN" tensor-nan "$TMP/nan.safetensors"
flags "infinity" tensor-inf "$TMP/inf.safetensors"
flags "exponent bit" tensor-norm "$TMP/huge.safetensors"
flags "index total" index-total "$TMP/total"
flags "index names another shard" index-tensor-elsewhere "$TMP/elsewhere"
flags "index lacks a tensor" index-tensor-extra "$TMP/extra"
rm "$TMP/extra/model-00002-of-00002.safetensors"
flags "missing shard" index-file-missing "$TMP/extra"

expect "text form" 1 "$ASSAY" checkpoint verify "$TMP/nan.safetensors"
expect "show" 0 "$ASSAY" checkpoint show "$TMP/base.safetensors"
says "show" out "[64, 64]"
expect "sample is no verdict" 2 "$ASSAY" checkpoint verify --sample 2 "$TMP/base.safetensors"

expect "manifest" 0 "$ASSAY" checkpoint hash "$TMP/whole" -o "$TMP/whole/assay-manifest.json"
expect "manifest agrees" 0 "$ASSAY" checkpoint verify "$TMP/whole"
shard=$TMP/whole/model-00001-of-00002.safetensors
printf '\001' | dd of="$shard" bs=1 seek=9000 conv=notrunc 2>/dev/null
flags "changed byte" manifest-tensor-differs "$TMP/whole"
sha=$(sha256sum "$TMP/base.safetensors" | cut -d' ' -f1)
mkdir "$TMP/listed"; cp "$TMP/base.safetensors" "$TMP/listed/"
echo "$sha  base.safetensors" >"$TMP/listed/sha256sum.txt"
expect "sha256sum.txt agrees" 0 "$ASSAY" checkpoint verify "$TMP/listed"
md5sum "$TMP/nan.safetensors" | sed 's/  .*/  base.safetensors/' >"$TMP/listed/md5sum.txt"
flags "md5sum.txt differs" manifest-file-differs "$TMP/listed"

expect "diff across prefixes" 0 "$ASSAY" checkpoint diff --json "$TMP/base.safetensors" "$TMP/trained.safetensors"
says "diff finds the one tensor" out "1 tensors differ, 3 are equal"
expect "odd replica" 1 "$ASSAY" checkpoint diff "$TMP/base.safetensors" "$TMP/base.safetensors" "$TMP/huge.safetensors"
says "odd replica is named" out "huge.safetensors"

expect "nothing there" 2 "$ASSAY" checkpoint verify "$TMP/nowhere"
expect "no model files" 2 "$ASSAY" checkpoint verify "$SOURCE/docs"
expect "no action" 64 "$ASSAY" checkpoint
expect "wrong action" 64 "$ASSAY" checkpoint explode "$TMP"
expect "wrong number" 64 "$ASSAY" checkpoint verify --threads many "$TMP"
mkfifo "$TMP/fifo.safetensors"
expect "a FIFO" 1 "$ASSAY" checkpoint verify "$TMP/fifo.safetensors"

# What stands in the place of weights. Each is one finding that says what it is.
python3 - "$TMP" <<'PY'
import json, os, struct, sys
top = sys.argv[1] + "/instead"
os.makedirs(top)
header = json.dumps({"a.weight": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}).encode()
whole = struct.pack("<Q", len(header)) + header + struct.pack("<16f", *range(1, 17))
for name, text in {"page": b"\n <!DOCTYPE html><html>404</html>", "denied": b"Access to model x/y is restricted.",
                   "xet": b"# xet version 0\nfilesize = 9\n", "empty": b"", "short": whole[:20], "cut": whole[:-8],
                   "big-endian": struct.pack(">Q", len(header)) + whole[8:]}.items():
    os.makedirs(f"{top}/{name}")
    open(f"{top}/{name}/model.safetensors", "wb").write(text)
for name, target in {"dangling": "../../blobs/x", "circle": "model.safetensors"}.items():
    os.makedirs(f"{top}/{name}")
    os.symlink(target, f"{top}/{name}/model.safetensors")
os.makedirs(f"{top}/cycle/below")
os.symlink("..", f"{top}/cycle/below/up")
open(f"{top}/cycle/model.safetensors", "wb").write(whole)
os.makedirs(f"{top}/index")
open(f"{top}/index/pytorch_model.bin.index.json", "w").write(json.dumps(
    {"metadata": {"total_size": 9}, "weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}))
PY
instead() { # NAME FINDING TEXT
    expect "instead of weights: $1" 1 "$ASSAY" checkpoint verify "$TMP/instead/$1"
    says "$1 is named" out "($2)"
    says "$1 is described" out "$3"
    [ "$(grep -c evidence "$TMP/out")" = 1 ] || { echo "FAILED $1: more than one finding"; FAILED=1; }
}
instead page not-the-weights "an HTML page"
instead denied not-the-weights "Access to model x/y is restricted."
instead xet not-the-weights "a Xet pointer"
instead empty folder-empty-file "0 bytes"
instead short safetensors-truncated "ends after"
instead cut safetensors-truncated "8 are missing"
instead big-endian safetensors-header-size "big-endian"
instead dangling link-broken "never downloaded"
instead circle link-broken "ELOOP"
instead index index-file-missing "pytorch_model-00001-of-00002.bin"
expect "a link to the folder above is not followed" 0 "$ASSAY" checkpoint verify "$TMP/instead/cycle"
finish
