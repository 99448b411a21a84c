# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel whose load mask was forgotten, for `assay probe --torch --torch-module`.

1000 floats in blocks of 256: the last block loads 24 floats behind the operand and never stores what
it computes from them, so results are right wherever the neighbouring memory is mapped. With MASKED=1
in the environment the mask is there: the control that must pass.
"""
import os

import torch
import triton
import triton.language as tl

N, BLOCK = 1000, 256


@triton.jit
def doubled(x, y, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        value = tl.load(x + at, mask=at < n, other=0.0)
    else:
        value = tl.load(x + at)
    tl.store(y + at, value * 2, mask=at < n)


def inputs(torch):
    return {"x": torch.arange(N, dtype=torch.float32)}


def run(inputs):
    x = inputs["x"]
    y = torch.empty_like(x)
    doubled[(triton.cdiv(N, BLOCK),)](x, y, N, os.environ.get("MASKED") == "1", BLOCK)
    return {"y": y}


def reference(inputs):
    return {"y": inputs["x"] * 2}
