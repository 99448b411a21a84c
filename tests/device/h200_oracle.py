# SPDX-License-Identifier: Apache-2.0
"""Training steps of a small Qwen3 and a small Llama with random weights on a GPU, dumped for assay's
oracle. usage: h200_oracle.py FOLDER; writes FOLDER/<model>/ and FOLDER/<model>.<way>.safetensors."""
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples"))
from dump_transformers import watch  # noqa: E402

folder = pathlib.Path(sys.argv[1])
shape = dict(vocab_size=2000, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
             num_key_value_heads=4, head_dim=32, initializer_range=0.05)
ways = {  # name: dtype, attention, float32 products in TF32, factor on the scale of one layer's attention
    "float32-eager": (torch.float32, "eager", False, 1),
    "float32-sdpa": (torch.float32, "sdpa", False, 1),
    "float32-tf32": (torch.float32, "sdpa", True, 1),
    "bfloat16-eager": (torch.bfloat16, "eager", False, 1),
    "bfloat16-sdpa": (torch.bfloat16, "sdpa", False, 1),
    "bfloat16-wrong-scale": (torch.bfloat16, "sdpa", False, 1.5),
}
for name, config in {"qwen3": Qwen3Config(**shape), "llama": LlamaConfig(**shape)}.items():
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / name)
    for way, (dtype, attention, tf32, factor) in ways.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=dtype, attn_implementation=attention).cuda()
        model.model.layers[2].self_attn.scaling *= factor
        ids = torch.randint(0, 2000, (2, 300), generator=torch.Generator().manual_seed(1)).cuda()
        batch, dump = {"input_ids": ids, "labels": ids.clone()}, watch(model)
        out = model(**batch)
        out.loss.backward()
        dump(batch, out, folder / f"{name}.{way}.safetensors")
        print(name, way, "loss", out.loss.item(), flush=True)
