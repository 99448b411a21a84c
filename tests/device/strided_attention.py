# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch alone, without assay, on operands whose rows are PAD elements further apart than they are
long, with NaN in between that no correct kernel reads. usage: strided_attention.py default|flash|cudnn|efficient|math PAD"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

way, pad = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)


def operand():
    x = torch.full((2, 2, 17, 64 + pad), float("nan"), device="cuda", dtype=torch.bfloat16)
    x[..., :64] = torch.randn(2, 2, 17, 64, device="cuda").bfloat16()
    return x[..., :64]


q, k, v = operand(), operand(), operand()
exact = torch.softmax((q.double() @ k.double().transpose(-1, -2)) / 8, -1) @ v.double()
backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
try:
    if way == "default":
        y = F.scaled_dot_product_attention(q, k, v)
    else:
        with sdpa_kernel(backends[way]):
            y = F.scaled_dot_product_attention(q, k, v)
    torch.cuda.synchronize()
    print(way, "strides", q.stride(), "largest error", (y.double() - exact).abs().max().item())
except Exception as e:
    print(way, "strides", q.stride(), "raises:", str(e).split("\n")[0][:160])
