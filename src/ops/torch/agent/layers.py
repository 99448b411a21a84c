# SPDX-License-Identifier: Apache-2.0
# Third part of the script that guard.py describes: attention, convolutions, the gated delta rule,
# look-ups, and the steps of an optimiser.


# ---- attention ----

def sdpa(torch, t, a, **more):
    q, k, v = t["q"], t["k"], t["v"]
    mask = t.get("mask_bool", t.get("mask_add"))
    if mask is not None and "mask_bool" in t and "mask_add" in t:
        raise NotThisCase("one mask at a time")
    if mask is not None and a["causal"]:
        raise NotThisCase("a mask or is_causal")
    if a["heads"] != a["kv_heads"]:
        k, v = (x.repeat_interleave(a["heads"] // a["kv_heads"], dim=1) for x in (k, v))
    if a["scale"] != 0:
        more["scale"] = a["scale"]
    attention = torch.nn.functional.scaled_dot_product_attention
    return {"y": attention(q, k, v, attn_mask=None if mask is None else mask.unsqueeze(1),
                           is_causal=a["causal"], **more)}


@way("attention", "sdpa")
def attention_sdpa(torch, t, a):
    return sdpa(torch, t, a)


@way("attention", "sdpa enable_gqa")
def attention_gqa(torch, t, a):
    if a["heads"] == a["kv_heads"]:
        raise NotThisCase("as many key as query heads")
    grouped = dict(a, kv_heads=a["heads"])  # the keys stay as they are
    return sdpa(torch, t, grouped, enable_gqa=True)


def sdpa_backend(name):
    def run(torch, t, a):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        with sdpa_kernel(getattr(SDPBackend, name)):
            return sdpa(torch, t, a)
    return run


for _name, _backend in (("math", "MATH"), ("flash", "FLASH_ATTENTION"), ("efficient", "EFFICIENT_ATTENTION"),
                        ("cudnn", "CUDNN_ATTENTION")):
    way("attention", "sdpa " + _name, gpu=_name in ("efficient", "cudnn"))(sdpa_backend(_backend))


@way("attention", "eager")
def attention_eager(torch, t, a):
    """As the eager attention of transformers: scores in the case's format, the most negative finite
    number on what is hidden, softmax in float32."""
    group = a["heads"] // a["kv_heads"]
    k, v = (t[n].repeat_interleave(group, dim=1) for n in ("k", "v"))
    q = t["q"]
    scores = q @ k.transpose(-1, -2) * (a["scale"] or a["dim"] ** -0.5)
    if a["causal"]:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores + torch.zeros_like(scores).masked_fill(hidden, torch.finfo(q.dtype).min)
    if "mask_bool" in t:
        hidden = ~t["mask_bool"].unsqueeze(1).expand_as(scores)
        scores = scores + torch.zeros_like(scores).masked_fill(hidden, torch.finfo(q.dtype).min)
    if "mask_add" in t:
        scores = scores + t["mask_add"].unsqueeze(1)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return {"y": torch.softmax(scores, dim=-1, dtype=wide).to(q.dtype) @ v}


# ---- convolutions ----

@way("conv3d", "F.conv3d")
def conv3d(torch, t, a):
    return {"y": torch.nn.functional.conv3d(
        t["x"], t["weight"], t.get("bias"), stride=[a["stride_" + d] for d in "dhw"],
        padding=[a["pad_" + d] for d in "dhw"])}


@way("patch_embed", "F.conv3d")
def patch_conv3d(torch, t, a):
    weight = t["weight"]
    y = torch.nn.functional.conv3d(t["x"], weight, t["bias"], stride=list(weight.shape[2:]))
    return {"y": y.reshape(a["patches"], a["hidden"])}


@way("patch_embed", "F.linear")
def patch_linear(torch, t, a):
    """The same parameter, seen as a matrix."""
    return {"y": torch.nn.functional.linear(t["x"].reshape(a["patches"], -1),
                                            t["weight"].reshape(a["hidden"], -1), t["bias"])}


@way("causal_conv1d", "F.conv1d")
def causal_conv1d(torch, t, a):
    y = torch.nn.functional.conv1d(t["x"], t["weight"].unsqueeze(1), t.get("bias"), padding=a["kernel"] - 1,
                                   groups=a["channels"])[..., :a["time"]]
    return {"y": torch.nn.functional.silu(y) if a["activation"] == "silu" else y}


@way("causal_conv1d", "causal_conv1d_fn", package="causal_conv1d")
def causal_conv1d_package(torch, t, a):
    from causal_conv1d import causal_conv1d_fn
    return {"y": causal_conv1d_fn(t["x"], t["weight"], t.get("bias"),
                                  activation="silu" if a["activation"] == "silu" else None)}


# ---- gated delta rule ----

def per_value_head(a, q, k):
    group = a["v_heads"] // a["heads"]
    return (q, k) if group == 1 else tuple(x.repeat_interleave(group, dim=2) for x in (q, k))


@way("gated_delta_rule", "composed recurrent")
def delta_recurrent(torch, t, a):
    """The definition, step by step, with the state in float32."""
    q, k = per_value_head(a, t["q"], t["k"])
    wide = t["g"].dtype
    q, k, v, beta = (x.to(wide) for x in (q, k, t["v"], t["beta"]))
    if a["time"] > 512:
        raise NotThisCase("a graph of thousands of steps says no more than one of hundreds")
    if a["l2norm"]:
        q, k = (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q = q * (a["scale"] or a["dim_k"] ** -0.5)
    state = t["state"] if "state" in t else torch.zeros(
        a["batch"], a["v_heads"], a["dim_k"], a["dim_v"], dtype=wide, device=q.device)
    steps = []
    for i in range(a["time"]):
        state = state * t["g"][:, i].exp()[..., None, None]
        old = (state * k[:, i].unsqueeze(-1)).sum(-2)
        write = (v[:, i] - old) * beta[:, i].unsqueeze(-1)
        state = state + k[:, i].unsqueeze(-1) * write.unsqueeze(-2)
        steps.append((state * q[:, i].unsqueeze(-1)).sum(-2))
    return {"o": torch.stack(steps, dim=1).to(t["v"].dtype), "final_state": state}


def delta_fla(name):
    def run(torch, t, a):
        import fla.ops.gated_delta_rule as rules
        o, state = getattr(rules, name)(
            t["q"], t["k"], t["v"], t["g"], t["beta"], scale=a["scale"] or a["dim_k"] ** -0.5,
            initial_state=t.get("state"), output_final_state=True, use_qk_l2norm_in_kernel=a["l2norm"])
        return {"o": o, "final_state": state}
    return run


way("gated_delta_rule", "fla chunk", package="fla", gpu=True)(delta_fla("chunk_gated_delta_rule"))
way("gated_delta_rule", "fla recurrent", package="fla", gpu=True)(delta_fla("fused_recurrent_gated_delta_rule"))


@way("gated_delta_rule", "transformers chunk", package="transformers")
def delta_transformers(torch, t, a):
    """What transformers runs where flash-linear-attention is not installed."""
    import importlib
    rule = None
    for model in ("qwen3_5", "qwen3_next"):
        try:
            module = importlib.import_module("transformers.models.%s.modeling_%s" % (model, model))
            rule = module.torch_chunk_gated_delta_rule
            break
        except (ImportError, AttributeError):
            continue
    if rule is None:
        raise NotImplementedError("this transformers has no torch_chunk_gated_delta_rule")
    if a["scale"] != 0 or a["chunk"] != 64:
        raise NotThisCase("scale and chunk are fixed there")
    if t["q"].dtype == torch.float64:
        raise NotThisCase("it computes in float32, whatever it is given")
    q, k = per_value_head(a, t["q"], t["k"])
    o, state = rule(q, k, t["v"], g=t["g"], beta=t["beta"], chunk_size=64, initial_state=t.get("state"),
                    output_final_state=True, use_qk_l2norm_in_kernel=a["l2norm"])
    return {"o": o, "final_state": state}


# ---- look-ups ----

@way("embedding", "F.embedding")
def embedding(torch, t, a):
    row = a["padding_idx"]
    return {"y": torch.nn.functional.embedding(t["ids"], t["weight"], padding_idx=None if row < 0 else row)}


@way("embedding", "index_select")
def embedding_index(torch, t, a):
    if a["padding_idx"] >= 0:
        raise NotThisCase("every row has a gradient")
    return {"y": t["weight"].index_select(0, t["ids"])}


@way("scatter_reduce", "scatter_reduce")
def scatter_reduce(torch, t, a):
    return {"y": torch.scatter_reduce(t["x"], 0, t["index"], t["src"], reduce=a["reduce"],
                                      include_self=a["include_self"])}


@way("scatter_reduce", "scatter_add")
def scatter_add(torch, t, a):
    if a["reduce"] != "sum" or not a["include_self"]:
        raise NotThisCase("scatter_add adds")
    return {"y": torch.scatter_add(t["x"], 0, t["index"], t["src"])}


@way("interpolate", "F.interpolate")
def interpolate(torch, t, a):
    corners = {"align_corners": a["align_corners"]} if a["mode"] == "bilinear" else {}
    return {"y": torch.nn.functional.interpolate(t["x"], size=[a["out_height"], a["out_width"]], mode=a["mode"],
                                                 **corners)}


# ---- optimiser ----

def adamw_with(**choice):
    def run(torch, t, a):
        p = t["param"].requires_grad_(True)
        p.grad = t["grad"]
        try:
            optimizer = torch.optim.AdamW([p], lr=a["lr"], betas=(a["beta1"], a["beta2"]), eps=a["eps"],
                                          weight_decay=a["weight_decay"], **choice)
        except TypeError as e:
            raise NotImplementedError(str(e))
        where = p.device if choice.get("fused") else "cpu"
        optimizer.state[p] = {"step": torch.tensor(float(a["step"] - 1), dtype=torch.float32, device=where),
                              "exp_avg": t["exp_avg"], "exp_avg_sq": t["exp_avg_sq"]}
        optimizer.step()
        return {"new_param": p, "new_exp_avg": t["exp_avg"], "new_exp_avg_sq": t["exp_avg_sq"]}
    return run


for _name, _choice in (("AdamW", {"foreach": False}), ("AdamW foreach", {"foreach": True}),
                       ("AdamW fused", {"fused": True})):
    way("adamw", _name, writes=("param", "exp_avg", "exp_avg_sq"))(adamw_with(**_choice))


def clip_with(**choice):
    def run(torch, t, a):
        parameters = []
        for name in ("g0", "g1"):
            p = torch.nn.Parameter(torch.empty_like(t[name]))
            p.grad = t[name]
            parameters.append(p)
        try:
            norm = torch.nn.utils.clip_grad_norm_(parameters, a["max_norm"], **choice)
        except TypeError as e:
            raise NotImplementedError(str(e))
        return {"norm": norm, "clipped0": t["g0"], "clipped1": t["g1"]}
    return run


for _name, _choice in (("clip_grad_norm_", {}), ("clip_grad_norm_ foreach", {"foreach": True})):
    way("clip_grad_norm", _name, writes=("g0", "g1"))(clip_with(**_choice))
