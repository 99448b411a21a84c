#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: train_transformers.py MODEL DATA.jsonl RUN [--lora]

Repeats a run of `assay train` with transformers, PEFT and torch.optim.AdamW in float64: MODEL is the folder it began
with, RUN the folder it wrote. Losses and gradient norms of every update, the evaluation and the weights
of the last checkpoint must agree. Settings are those of train_transformers.sh."""
import json
import math
import os
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.trainer_pt_utils import get_parameter_names

STEPS, BATCH, ACCUMULATE, SEED, LR, WARMUP, DECAY = 20, 2, 3, 42, 1e-2, 3, 0.1
NO_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]


def batches(samples):
    epoch = 0
    while True:
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(SEED + epoch)).tolist()
        micro = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]
        for i in range(0, len(micro), ACCUMULATE):
            yield [[samples[k] for k in m] for m in micro[i:i + ACCUMULATE]]
        epoch += 1


def loss_sum(model, sample):
    ids = torch.tensor([sample["input_ids"]])
    labels = torch.tensor([sample["labels"]])
    logits = model(input_ids=ids).logits.double()
    return torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], ignore_index=-100, reduction="sum")


def rate(done):
    if done < WARMUP:
        return LR * done / WARMUP
    return LR * 0.5 * (1 + math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP)))


def main():
    folder, data, run = sys.argv[1:4]
    lora = "--lora" in sys.argv
    samples = [json.loads(line) for line in open(data)]
    lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
    last = os.path.join(run, f"checkpoint-{STEPS}")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    if lora:
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, os.path.join(run, "checkpoint-1"), is_trainable=True)
        model = model.double()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    decayed = set(get_parameter_names(model, [torch.nn.LayerNorm], NO_DECAY))
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in trained.items() if n in decayed], "weight_decay": DECAY},
         {"params": [p for n, p in trained.items() if n not in decayed], "weight_decay": 0.0}], foreach=False)
    worst = 0.0
    source = batches(samples)
    for step in range(1, STEPS + 1):
        micro = next(source)
        labels = sum(x != -100 for m in micro for s in m for x in s["labels"][1:])
        optimizer.zero_grad()
        total = 0.0
        for m in micro:
            loss = sum(loss_sum(model, s) for s in m) / labels
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0).item()
        for group in optimizer.param_groups:
            group["lr"] = rate(step - 1)
        optimizer.step()
        ours = next(x for x in lines if x["step"] == step and "loss" in x)
        for name, a, b in (("loss", ours["loss"], total), ("grad_norm", ours["grad_norm"], norm),
                           ("learning_rate", ours["learning_rate"], rate(step - 1))):
            error = abs(a - b) / max(abs(b), 1e-30) if b else abs(a)
            worst = max(worst, error)
            if not error <= 1e-6:
                sys.exit(f"update {step}: {name} {a} here, {b} in torch: relative {error:.2e}")
        if ours["labels"] != labels:
            sys.exit(f"update {step}: {ours['labels']} labels here, {labels} in torch")
    if lora:
        weights = load_file(os.path.join(last, "adapter_model.safetensors"))
        theirs = {n.replace(".default.", "."): p for n, p in trained.items()}
    else:
        weights = load_file(os.path.join(last, "model.safetensors"))
        theirs = dict(model.named_parameters())
        again = AutoModelForCausalLM.from_pretrained(last, dtype=torch.float64)  # transformers loads what was written
        for n, p in again.named_parameters():
            if n in weights and not torch.equal(p, weights[n].double()):
                sys.exit(f"{n} is loaded with other values")
    if set(weights) != set(theirs):
        sys.exit(f"names differ: {sorted(set(weights) ^ set(theirs))[:4]}")
    far = max((weights[n].double() - theirs[n].detach()).abs().max().item() for n in weights)
    if not far <= 1e-6:
        sys.exit(f"weights differ by {far:.2e}")
    print(f"{STEPS} updates: relative error of loss and norm {worst:.1e} at most, weights within {far:.1e}")


main()
