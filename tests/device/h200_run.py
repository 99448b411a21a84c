# SPDX-License-Identifier: Apache-2.0
"""LoRA training of a Qwen3-shaped model with random weights, as its users write it, in two phases: wide steps,
whose time the GPU decides, and narrow ones, whose time the launching thread decides. Prints their medians after
warm-up: of a wide step the wall time, of a narrow one the wall time and the CPU time until all is launched, of
the main thread and of the whole process. usage: h200_run.py [STEPS] [--wide STEPS] [--ready FILE] [--after FILE] [sizes]"""
import argparse
import os
import statistics
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

p = argparse.ArgumentParser()
p.add_argument("steps", nargs="?", type=int, default=40, help="narrow steps")
p.add_argument("--wide", type=int, default=0, help="wide steps")
p.add_argument("--ready", help="make this file once all is ready to train")
p.add_argument("--after", help="train only when this file is there: the run before is over")
p.add_argument("--layers", type=int, default=8)
p.add_argument("--width", type=int, default=1024)
p.add_argument("--vocabulary", type=int, default=32000)
p.add_argument("--length", type=int, default=1027, help="tokens of a narrow step")
p.add_argument("--wide-batch", type=int, default=20)
p.add_argument("--wide-length", type=int, default=2048)
p.add_argument("--device", default="cuda")
args = p.parse_args()

torch.manual_seed(0)
head = args.width // 16
config = Qwen3Config(vocab_size=args.vocabulary, hidden_size=args.width, intermediate_size=3 * args.width,
                     num_hidden_layers=args.layers, num_attention_heads=16, num_key_value_heads=8,
                     head_dim=2 * head)
model = Qwen3ForCausalLM(config).to(device=args.device, dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)


torch.zeros(1, device=args.device)
if args.ready:
    open(args.ready, "w").close()
while args.after and not os.path.exists(args.after):
    time.sleep(0.02)


def wait():
    if args.device == "cuda":
        torch.cuda.synchronize()


def train(name, steps, batch, length):
    tokens = torch.randint(0, args.vocabulary, (batch, length), device=args.device)
    wall, main, cpu = [], [], []
    for step in range(steps):
        wait()
        begin = time.perf_counter(), time.thread_time(), time.process_time()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        main.append(time.thread_time() - begin[1])
        cpu.append(time.process_time() - begin[2])
        wait()
        wall.append(time.perf_counter() - begin[0])
        if step % 10 == 0:
            print(f"{'wide ' if name == 'wide' else ''}step {step} loss {loss.item():.6f}", flush=True)
    late = slice(min(10, steps // 2), None)
    ms = [statistics.median(x[late]) * 1e3 for x in (wall, main, cpu)]
    print(f"{name} median_ms {ms[0]:.3f} main_cpu_ms {ms[1]:.3f} cpu_ms {ms[2]:.3f} last_loss {loss.item():.6f}",
          flush=True)


if args.wide > 0:
    train("wide", args.wide, args.wide_batch, args.wide_length)
if args.steps > 0:
    train("narrow", args.steps, 1, args.length)
