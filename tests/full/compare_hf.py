# SPDX-License-Identifier: Apache-2.0
"""A real HF Trainer run in seconds: a tiny Llama learns to repeat a sequence. usage: compare_hf.py --output DIR
[--bf16 true] [--perturb X: relative change of one weight] [--fault backward: one MLP without gradient]"""
import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

p = argparse.ArgumentParser()
p.add_argument("--output", required=True)
p.add_argument("--bf16", default="false")
p.add_argument("--perturb", type=float, default=0)
p.add_argument("--fault", default="")
a = p.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2))
with torch.no_grad():
    model.model.layers[0].self_attn.q_proj.weight[0, 0] *= 1 + a.perturb
if a.fault == "backward":
    mlp = model.model.layers[1].mlp
    forward = mlp.forward
    mlp.forward = lambda x: forward(x).detach()
elif a.fault:
    raise SystemExit(f"no such fault: {a.fault}")
halves = torch.randint(0, 64, (600, 12), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": torch.cat([h, h]), "labels": torch.cat([h, h])} for h in halves]
Trainer(model, TrainingArguments(a.output, max_steps=120, per_device_train_batch_size=8, logging_steps=1,
                                 eval_strategy="steps", eval_steps=40, save_steps=120, learning_rate=3e-3,
                                 bf16=a.bf16 == "true", report_to=[], use_cpu=True, logging_nan_inf_filter=False),
        train_dataset=data[:560], eval_dataset=data[560:]).train()
