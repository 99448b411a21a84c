# SPDX-License-Identifier: Apache-2.0
"""Convolutions as a vision encoder has them, trained: a patch embedding in 3D, grouped and plain convolutions in 2D,
attention by cuDNN where PyTorch offers it. Prints each loss. usage: h200_conv.py [STEPS]"""
import sys

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True  # so that a guarded run can be compared to the last digit
torch.backends.cudnn.benchmark = False
like = {"device": "cuda", "dtype": torch.bfloat16}
patch = torch.nn.Conv3d(3, 64, (2, 14, 14), stride=(2, 14, 14), **like)
mixed = torch.nn.Sequential(torch.nn.Conv2d(64, 128, 3, padding=1, **like), torch.nn.GELU(),
                            torch.nn.Conv2d(128, 64, 3, stride=2, padding=1, groups=4, **like))
optimizer = torch.optim.SGD([*patch.parameters(), *mixed.parameters()], lr=0.1)
pictures = torch.randn(8, 3, 2, 140, 140, **like)
for step in range(steps):
    x = mixed(patch(pictures).squeeze(2))
    x = x.flatten(2).transpose(1, 2).unsqueeze(1)
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
                                         torch.nn.attention.SDPBackend.MATH], set_priority=True):
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    loss = (x.float() - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.7f}", flush=True)
