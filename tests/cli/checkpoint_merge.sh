#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checkpoint diff --adapter: a merge that is right, and each way in which one is wrong. Also names across
# wrappers and tied heads.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 77
python3 - "$TMP" <<'PY'
import json, os, random, struct, sys
top = sys.argv[1]
r = random.Random(4)
OUT, IN, RANK = 48, 32, 4

def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff

def value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]

def save(path, tensors, kind="F32"):
    head, data = {}, b""
    for name, rows in tensors.items():
        flat = [x for row in rows for x in row]
        raw = struct.pack("<%df" % len(flat), *flat) if kind == "F32" else struct.pack("<%dH" % len(flat), *map(bf16, flat))
        head[name] = {"dtype": kind, "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)

def matrix(rows, columns, size):
    return [[struct.unpack("<f", struct.pack("<f", r.gauss(0, size)))[0] for _ in range(columns)] for _ in range(rows)]

A, B = matrix(RANK, IN, .2), matrix(OUT, RANK, .05)
other = matrix(8, 8, .1)
W = matrix(OUT, IN, .1)

def merged(scale, w=W):
    return [[w[i][j] + scale * sum(B[i][k] * A[k][j] for k in range(RANK)) for j in range(IN)] for i in range(OUT)]

q, n = "model.layers.0.self_attn.q_proj", "model.embed_tokens.weight"
save(f"{top}/base/model.safetensors", {q + ".weight": W, n: other})
config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["q_proj"]}
pair = {f"base_model.model.{q}.lora_A.weight": A, f"base_model.model.{q}.lora_B.weight": B}
def adapter(name, tensors=pair, **more):
    save(f"{top}/{name}/adapter_model.safetensors", tensors)
    json.dump({**config, **more}, open(f"{top}/{name}/adapter_config.json", "w"))
adapter("adapter")
adapter("half", {k: v for k, v in pair.items() if "lora_A" in k})
adapter("rs", use_rslora=True)
adapter("pattern", alpha_pattern={"q_proj": 2})
adapter("dora", use_dora=True)
adapter("ia3", peft_type="IA3")
adapter("wide", {k: [row + row for row in v] if "lora_A" in k else v for k, v in pair.items()})
adapter("elsewhere", {k.replace("layers.0", "layers.9"): v for k, v in pair.items()})
adapter("kept", {**pair, "base_model.model.model.embed_tokens.weight": matrix(8, 8, .1)})
adapter("embedding", {**pair, "base_model.model.model.embed_tokens.lora_embedding_A": matrix(RANK, 8, .1),
                      "base_model.model.model.embed_tokens.lora_embedding_B": matrix(8, RANK, .1)})
adapter("copied", {**pair, f"base_model.model.{q}.base_layer.weight": W})
adapter("miscopied", {**pair, f"base_model.model.{q}.base_layer.weight": other})
adapter("foreign", {**pair, "base_model.model.lora_embedding_A": other})
os.makedirs(f"{top}/broken"); open(f"{top}/broken/adapter_config.json", "w").write("{")
def model(name, w, kind="F32", **more):
    save(f"{top}/{name}/model.safetensors", {q + ".weight": w, n: other, **more}, kind)
model("right", merged(2))
model("wrapped", merged(2)); save(f"{top}/wrapped/model.safetensors", {"module._orig_mod." + q + ".weight": merged(2), "module._orig_mod." + n: other})
model("twice", merged(4))
model("minus", merged(-2))
one = merged(2); one[5][7] += .01; model("one", one)
model("noise", [[x + r.gauss(0, .1) for x in row] for row in merged(2)])
model("other", merged(2)); save(f"{top}/other/model.safetensors", {q + ".weight": merged(2), n: matrix(8, 8, .1)})
model("extra", merged(2), extra=other)
save(f"{top}/left/model.safetensors", {q + ".weight": merged(2)})
# bf16 throughout: one rounding of the sum; and weights so large that the delta is below their rounding.
coarse = [[value(bf16(x)) for x in row] for row in W]
save(f"{top}/base16/model.safetensors", {q + ".weight": coarse, n: other}, "BF16")
save(f"{top}/right16/model.safetensors", {q + ".weight": merged(2, coarse), n: other}, "BF16")
large = [[value(bf16(30 + x)) for x in row] for row in W]
save(f"{top}/large/model.safetensors", {q + ".weight": large, n: other}, "BF16")
save(f"{top}/lost/model.safetensors", {q + ".weight": merged(2, large), n: other}, "BF16")
# A tied head that one of the two stores.
save(f"{top}/tied/model.safetensors", {n: other})
save(f"{top}/untied/model.safetensors", {"model.language_model.embed_tokens.weight": other, "lm_head.weight": other})
save(f"{top}/parted/model.safetensors", {n: other, "lm_head.weight": matrix(8, 8, .1)})
PY
merge() { # NAME STATUS BASE MERGED ADAPTER FINDING
    expect "$1" "$2" "$ASSAY" checkpoint diff --json "$TMP/$3" "$TMP/$4" --adapter "$TMP/$5"
    says "$1" out "$6"
}
merge "right" 0 base right adapter '"state": "right"'
merge "right under wrappers" 0 base wrapped adapter '"state": "right"'
merge "right in bf16" 0 base16 right16 adapter '"state": "right"'
merge "right from float32 into bf16" 0 base right16 adapter '"state": "right"'
merge "square root of the rank" 0 base twice rs '"state": "right"'
merge "other square root" 1 base right rs '"id": "merge-scale"'
merge "alpha of one module" 1 base right pattern '"id": "merge-scale"'
merge "not merged" 1 base base adapter '"id": "merge-absent"'
merge "merged twice" 1 base twice adapter '"id": "merge-scale"'
merge "subtracted" 1 base minus adapter '"id": "merge-scale"'
merge "one element" 1 base one adapter '"outside": 1'
merge "noise" 1 base noise adapter '"id": "merge-differs"'
merge "another tensor changed" 1 base other adapter '"id": "merge-other-tensor"'
merge "a tensor too many" 1 base extra adapter '"id": "merge-other-tensor"'
merge "a tensor left out" 1 base left adapter '"id": "merge-missing"'
merge "lost to rounding" 1 large lost adapter '"id": "merge-rounded-away"'
merge "half a pair" 1 base right half '"id": "merge-half-pair"'
merge "another width" 1 base right wide '"id": "merge-shape"'
merge "another layer" 1 base right elsewhere '"id": "merge-missing"'
merge "kept whole, not taken" 1 base right kept '"id": "merge-other-tensor"'
merge "an embedding that has an adapter" 2 base other embedding '"id": "merge-unread"'
merge "the base's weight beside a pair" 0 base right copied '"findings": []'
merge "another weight beside a pair" 2 base right miscopied '"id": "merge-unread"'
merge "a part not understood" 2 base right foreign '"id": "merge-unread"'
for name in dora ia3 broken nowhere base; do
    expect "adapter '$name'" 2 "$ASSAY" checkpoint diff "$TMP/base" "$TMP/right" --adapter "$TMP/$name"
done
says "no adapter" err "adapter_config.json"
expect "three paths" 64 "$ASSAY" checkpoint diff "$TMP/base" "$TMP/right" "$TMP/right" --adapter "$TMP/adapter"
expect "text form" 1 "$ASSAY" checkpoint diff "$TMP/base" "$TMP/twice" --adapter "$TMP/adapter"
says "text form" out "the difference is 4 times B A;"

expect "tied in one, equal" 0 "$ASSAY" checkpoint diff --json "$TMP/untied" "$TMP/tied"
says "tied in one, equal" out '"findings": []'
expect "the other way round" 0 "$ASSAY" checkpoint diff --json "$TMP/tied" "$TMP/untied"
says "the other way round" out '"findings": []'
expect "tied in one, differs" 0 "$ASSAY" checkpoint diff --json "$TMP/tied" "$TMP/parted"
says "tied in one, differs" out "1 tensors differ, 1 are equal"
finish
