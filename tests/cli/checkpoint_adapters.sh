#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters as PEFT 0.21 writes them, in the forms that LoRA has there, and what makes PEFT load nothing of one.
. "$(dirname "$0")/lib.sh"
export PYTHONPATH=$SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1

# adapter CONFIG SHAPES: a folder $TMP/a with this configuration and normal weights of these shapes
adapter() {
    rm -rf "$TMP/a"
    mkdir "$TMP/a"
    python3 - "$TMP/a" "$TMP/base" "$@" <<'PY'
import json, sys
from safetensors_file import weights
folder, base, config, shapes = sys.argv[1:]
config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "base_model_name_or_path": base, **json.loads(config)}
json.dump(config, open(folder + "/adapter_config.json", "w"))
names = {}
for name, shape in json.loads(shapes).items():
    names[name if name.startswith("!") else "base_model.model." + name] = shape
weights(folder + "/adapter_model.safetensors", {name.lstrip("!"): shape for name, shape in names.items()})
PY
}
sound() { # NAME CONFIG SHAPES
    adapter "$2" "$3"
    expect "$1" 0 "$ASSAY" checkpoint verify "$TMP/a"
}
finds() { # NAME ID CONFIG SHAPES
    adapter "$3" "$4"
    expect "$1" 1 "$ASSAY" checkpoint verify "$TMP/a"
    says "$1" out "($2)"
}
mkdir "$TMP/base"
python3 - "$TMP/base/model.safetensors" <<'PY'
import sys
from safetensors_file import weights
weights(sys.argv[1], {f"model.layers.{i}.{name}.weight": shape for i in range(2)
                      for name, shape in {"self_attn.q_proj": [8, 8], "mlp.gate_proj": [16, 8],
                                          "mlp.experts.0.w1": [16, 8]}.items()})
PY
Q='"model.layers.0.self_attn.q_proj.lora_A.weight": [2, 8], "model.layers.0.self_attn.q_proj.lora_B.weight": [8, 2]'
sound "a plain LoRA" '{"target_modules": ["q_proj"]}' "{$Q}"

# lora_bias: lora_B alone has a bias.
B='"model.layers.0.self_attn.q_proj.lora_B.bias": [8]'
sound "lora_bias" '{"target_modules": ["q_proj"], "lora_bias": true}' "{$Q, $B}"
finds "a bias that loading drops" adapter-bias '{"target_modules": ["q_proj"]}' "{$Q, $B}"
finds "a bias that is not there" adapter-bias '{"target_modules": ["q_proj"], "lora_bias": true}' "{$Q}"

# What exclude_modules takes out again need not be there, and nothing else.
sound "exclude_modules, a list" '{"target_modules": ["q_proj", "model.layers.0.self_attn.o_proj"], "exclude_modules": ["o_proj"]}' "{$Q}"
sound "exclude_modules, an expression" '{"target_modules": ["q_proj", "o_proj"], "exclude_modules": ".*o_proj"}' "{$Q}"
finds "a target beside the excluded" adapter-missing '{"target_modules": ["q_proj", "k_proj"], "exclude_modules": ["o_proj"]}' "{$Q}"

# target_parameters: parameters of a module, experts among them; of experts the ranks lie one behind the other.
P='"model.layers.0.mlp.gate_proj.lora_A.weight": [2, 8], "model.layers.0.mlp.gate_proj.lora_B.weight": [16, 2]'
sound "target_parameters" '{"target_modules": [], "target_parameters": ["mlp.gate_proj.weight"]}' "{$P}"
X='"model.layers.0.mlp.experts.base_layer.lora_A.weight": [8, 8], "model.layers.0.mlp.experts.base_layer.lora_B.weight": [32, 8], "model.layers.0.mlp.experts.lora_A.weight": [8, 16], "model.layers.0.mlp.experts.lora_B.weight": [8, 8]'
E='"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]'
sound "target_parameters of experts" "{\"target_modules\": [\"q_proj\"], $E}" "{$Q, $X}"
finds "experts of no whole rank" adapter-rank "{\"target_modules\": [\"q_proj\"], \"r\": 3, $E}" "{$X}"
finds "experts that are no target" adapter-target '{"target_modules": ["q_proj"]}' "{$Q, $X}"

# layer_replication: layers that the base has only in part.
sound "layer_replication" '{"target_modules": ["q_proj"], "layer_replication": [[0, 2], [1, 2]]}' "{$Q, ${Q//layers.0/layers.2}, ${Q//layers.0/layers.1}}"
finds "a layer that the base has not" adapter-other-base '{"target_modules": ["q_proj"]}' "{$Q, ${Q//layers.0/layers.2}}"

# A classifier has one of two names, and PEFT lists both.
S='"task_type": "SEQ_CLS", "target_modules": ["q_proj"], "modules_to_save": ["classifier", "score"]'
sound "a classifier's adapter" "{$S}" "{$Q, \"score.weight\": [2, 8]}"
finds "a classifier's adapter without a head" adapter-missing "{$S}" "{$Q}"

# Names that PEFT does not look for: it warns, and the model is the base.
N=${Q//\"model/\"!model}
finds "names without PEFT's prefix" adapter-names '{"target_modules": ["q_proj"]}' "{$N}"
finds "names of a wrapper" adapter-names '{"target_modules": ["q_proj"]}' "{${Q//\"model/\"_fsdp_wrapped_module.model}}"
finds "names of a compiled model" adapter-names '{"target_modules": ["q_proj"]}' "{${Q//\"model/\"!_orig_mod.base_model.model.model}}"
finds "partitions that were not gathered" adapter-empty '{"target_modules": ["q_proj"]}' '{"model.layers.0.self_attn.q_proj.lora_A.weight": [0], "model.layers.0.self_attn.q_proj.lora_B.weight": [0]}'

adapter '{"target_modules": ["q_proj"]}' "{$Q}"
rm "$TMP/a/adapter_config.json"
expect "no adapter_config.json" 1 "$ASSAY" checkpoint verify "$TMP/a"
says "no adapter_config.json" out "(adapter-config-missing)"

# Other kinds: their targets and lengths are looked at, and what is not is said.
I='"model.layers.0.self_attn.q_proj.ia3_l": [8, 1]'
sound "IA3" '{"peft_type": "IA3", "target_modules": ["q_proj"]}' "{$I}"
says "IA3" out "(adapter-not-compared)"
finds "IA3 without a target's tensors" adapter-missing '{"peft_type": "IA3", "target_modules": ["q_proj", "k_proj"]}' "{$I}"
sound "prompt tuning" '{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 5}' '{"!prompt_embeddings": [5, 8]}'
sound "prompt tuning of two submodules" '{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 5}' '{"!prompt_embeddings": [10, 8]}'
finds "a prompt of another length" adapter-prompt-length '{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 9}' '{"!prompt_embeddings": [5, 8]}'
sound "a kind that is not known" '{"peft_type": "LORAA", "target_modules": ["q_proj"]}' "{$Q}"
says "a kind that is not known" out '"LORAA"'
finish
