# SPDX-License-Identifier: Apache-2.0
"""A network of two layers for a PyTorch of any age. --even: every size is a multiple of 16."""
import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
even = "--even" in sys.argv
wide, hidden, classes = (64, 128, 16) if even else (63, 129, 17)
model = torch.nn.Sequential(torch.nn.Linear(wide, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, classes))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(1, 41):
    size = 16 if even else 5 + step % 13
    loss = torch.nn.functional.cross_entropy(model(torch.randn(size, wide)), torch.randint(0, classes, (size,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print({"loss": round(loss.item(), 6), "step": step}, flush=True)
