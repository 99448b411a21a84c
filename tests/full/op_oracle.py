#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every operator of `assay probe` in PyTorch and saves inputs, results and gradients.

usage: op_oracle.py DIR [--dtype float64] [--seed 0] [--long] [--break]

Each file is what `assay probe --check` reads (docs/probe.md). float64 files are the golden files of
tests/golden/ops; --long adds the gated delta rule at 3700 positions in blocks; --break adds files with a wrong
gradient, too large an error and no backward pass. Needs torch and safetensors, and transformers for
the gated delta rule (left out without it).
"""
import argparse
import inspect
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file


def delta_functions(dtype):
    """transformers' two forms; in float64 with their casts to float32 replaced."""
    try:
        import transformers.models.qwen3_next.modeling_qwen3_next as model
    except ImportError:
        return {}
    found = {}
    for form in ("recurrent", "chunk"):
        source = inspect.getsource(getattr(model, f"torch_{form}_gated_delta_rule"))
        source = source[source.index("def "):]
        if dtype == torch.float64:
            source = source.replace("torch.float32", "torch.float64")
        scope = dict(vars(model))
        exec(source, scope)  # transformers' own code, with wider numbers
        found[form] = scope[f"torch_{form}_gated_delta_rule"]
    return found


class Oracle:
    def __init__(self, folder, dtype, seed):
        self.folder, self.dtype, self.made = folder, dtype, {}
        self.gen = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.gen, dtype=torch.float64).to(self.dtype)

    def ints(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.gen)

    def save(self, name, op, attributes, inputs, function, constants=()):
        """function(**inputs) -> dict of outputs; inputs of floating point get gradients unless named."""
        leaves = {k: v.clone().requires_grad_(v.is_floating_point() and k not in constants)
                  for k, v in inputs.items()}
        outputs = function(**leaves)
        tensors = {f"input.{k}": v.detach() for k, v in leaves.items()}
        tensors |= {f"output.{k}": v.detach() for k, v in outputs.items()}
        wanted = [k for k, v in leaves.items() if v.requires_grad]
        if wanted:
            dys = {k: torch.randn(v.shape, generator=self.gen, dtype=torch.float64).to(v.dtype)
                   for k, v in outputs.items()}
            grads = torch.autograd.grad(list(outputs.values()), [leaves[k] for k in wanted],
                                        list(dys.values()))
            tensors |= {f"grad_output.{k}": v for k, v in dys.items()}
            tensors |= {f"grad.{k}": g for k, g in zip(wanted, grads)}
        self.write(name, {"op": op, **{k: str(v) for k, v in attributes.items()}}, tensors)

    def write(self, name, meta, tensors):
        self.made[name] = (meta, tensors)
        meta = {**meta, "source": f"torch {torch.__version__.split('+')[0]}, {str(self.dtype)[6:]}"}
        dense = {k: v.clone().contiguous() for k, v in tensors.items()}
        save_file(dense, self.folder / f"{name}.safetensors", meta)


def products(o):
    n = o.normal
    acts = {"none": lambda z: z, "relu": F.relu, "gelu": F.gelu,
            "gelu_tanh": lambda z: F.gelu(z, approximate="tanh")}
    for act, f in acts.items():
        o.save(f"gemm_{act}", "gemm", {"activation": act, "bias": 1},
               {"a": n(2, 5, 17), "b": n(2, 17, 9), "bias": n(9)},
               lambda a, b, bias, f=f: {"y": f(torch.matmul(a, b) + bias)})
    o.save("gemm_addmm", "gemm", {"alpha": 0.5, "beta": -2},
           {"a": n(1, 6, 33), "b": n(1, 33, 7), "c": n(1, 6, 7)},
           lambda a, b, c: {"y": torch.baddbmm(c, a, b, beta=-2, alpha=0.5)})
    o.save("linear", "linear", {}, {"x": n(9, 31), "weight": n(17, 31), "bias": n(17)},
           lambda x, weight, bias: {"y": F.linear(x, weight, bias)})
    o.save("linear_plain", "linear", {}, {"x": n(3, 64), "weight": n(8, 64)},
           lambda x, weight: {"y": F.linear(x, weight)})


def norms(o):
    n = o.normal

    def llama(x, weight):
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return {"y": weight * wide.to(x.dtype)}

    def gemma(x, weight):
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return {"y": (wide * (1 + weight.to(wide.dtype))).to(x.dtype)}

    if hasattr(F, "rms_norm"):
        o.save("rms_norm_plain", "rms_norm", {"eps": 1e-6}, {"x": n(5, 48), "weight": n(48)},
               lambda x, weight: {"y": F.rms_norm(x, (48,), weight, 1e-6)})
    o.save("rms_norm_cast_first", "rms_norm", {"eps": 1e-6, "convention": "cast_first"},
           {"x": n(5, 48), "weight": n(48)}, llama)
    o.save("rms_norm_zero_centred", "rms_norm", {"eps": 1e-6, "convention": "zero_centred"},
           {"x": n(5, 48), "weight": n(48)}, gemma)
    o.save("layer_norm", "layer_norm", {"eps": 1e-5}, {"x": n(5, 48), "weight": n(48), "bias": n(48)},
           lambda x, weight, bias: {"y": F.layer_norm(x, (48,), weight, bias, 1e-5)})
    o.save("layer_norm_far", "layer_norm", {"eps": 1e-5},
           {"x": n(3, 40) + 30, "weight": n(40), "bias": n(40)},
           lambda x, weight, bias: {"y": F.layer_norm(x, (40,), weight, bias, 1e-5)})


def losses(o):
    n = o.normal
    o.save("softmax", "softmax", {}, {"x": 4 * n(5, 33)}, lambda x: {"y": F.softmax(x, -1)})
    for reduction in ("mean", "sum"):
        target = o.ints(0, 31, 9)
        target[::4] = -100
        o.save(f"cross_entropy_{reduction}", "cross_entropy", {"reduction": reduction},
               {"logits": 3 * n(9, 31), "target": target},
               lambda logits, target, r=reduction: {"loss": F.cross_entropy(logits, target, reduction=r)})


def pointwise(o):
    n = o.normal
    o.save("swiglu", "swiglu", {}, {"gate": 3 * n(4, 20), "up": n(4, 20)},
           lambda gate, up: {"y": F.silu(gate) * up})
    angle = torch.arange(7, 18, dtype=torch.float64)[:, None] * 10000 ** (-torch.arange(6) / 6.0)
    turn = {"x": n(1, 2, 11, 16), "cos": angle.cos().to(o.dtype), "sin": angle.sin().to(o.dtype)}

    def half(x, cos, sin):
        head, rest = x[..., :12], x[..., 12:]
        turned = torch.cat((-head[..., 6:], head[..., :6]), -1)
        full = head * torch.cat((cos, cos), -1) + turned * torch.cat((sin, sin), -1)
        return {"y": torch.cat((full, rest), -1)}

    def interleaved(x, cos, sin):
        a, b = x[..., 0:12:2], x[..., 1:12:2]
        pairs = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        return {"y": torch.cat((pairs, x[..., 12:]), -1)}

    o.save("rope_half", "rope", {}, turn, half, constants=("cos", "sin"))
    o.save("rope_interleaved", "rope", {"layout": "interleaved"}, turn, interleaved,
           constants=("cos", "sin"))


def attentions(o):
    n = o.normal
    sdpa = F.scaled_dot_product_attention
    qkv = {"q": n(2, 4, 7, 6), "k": n(2, 2, 7, 6), "v": n(2, 2, 7, 5)}

    def wide(k, v):
        return k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)

    o.save("attention_gqa_causal", "attention", {"causal": 1}, qkv,
           lambda q, k, v: {"y": sdpa(q, *wide(k, v), is_causal=True)})
    seen = torch.rand(2, 7, 7, generator=o.gen) < 0.6
    seen[:, :, 0] = True
    seen[0, 4] = False
    o.save("attention_mask_bool", "attention", {}, {**qkv, "mask_bool": seen},
           lambda q, k, v, mask_bool: {"y": sdpa(q, *wide(k, v), attn_mask=mask_bool[:, None])})
    add = o.normal(2, 7, 7)

    def eager(q, k, v, mask_add):
        k, v = wide(k, v)
        scores = q @ k.transpose(-1, -2) * 0.3 + mask_add[:, None]
        soft = torch.float64 if q.dtype == torch.float64 else torch.float32
        return {"y": torch.softmax(scores, -1, dtype=soft).to(q.dtype) @ v}

    o.save("attention_eager_add", "attention", {"scale": 0.3}, {**qkv, "mask_add": add}, eager,
           constants=("mask_add",))


def convolutions(o):
    n = o.normal
    volume = {"x": n(2, 2, 3, 6, 5), "weight": n(4, 2, 2, 3, 2), "bias": n(4)}
    o.save("conv3d", "conv3d",
           {"stride_d": 1, "stride_h": 2, "stride_w": 1, "pad_d": 0, "pad_h": 1, "pad_w": 1}, volume,
           lambda x, weight, bias: {"y": F.conv3d(x, weight, bias, (1, 2, 1), (0, 1, 1))})
    patches = {"x": n(7, 3, 2, 2, 2), "weight": n(10, 3, 2, 2, 2), "bias": n(10)}
    o.save("patch_embed_conv3d", "patch_embed", {}, patches,
           lambda x, weight, bias: {"y": F.conv3d(x, weight, bias, (2, 2, 2)).flatten(1)})
    o.save("patch_embed_linear", "patch_embed", {}, patches,
           lambda x, weight, bias: {"y": F.linear(x.flatten(1), weight.flatten(1), bias)})
    for act, f in {"silu": F.silu, "none": lambda z: z}.items():
        o.save(f"causal_conv1d_{act}", "causal_conv1d", {"activation": act},
               {"x": n(2, 6, 11), "weight": n(6, 4), "bias": n(6)},
               lambda x, weight, bias, f=f: {
                   "y": f(F.conv1d(x, weight[:, None], bias, padding=3, groups=6)[..., :11])})


def deltas(o, lengths, width, forms=("recurrent", "chunk")):
    state = torch.float64 if o.dtype == torch.float64 else torch.float32
    for form, rule in delta_functions(o.dtype).items():
        for time in lengths if form in forms else ():
            heads, v_heads = (1, 2) if time == 65 else (1, 1)
            decay = -torch.rand(1, time, v_heads, generator=o.gen, dtype=torch.float64)
            inputs = {"q": o.normal(1, time, heads, width), "k": o.normal(1, time, heads, width),
                      "v": o.normal(1, time, v_heads, width), "g": (decay * 2).to(state),
                      "beta": torch.sigmoid(o.normal(1, time, v_heads).double()).to(o.dtype),
                      "state": o.normal(1, v_heads, width, width).to(state)}

            def run(q, k, v, g, beta, state, rule=rule):
                out, last = rule(q, k, v, g=g, beta=beta, initial_state=state,
                                 output_final_state=True, use_qk_l2norm_in_kernel=True)
                return {"o": out, "final_state": last}

            o.save(f"delta_{form}_{time}", "gated_delta_rule",
                   {"l2norm": 1, "form": "chunked" if form == "chunk" else form}, inputs, run)


def indexing(o):
    n = o.normal
    ids = o.ints(0, 7, 20)
    ids[:6] = 3
    o.save("embedding", "embedding", {"padding_idx": 2}, {"weight": n(7, 5), "ids": ids},
           lambda weight, ids: {"y": F.embedding(ids, weight, padding_idx=2)})
    for reduce in ("sum", "mean", "amax", "amin"):
        for with_self in (True, False):
            o.save(f"scatter_{reduce}_{int(with_self)}", "scatter_reduce",
                   {"reduce": reduce, "include_self": int(with_self)},
                   {"x": n(6, 3), "index": o.ints(0, 5, 11, 3), "src": n(11, 3)},
                   lambda x, index, src, r=reduce, w=with_self: {
                       "y": x.scatter_reduce(0, index, src, r, include_self=w)})
    for mode, align in (("nearest", None), ("bilinear", False), ("bilinear", True)):
        for size in ((7, 3), (3, 9), (1, 5)):
            attributes = {"mode": mode} | ({"align_corners": 1} if align else {})
            o.save(f"interpolate_{mode}_{int(bool(align))}_{size[0]}", "interpolate", attributes,
                   {"x": n(2, 2, 4, 5)},
                   lambda x, m=mode, a=align, s=size: {
                       "y": F.interpolate(x, size=s, mode=m, align_corners=a)})


def optimizers(o):
    n = o.normal
    for step in (1, 1000):
        param, grad = torch.nn.Parameter(n(40)), n(40)
        before = {"param": param.detach().clone(), "grad": grad, "exp_avg": n(40) * (step > 1),
                  "exp_avg_sq": n(40) ** 2 * (step > 1)}
        adam = torch.optim.AdamW([param], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
        param.grad = grad.clone()
        adam.state[param] = {"step": torch.tensor(float(step - 1)), "exp_avg": before["exp_avg"].clone(),
                             "exp_avg_sq": before["exp_avg_sq"].clone()}
        adam.step()
        after = {"new_param": param.detach(), "new_exp_avg": adam.state[param]["exp_avg"],
                 "new_exp_avg_sq": adam.state[param]["exp_avg_sq"]}
        o.write(f"adamw_{step}",
                {"op": "adamw", "step": str(step), "lr": "0.01", "beta2": "0.95", "weight_decay": "0.1"},
                {f"input.{k}": v for k, v in before.items()} | {f"output.{k}": v for k, v in after.items()})
    for limit in (1.0, 1000.0):
        params = [torch.nn.Parameter(n(30)), torch.nn.Parameter(n(7))]
        for p in params:
            p.grad = p.detach().clone() * 2
        before = {f"input.g{i}": p.grad.clone() for i, p in enumerate(params)}
        norm = torch.nn.utils.clip_grad_norm_(params, limit)
        o.write(f"clip_{int(limit)}", {"op": "clip_grad_norm", "max_norm": str(limit)},
                before | {"output.norm": norm} |
                {f"output.clipped{i}": p.grad for i, p in enumerate(params)})


def broken(o):
    """Copies of good files with one fault each."""
    meta, good = o.made["linear"]
    wrong = dict(good)
    wrong["grad.weight"] = good["grad.weight"].clone()
    wrong["grad.weight"][3, 5] *= 1.5
    o.write("wrong_gradient", meta, wrong)
    o.write("no_backward", meta, {k: v for k, v in good.items() if not k.startswith("grad")})
    wide = dict(good)
    noise = torch.randn(good["output.y"].shape, generator=o.gen, dtype=torch.float64)
    wide["output.y"] = (good["output.y"].double() * (1 + 0.02 * noise)).to(o.dtype)
    o.write("large_error", meta, wide)
    nan = dict(good)
    nan["output.y"] = good["output.y"].clone()
    nan["output.y"][8, 16] = float("nan")
    o.write("one_nan", meta, nan)
    meta, good = o.made["embedding"]
    short = dict(good)
    short["output.y"] = good["output.y"][:, :4]
    o.write("wrong_shape", meta, short)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("--dtype", default="float64")
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--long", action="store_true")
    args.add_argument("--break", dest="broken", action="store_true")
    a = args.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    o = Oracle(a.folder, getattr(torch, a.dtype), a.seed)
    for family in (products, norms, losses, pointwise, attentions, convolutions, indexing, optimizers):
        family(o)
    deltas(o, (1, 63, 64, 65, 129), 4)
    if a.long:
        deltas(o, (3700,), 64, ("chunk",))
    if a.broken:
        broken(o)
    print(f"{len(o.made)} files in {a.folder}")


if __name__ == "__main__":
    main()
