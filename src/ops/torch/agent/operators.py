# SPDX-License-Identifier: Apache-2.0
# Second part of the script that guard.py describes: each operator in the ways PyTorch offers it.
#
# A way is a function of (torch, tensors by name, attributes) and returns the results by name; names,
# shapes and attributes are those of the operator table in src/ops. A way that does not fit a case
# raises NotThisCase (the case is not counted for it); what this PyTorch lacks ends in an AttributeError
# or NotImplementedError, which is reported as "missing" and never as a pass.

WAYS = {}  # operator: {way: function}


class NotThisCase(Exception):
    pass


def way(operator, name, writes=(), package=None, gpu=False):
    """Adds a way: inputs it changes, the package that it needs, whether it runs on GPUs alone."""
    def add(function):
        WAYS.setdefault(operator, {})[name] = {"run": function, "writes": writes, "package": package, "gpu": gpu}
        return function
    return add


def list_variants(device):
    """Ways that can be tried here, by operator."""
    import importlib.util
    found = {}
    for operator, ways in WAYS.items():
        found[operator] = [name for name, w in ways.items()
                           if (w["package"] is None or importlib.util.find_spec(w["package"]) is not None)
                           and not (w["gpu"] and device == "cpu")]
    return found


def find_way(operator, name):
    if name not in WAYS.get(operator, {}):
        raise NotImplementedError("the agent knows no way '%s' of '%s'" % (name, operator))
    return WAYS[operator][name]


# ---- products ----

def finish_gemm(torch, t, a, y):
    """What matmul leaves to be done: alpha, beta, bias and activation."""
    functional = torch.nn.functional
    if a["alpha"] != 1:
        y = y * a["alpha"]
    if "c" in t:
        y = y + a["beta"] * t["c"]
    return {"y": activate(functional, a, y + t["bias"] if "bias" in t else y)}


def activate(functional, a, y):
    kind = a["activation"]
    if kind == "relu":
        return functional.relu(y)
    if kind == "gelu_tanh":
        return functional.gelu(y, approximate="tanh")
    return functional.gelu(y) if kind == "gelu" else y


@way("gemm", "matmul")
def gemm_matmul(torch, t, a):
    if a["batch"] == 1:  # two-dimensional operands take another path than batches of one
        y = torch.matmul(t["a"][0], t["b"][0]).unsqueeze(0)
    else:
        y = torch.matmul(t["a"], t["b"])
    return finish_gemm(torch, t, a, y)


@way("gemm", "F.linear")
def gemm_linear(torch, t, a):
    if a["batch"] != 1:
        raise NotThisCase("F.linear takes one weight for all batches")
    y = torch.nn.functional.linear(t["a"][0], t["b"][0].t()).unsqueeze(0)
    return finish_gemm(torch, t, a, y)


@way("gemm", "addmm")
def gemm_addmm(torch, t, a):
    if a["batch"] == 1:
        c = t["c"][0] if "c" in t else t["bias"] if "bias" in t else None
        if c is None:
            raise NotThisCase("nothing to add")
        y = torch.addmm(c, t["a"][0], t["b"][0], beta=a["beta"] if "c" in t else 1, alpha=a["alpha"]).unsqueeze(0)
    else:
        if "c" not in t:
            raise NotThisCase("nothing to add")
        y = torch.baddbmm(t["c"], t["a"], t["b"], beta=a["beta"], alpha=a["alpha"])
    if "c" in t and "bias" in t:
        y = y + t["bias"]
    return {"y": activate(torch.nn.functional, a, y)}


@way("linear", "F.linear")
def linear_functional(torch, t, a):
    return {"y": torch.nn.functional.linear(t["x"], t["weight"], t.get("bias"))}


@way("linear", "matmul")
def linear_matmul(torch, t, a):
    y = t["x"] @ t["weight"].t()
    return {"y": y + t["bias"] if "bias" in t else y}


@way("linear", "addmm")
def linear_addmm(torch, t, a):
    if "bias" not in t:
        raise NotThisCase("nothing to add")
    return {"y": torch.addmm(t["bias"], t["x"], t["weight"].t())}


# ---- norms ----

@way("rms_norm", "F.rms_norm")
def rms_functional(torch, t, a):
    if a["convention"] != "plain":
        raise NotThisCase("F.rms_norm has one convention")
    return {"y": torch.nn.functional.rms_norm(t["x"], [a["d"]], t["weight"], a["eps"])}


@way("rms_norm", "composed")
def rms_composed(torch, t, a):
    """The modules of transformers: Qwen3.5 and Gemma (zero_centred), Llama and Qwen3 (cast_first)."""
    x = t["x"] if t["x"].dtype == torch.float64 else t["x"].float()
    n = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + a["eps"])
    if a["convention"] == "cast_first":
        return {"y": t["weight"] * n.to(t["x"].dtype)}
    weight = t["weight"].to(x.dtype)
    return {"y": (n * (1 + weight if a["convention"] == "zero_centred" else weight)).to(t["x"].dtype)}


@way("layer_norm", "F.layer_norm")
def layer_norm(torch, t, a):
    return {"y": torch.nn.functional.layer_norm(t["x"], [a["d"]], t["weight"], t.get("bias"), a["eps"])}


# ---- pointwise ----

@way("swiglu", "F.silu")
def swiglu(torch, t, a):
    return {"y": torch.nn.functional.silu(t["gate"]) * t["up"]}


@way("rope", "composed")
def rope(torch, t, a):
    """As transformers turns queries and keys: x cos + rotate_half(x) sin."""
    x, rotary = t["x"], a["rotary"]
    turned, rest = x[..., :rotary], x[..., rotary:]
    if a["layout"] == "half":
        cos, sin = (torch.cat((t[n], t[n]), dim=-1) for n in ("cos", "sin"))
        half = turned.chunk(2, dim=-1)
        other = torch.cat((-half[1], half[0]), dim=-1)
    else:
        cos, sin = (t[n].repeat_interleave(2, dim=-1) for n in ("cos", "sin"))
        other = torch.stack((-turned[..., 1::2], turned[..., 0::2]), dim=-1).flatten(-2)
    return {"y": torch.cat((turned * cos + other * sin, rest), dim=-1)}


@way("rope", "complex")
def rope_complex(torch, t, a):
    """As Meta's Llama and others turn pairs of neighbours: one complex product in float32."""
    if a["layout"] != "interleaved":
        raise NotThisCase("complex numbers are pairs of neighbours")
    wide = torch.float64 if t["x"].dtype == torch.float64 else torch.float32
    x, rotary = t["x"], a["rotary"]
    pairs = torch.view_as_complex(x[..., :rotary].to(wide).reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = torch.view_as_real(pairs * torch.complex(t["cos"].to(wide), t["sin"].to(wide))).flatten(-2)
    return {"y": torch.cat((turned.to(x.dtype), x[..., rotary:]), dim=-1)}


# ---- probabilities ----

@way("softmax", "F.softmax")
def softmax(torch, t, a):
    return {"y": torch.nn.functional.softmax(t["x"], dim=-1)}


@way("softmax", "log_softmax.exp")
def softmax_log(torch, t, a):
    if t["x"].dtype not in (torch.float32, torch.float64):
        raise NotThisCase("the logarithm would be rounded in between")
    return {"y": torch.log_softmax(t["x"], dim=-1).exp()}


@way("cross_entropy", "F.cross_entropy")
def cross_entropy(torch, t, a):
    loss = torch.nn.functional.cross_entropy(t["logits"], t["target"], ignore_index=a["ignore_index"],
                                             reduction=a["reduction"])
    return {"loss": loss}


@way("cross_entropy", "float32 logits")
def cross_entropy_upcast(torch, t, a):
    """As the losses of transformers do it: logits.float() first."""
    wide = t["logits"] if t["logits"].dtype == torch.float64 else t["logits"].float()
    loss = torch.nn.functional.cross_entropy(wide, t["target"], ignore_index=a["ignore_index"],
                                             reduction=a["reduction"])
    return {"loss": loss}
