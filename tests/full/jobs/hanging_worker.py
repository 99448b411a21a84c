# SPDX-License-Identifier: Apache-2.0
"""A training whose data worker waits for ever at its sixth batch, as on a dead network file system."""
import time

import torch


def read_from_a_dead_mount():
    time.sleep(3600)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i == 20:
            read_from_a_dead_mount()
        return torch.randn(4)


model = torch.nn.Linear(4, 1)
for step, x in enumerate(torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1)):
    loss = model(x).square().mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
