#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny models and dumps of one training step by transformers and peft, for train_oracle.sh and,
with --golden, for tests/golden/train/.

    train_oracle.py FOLDER [--double] [--golden]

Each FOLDER/<case>/ holds a model; <case>.<dtype>.safetensors beside it is the dump of a step in float32 and
bfloat16, or with --double in float64; --golden leaves the activations out.
float64 is float64 throughout: transformers casts to float32 in its norms, softmax, rotary tables and loss,
and those casts are made float64 here, so that the formulas can be compared to many digits."""
import pathlib
import sys

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from dump_transformers import watch  # noqa: E402

SIZES = dict(vocab_size=61, hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=64)
CASES = {
    "llama": dict(model_type="llama", rope_parameters=LLAMA3, tie_word_embeddings=False, rms_norm_eps=1e-5),
    "llama_tied": dict(model_type="llama", tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                       rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)),
    "qwen2": dict(model_type="qwen2", tie_word_embeddings=True, rope_parameters=YARN),
    "qwen3": dict(model_type="qwen3", head_dim=8, tie_word_embeddings=False,
                  rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
}
LORA = {
    "llama": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]),
    "qwen3": dict(r=3, lora_alpha=6, use_rslora=True, target_modules="all-linear"),
}


class DoubleTorch:
    """The torch module, in which float32 is float64."""
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def all_double():
    import transformers.loss.loss_utils as loss_utils
    import transformers.modeling_rope_utils as modeling_rope_utils
    import transformers.models.llama.modeling_llama as llama
    import transformers.models.qwen2.modeling_qwen2 as qwen2
    import transformers.models.qwen3.modeling_qwen3 as qwen3
    for module in (llama, qwen2, qwen3, loss_utils, modeling_rope_utils):
        module.torch = DoubleTorch()
    torch.Tensor.float = lambda self: self.double()


def check_double(model):
    frequencies = [m.inv_freq for m in model.modules() if hasattr(m, "inv_freq")]
    assert frequencies and all(f.dtype == torch.float64 for f in frequencies)


def make(case, folder):
    torch.manual_seed(sum(map(ord, case)))
    settings = SIZES | CASES[case]
    config = transformers.AutoConfig.for_model(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for p in model.parameters():  # norms and biases away from 1 and 0; as bfloat16 can hold them
            p.add_(torch.randn_like(p) * 0.1)
            p.copy_(p.bfloat16())
    model.bfloat16().save_pretrained(folder)


def batch():
    g = torch.Generator().manual_seed(3)
    ids = torch.randint(0, SIZES["vocab_size"], (3, 80), generator=g)
    mask = torch.ones_like(ids)
    mask[1, 67:] = 0
    mask[2, 9:] = 0
    labels = torch.where((mask == 1) & (torch.rand(ids.shape, generator=g) > 0.2), ids, -100)
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def adapt(model, case, folder):
    import peft
    config = peft.LoraConfig(task_type="CAUSAL_LM", **LORA[case])
    model = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_((torch.randn(p.shape) * 0.1).bfloat16())
    if folder:
        model.save_pretrained(folder)
    return model


def step(folder, dtype, path, case=None, adapter=None):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    if dtype == torch.float64:
        check_double(model)
    if adapter:
        model = adapt(model, case, adapter)
    model.train()
    dump = watch(model)
    data = batch()
    out = model(**data)
    out.loss.backward()
    dump(data, out, path)
    if "--golden" in sys.argv:
        without_activations(path)


def without_activations(path):
    from safetensors import safe_open
    from safetensors.torch import save_file
    with safe_open(path, "pt") as f:
        kept, meta = {k: f.get_tensor(k) for k in f.keys() if not k.startswith("act.")}, f.metadata()
    save_file(kept, path, meta)


def main():
    top = pathlib.Path(sys.argv[1])
    double = "--double" in sys.argv
    if double:
        all_double()
    for case in CASES:
        folder = top / case
        if not folder.exists():
            make(case, folder)
        names = ["float64"] if double else ["float32", "bfloat16"]
        for name in names:
            step(folder, getattr(torch, name), top / f"{case}.{name}.safetensors")
            if case in LORA:
                step(folder, getattr(torch, name), top / f"{case}_lora.{name}.safetensors", case,
                     top / f"{case}_adapter")


if __name__ == "__main__":
    main()
