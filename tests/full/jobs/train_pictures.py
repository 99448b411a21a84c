# SPDX-License-Identifier: Apache-2.0
"""LLaMA-Factory with the patch embedding of Qwen-VL written in another way. usage: train_pictures.py
[--patch conv3d|linear|planted] CONFIG.yaml [KEY=VALUE...]. linear multiplies by the same parameter in the place of
convolving with it; planted is Conv3d whose weight gradient comes out thirty times too large."""
import sys

import torch
from llamafactory.train.tuner import run_exp
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionPatchEmbed


class ThirtyTimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 30 * gradient


def linear(self, pixels):
    weight = self.proj.weight
    return torch.nn.functional.linear(pixels.to(weight.dtype).flatten(1), weight.flatten(1))


def planted(self, pixels):
    weight = ThirtyTimes.apply(self.proj.weight)
    shape = (-1, self.in_channels, self.temporal_patch_size, self.patch_size, self.patch_size)
    return torch.nn.functional.conv3d(pixels.view(shape).to(weight.dtype), weight, stride=self.proj.stride).flatten(1)


patch = "conv3d"
if sys.argv[1:2] == ["--patch"]:
    patch = sys.argv[2]
    del sys.argv[1:3]
if patch != "conv3d":
    Qwen2_5_VisionPatchEmbed.forward = {"linear": linear, "planted": planted}[patch]
run_exp()
