# SPDX-License-Identifier: Apache-2.0
"""A LoRA training of a small Qwen3-shaped model with random weights, as its users write it. Prints the
median step time after warm-up, and the time that a tenth of the steps stay below. usage: h200_run.py [STEPS]"""
import statistics
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
torch.manual_seed(0)
config = Qwen3Config(vocab_size=32000, hidden_size=1024, intermediate_size=3072, num_hidden_layers=8,
                     num_attention_heads=16, num_key_value_heads=8, head_dim=128)
model = Qwen3ForCausalLM(config).to(device="cuda", dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
tokens = torch.randint(0, 32000, (1, 1027), device="cuda")
times = []
for step in range(steps):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.6f}", flush=True)
late = sorted(times[min(10, steps // 2):])
print(f"median_ms {statistics.median(late) * 1e3:.3f} best_ms {late[len(late) // 10] * 1e3:.3f} "
      f"last_loss {loss.item():.6f}")
