#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/train.sh.

    train_torch.py make FOLDER            a Llama of 25 M parameters without weights, and token ids
    train_torch.py FOLDER STEPS THREADS   transformers' eager model and PyTorch's AdamW on the CPU in
                                          float32; prints CPU seconds and seconds of the median step"""
import json
import os
import sys
import time

import torch
from safetensors.torch import load_file, save_file

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 16000, "hidden_size": 384,
          "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 6, "num_key_value_heads": 2,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": False}
ROWS, LENGTH = 4, 256


def make(folder):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(CONFIG, f)
    g = torch.Generator().manual_seed(1)
    save_file({"input_ids": torch.randint(0, CONFIG["vocab_size"], (64, LENGTH), generator=g)}, f"{folder}/ids.safetensors")


def train(folder, steps, threads):
    import transformers
    torch.set_num_threads(threads)
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = load_file(f"{folder}/ids.safetensors")["input_ids"]
    wall, cpu = [], []
    for step in range(steps + 2):
        rows = ids[(ROWS * step) % len(ids):][:ROWS]
        began = time.perf_counter(), time.process_time()
        model(input_ids=rows, labels=rows).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        wall.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    middle = steps // 2
    print(f"{sorted(cpu[2:])[middle]:.3f} {sorted(wall[2:])[middle]:.3f}")


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
