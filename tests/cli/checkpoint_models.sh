#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders of models: what classes call their tensors, and which files a loader takes and which it does not.
. "$(dirname "$0")/lib.sh"
export PYTHONPATH=$SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1

# llama CLASS PREFIX [HEAD SHAPE]: a Llama of one layer in $F, its tensors called PREFIX...
llama() {
    F=$TMP/model
    rm -rf "$F"
    mkdir "$F"
    python3 - "$F" "$@" <<'PY'
import json, sys
from safetensors_file import weights
folder, name, prefix = sys.argv[1:4]
json.dump({"model_type": "llama", "architectures": [name], "vocab_size": 12, "hidden_size": 8, "intermediate_size": 16,
           "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False},
          open(folder + "/config.json", "w"))
layer = {"self_attn.q_proj": [8, 8], "self_attn.k_proj": [4, 8], "self_attn.v_proj": [4, 8], "self_attn.o_proj": [8, 8],
         "mlp.gate_proj": [16, 8], "mlp.up_proj": [16, 8], "mlp.down_proj": [8, 16], "input_layernorm": [8],
         "post_attention_layernorm": [8]}
shapes = {prefix + "embed_tokens.weight": [12, 8], prefix + "norm.weight": [8]}
shapes.update({f"{prefix}layers.0.{k}.weight": v for k, v in layer.items()})
if len(sys.argv) > 4:
    shapes[sys.argv[4]] = json.loads(sys.argv[5])
weights(folder + "/model.safetensors", shapes)
PY
}
sound() { expect "$1" 0 "$ASSAY" checkpoint verify "$F"; }
finds() { # NAME ID [STATUS]
    expect "$1" "${3:-1}" "$ASSAY" checkpoint verify "$F"
    says "$1" out "($2)"
}

llama LlamaForCausalLM model. lm_head.weight '[12, 8]'; sound "a model"
llama LlamaForQuestionAnswering transformer. qa_outputs.weight '[2, 8]'; sound "a model for questions"
llama LlamaForQuestionAnswering model. qa_outputs.weight '[2, 8]'; finds "names that its class does not have" config-tensor-missing
llama LlamaForRewardModel model. v_head.weight '[1, 8]'; sound "a class that is not known"
says "a class that is not known" out "(config-not-compared)"

# Names that wrappers put inside: FSDP, activation checkpointing, regional torch.compile.
llama LlamaForCausalLM _fsdp_wrapped_module.model. _fsdp_wrapped_module.lm_head.weight '[12, 8]'; finds "FSDP's names" config-names-prefixed
llama LlamaForCausalLM model. lm_head.weight '[12, 8]'
LC_ALL=C sed -i 's/layers\.0\.\([a-z]\)/layers.0._orig_mod.\1/g' "$F/model.safetensors"
python3 - "$F/model.safetensors" <<'PY'
import struct, sys
raw = open(sys.argv[1], "rb").read()
end = raw.index(b"}}") + 2
header = raw[8:end] + b" " * (-(end - 8) % 8)
size = struct.unpack("<Q", raw[:8])[0]
grown = 9 * len(b"_orig_mod.")
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header + raw[8 + size + grown:])
PY
finds "names of compiled layers" config-names-prefixed

# Which files a loader takes. Shards as transformers writes them:
shards() {
    llama LlamaForCausalLM model. lm_head.weight '[12, 8]'
    python3 - "$F" <<'PY'
import json, os, struct, sys
from safetensors_file import save
folder = sys.argv[1]
raw = open(folder + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header, data = json.loads(raw[8:8 + n]), raw[8 + n:]
parts, where = [{}, {}], {}
for i, (name, t) in enumerate(header.items()):
    a, b = t["data_offsets"]
    parts[i % 2][name] = (t["dtype"], t["shape"], data[a:b])
    where[name] = f"model-0000{i % 2 + 1}-of-00002.safetensors"
for i in range(2):
    save(f"{folder}/model-0000{i + 1}-of-00002.safetensors", parts[i])
json.dump({"metadata": {"total_size": len(data)}, "weight_map": where}, open(folder + "/model.safetensors.index.json", "w"))
os.remove(folder + "/model.safetensors")
PY
}
shards; sound "shards"
rm "$F/model.safetensors.index.json"; finds "shards without their index" index-missing
rm "$F/config.json"; sound "shards without an index that are no model of transformers"
shards; cp "$F/model-00001-of-00002.safetensors" "$F/model-00001-of-00003.safetensors"; finds "a shard of an earlier save" shard-leftover
shards; cp "$F/model-00001-of-00002.safetensors" "$F/model.safetensors"; finds "one file beside shards" weights-twice
shards; cp "$F/model-00001-of-00002.safetensors" "$F/consolidated.safetensors"; sound "a file of another name"
shards; cp "$F/model-00001-of-00002.safetensors" "$F/.model-00001-of-00002.safetensors.aB3xYz"; finds "what rsync left" folder-half-written
shards; cp "$F/model-00001-of-00002.safetensors" "$F/model-00001-of-00002 (1).safetensors"; finds "a browser's second copy" file-copy
shards; printf '\0\5\26\7\0\2\0\0Mac OS X        ' >"$F/._model-00001-of-00002.safetensors"; sound "what macOS lays beside a file"
llama LlamaForCausalLM model. lm_head.weight '[12, 8]'; mv "$F/model.safetensors" "$F/pytorch_model.bin"; finds "safetensors under torch's name" file-other-format
llama LlamaForCausalLM model. lm_head.weight '[12, 8]'; cp "$SOURCE/tests/fuzz/corpus/torch_file/archive" "$F/model.safetensors"
finds "a torch archive under the name of safetensors" file-other-format
llama LlamaForCausalLM model. lm_head.weight '[12, 8]'; rm "$F/model.safetensors"; mkdir "$F/model.safetensors"
finds "a folder in the place of weights" weights-are-folder

# transformers 5 trains a layer's experts as one tensor and saves them one by one.
E=$SOURCE/tests/samples/checkpoints/experts/checkpoint-2
expect "a Trainer's checkpoint with experts" 0 "$ASSAY" checkpoint verify "$E"
cp -r "$E" "$TMP/checkpoint-2"
python3 - "$TMP/checkpoint-2/model.safetensors" <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:8 + n])
size = {"F32": 4}
for name, t in header.items():
    if "experts" in name and "w2" in name:
        t["shape"] = t["shape"][::-1]
    if name == "lm_head.weight":
        t["shape"] = [t["shape"][1], t["shape"][0]]
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + raw[8 + n:])
PY
expect "weights of another model beside experts" 1 "$ASSAY" checkpoint verify "$TMP/checkpoint-2"
says "weights of another model beside experts" out "(trainer-optimizer-other-model)"
finish
