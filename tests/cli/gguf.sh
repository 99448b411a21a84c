#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GGUF files through checkpoint: whole, cut, with values that are none, and with keys that declare another model.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 77
python3 - "$TMP" <<'PY'
import random, struct, sys
top = sys.argv[1]
r = random.Random(2)

def text(s):
    return struct.pack("<Q", len(s)) + s.encode()

def key(name, kind, value):
    body = {4: lambda: struct.pack("<I", value), 8: lambda: text(value),
            9: lambda: struct.pack("<IQ", 8, len(value)) + b"".join(map(text, value))}[kind]()
    return text(name) + struct.pack("<I", kind) + body

def q8(n, scale=b"\x66\x2e"):  # a float16 of about 0.1
    return b"".join(scale + bytes(r.randrange(256) for _ in range(32)) for _ in range(n // 32))

def save(name, tensors, keys):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(key(*k) for k in keys)
    data = b""
    for tensor, kind, shape, raw in tensors:
        head += text(tensor) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape[::-1])
        head += struct.pack("<IQ", kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    open(f"{top}/{name}.gguf", "wb").write(head + bytes(-len(head) % 32) + data)

words = [f"t{i}" for i in range(8)]
keys = [("general.architecture", 8, "llama"), ("llama.block_count", 4, 2), ("llama.embedding_length", 4, 64),
        ("tokenizer.ggml.tokens", 9, words)]
tensors = [("token_embd.weight", 8, [8, 64], q8(512)), ("blk.0.w.weight", 8, [64, 64], q8(4096)),
           ("blk.1.w.weight", 0, [64, 64], struct.pack("<4096f", *(r.gauss(0, .1) for _ in range(4096))))]

def change(at, **more):
    t = list(tensors)
    t[at] = (more.get("name", t[at][0]), more.get("kind", t[at][1]), more.get("shape", t[at][2]), more.get("raw", t[at][3]))
    return t

save("whole", tensors, keys)
save("other", change(1, raw=q8(4096)), keys)
save("nan", change(1, raw=q8(4064) + q8(32, b"\x00\x7e")), keys)
save("inf", change(1, raw=q8(32, b"\x00\x7c") + q8(4064)), keys)
save("zero", change(1, raw=bytes(4352)), keys)
save("opaque", change(1, kind=9, raw=bytes(range(256)) * 18), keys)  # Q8_1
save("block", [tensors[0], tensors[2]], keys)
save("extra", change(1, name="blk.7.w.weight"), keys)
save("split", [tensors[0], tensors[2]], keys + [("split.count", 4, 2)])
save("words", tensors, keys[:3] + [("tokenizer.ggml.tokens", 9, words + ["more"])])
save("width", tensors, keys[:2] + [("llama.embedding_length", 4, 32)] + keys[3:])
raw = open(f"{top}/whole.gguf", "rb").read()
open(f"{top}/cut.gguf", "wb").write(raw[:-64])
open(f"{top}/header.gguf", "wb").write(raw[:100])
open(f"{top}/old.gguf", "wb").write(b"GGUF\1\0\0\0" + raw[8:])
open(f"{top}/lfs.gguf", "w").write("version https://git-lfs.github.com/spec/v1\n")
PY
flags() { # NAME FINDING FILE [STATUS]
    expect "$1" "${4:-1}" "$ASSAY" checkpoint verify --json "$TMP/$3.gguf"
    says "$1" out "\"id\": \"$2\""
}
expect "whole" 0 "$ASSAY" checkpoint verify --json "$TMP/whole.gguf"
says "whole" out '"findings": []'
expect "a part of a split model" 0 "$ASSAY" checkpoint verify "$TMP/split.gguf"
flags "a scale that is NaN" tensor-nan nan
says "its values" out "32 NaN and 0 infinities among 4096 elements, the first at 4064"
flags "a scale that is infinite" tensor-inf inf
flags "all zero" tensor-zero zero
flags "a type that is not read" tensor-not-read opaque 2
flags "a block without tensors" gguf-block-missing block
flags "a block too many" gguf-block-extra extra
flags "a token too many" gguf-vocabulary words
flags "another width" gguf-shape-declared width
flags "cut" gguf-truncated cut
flags "cut in the header" gguf-truncated header
expect "version 1" 2 "$ASSAY" checkpoint verify "$TMP/old.gguf"
says "version 1" out "(gguf-version)"
flags "git-LFS pointer" not-the-weights lfs
expect "show" 0 "$ASSAY" checkpoint show "$TMP/whole.gguf"
says "show lists types" out "Q8_0"
says "show lists keys" out "8 of string"
expect "the same" 0 "$ASSAY" checkpoint diff --json "$TMP/whole.gguf" "$TMP/whole.gguf"
says "the same" out '"findings": []'
expect "another" 0 "$ASSAY" checkpoint diff "$TMP/whole.gguf" "$TMP/other.gguf"
says "another" out "1 tensors differ, 2 are equal"
expect "a manifest" 0 "$ASSAY" checkpoint hash "$TMP/whole.gguf"
mkdir "$TMP/parts"
for k in 1 3; do cp "$TMP/split.gguf" "$TMP/parts/m-0000$k-of-00003.gguf"; done
expect "a part is missing" 1 "$ASSAY" checkpoint verify --json "$TMP/parts"
says "a part is missing" out "the first is number 2"
[ "$(grep -c '"id": "shard-missing"' "$TMP/out")" = 1 ] || { echo "FAILED: told more than once"; FAILED=1; }
expect "a part alone" 0 "$ASSAY" checkpoint verify "$TMP/parts/m-00003-of-00003.gguf"
cp "$TMP/split.gguf" "$TMP/parts/m-00002-of-00003.gguf"
expect "all parts" 0 "$ASSAY" checkpoint verify "$TMP/parts"
expect "a folder with one" 1 "$ASSAY" checkpoint verify "$TMP"
finish
