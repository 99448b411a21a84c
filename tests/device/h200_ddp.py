# SPDX-License-Identifier: Apache-2.0
"""Data parallel training on the GPUs of a host, to be started by torchrun. With "desert" the last rank leaves the
loop in the middle and sleeps, so that the others wait in a collective. usage: h200_ddp.py [STEPS] [desert]"""
import os
import sys
import time

import torch
import torch.distributed as dist

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    if "desert" in sys.argv and step == steps // 2 and rank == dist.get_world_size() - 1:
        print(f"rank {rank} leaves at step {step}", flush=True)
        time.sleep(3600)
    x = torch.randn(64, 512, device="cuda")
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(f"step {step} loss {loss.item():.6f}", flush=True)
torch.cuda.synchronize()
dist.destroy_process_group()
