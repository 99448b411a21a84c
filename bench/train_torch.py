#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/train.py: transformers' Llama with PyTorch's fused AdamW, float32, on the CPU.

    train_torch.py CONFIG THREADS eager|compile

stays in memory, reads lines "ROWS LENGTH UPDATES" and answers each with CPU seconds and seconds of the median
update. "peak" is answered with the GFLOP/s of a large matrix product in PyTorch and in OpenBLAS."""
import resource
import sys
import time

import numpy
import torch
import transformers


def cpu_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def median(values):
    return sorted(values)[(len(values) - 1) // 2]


def peak():
    """GFLOP/s of torch.mm, and of numpy's OpenBLAS."""
    a, b = torch.rand(1024, 1024), torch.rand(1024, 4096)
    rates = []
    for multiply in (lambda: torch.mm(a, b), lambda: numpy.matmul(a.numpy(), b.numpy())):
        seconds = []
        for _ in range(12):
            began = time.process_time()
            multiply()
            seconds.append(time.process_time() - began)
        rates.append(2 * 1024 * 1024 * 4096 / min(seconds) / 1e9)
    return "{:.1f} {:.1f}".format(*rates)


class Peer:
    def __init__(self, config, kind):
        config = transformers.AutoConfig.from_pretrained(config)
        self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager",
                                                                   dtype=torch.float32)
        self.step = self.loss if kind == "eager" else torch.compile(self.loss)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.vocab = config.vocab_size
        self.warm = set()

    def loss(self, ids):
        return self.model(input_ids=ids, labels=ids, use_cache=False).loss

    def update(self, ids):
        self.step(ids).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def measure(self, rows, length, updates):
        ids = torch.randint(0, self.vocab, (rows, length))
        for _ in range(0 if (rows, length) in self.warm else 1):
            self.update(ids)
        self.warm.add((rows, length))
        cpu, wall = [], []
        for _ in range(updates):
            began = cpu_seconds(), time.perf_counter()
            self.update(ids)
            cpu.append(cpu_seconds() - began[0])
            wall.append(time.perf_counter() - began[1])
        return f"{median(cpu):.4f} {median(wall):.4f}"


def main(config, threads, kind):
    torch.set_num_threads(int(threads))
    peer = Peer(config, kind)
    print(torch.__version__, transformers.__version__, flush=True)
    for line in sys.stdin:
        print(peak() if line.strip() == "peak" else peer.measure(*map(int, line.split())), flush=True)


main(*sys.argv[1:])
