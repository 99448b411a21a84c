# SPDX-License-Identifier: Apache-2.0
"""A LoRA training of a small Qwen3 shape, eager or (COMPILE=1) through torch.compile, with a learning curve:
the tokens have structure, so the loss falls. usage: compiled_job.py [STEPS]"""
import os
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 120
torch.manual_seed(0)
config = Qwen3Config(vocab_size=8192, hidden_size=768, intermediate_size=2048, num_hidden_layers=6,
                     num_attention_heads=12, num_key_value_heads=4, head_dim=64)
model = Qwen3ForCausalLM(config).to(device="cuda", dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
step_model = torch.compile(model) if os.environ.get("COMPILE") else model
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
generator = torch.Generator().manual_seed(1)
for step in range(1, steps + 1):
    begin = time.perf_counter()
    start = torch.randint(0, 64, (4, 1), generator=generator)
    tokens = ((start + torch.arange(512)) % 64 * 97).to("cuda")
    loss = step_model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.item()
    print({"step": step, "loss": round(value, 6), "step_time": round(time.perf_counter() - begin, 6)}, flush=True)
