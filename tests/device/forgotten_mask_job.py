# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel whose load mask was forgotten, inside plain PyTorch: right numbers, wrong reads.
usage: forgotten_mask_job.py [ELEMENTS]; 1024 is a multiple of the block and stays inside."""
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_forgotten_mask(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at)  # the mask is missing here
    b = tl.load(y + at, mask=at < n)
    tl.store(out + at, a + b, mask=at < n)


n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
x = torch.randn(n, device="cuda")
y = torch.randn(n, device="cuda")
out = torch.empty_like(x)
add_forgotten_mask[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
torch.cuda.synchronize()
print("equal", torch.equal(out, x + y))
