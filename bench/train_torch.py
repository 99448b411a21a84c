#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/train.sh: train_torch.py FOLDER IDS STEPS THREADS: transformers' eager model with
PyTorch's AdamW on the CPU in float32; prints tokens per second of the steps after the first two."""
import sys
import time

import torch
import transformers
from safetensors.torch import load_file

folder, ids, steps, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
config = transformers.AutoConfig.from_pretrained(folder)
model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = load_file(ids)["input_ids"]
times = []
for step in range(steps + 2):
    rows = batch[(4 * step) % len(batch):][:4]
    began = time.perf_counter()
    loss = model(input_ids=rows, labels=rows).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.perf_counter() - began)
times = sorted(times[2:])
print(f"{rows.numel() / times[len(times) // 2]:.0f}")
