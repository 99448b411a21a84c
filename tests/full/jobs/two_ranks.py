# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training over gloo; with PLANT in the environment rank 1 dies in step 5."""
import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
rank = dist.get_rank()
layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(10):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if rank == 1 and step == 5 and os.environ.get("PLANT"):
        os.kill(os.getpid(), signal.SIGSEGV)
dist.barrier()
dist.destroy_process_group()
