# SPDX-License-Identifier: Apache-2.0
"""oracle_faults.py ASSAY SOURCE FOLDER: plants small faults into a Qwen2 of 4 layers with a vocabulary of 49,152 words, dumps one step of each in float32 and bfloat16 with PyTorch's own cross entropy, and holds the verdict of
`assay train --oracle` against what is known of the fault: whether it is named, and where."""
import json
import os
import subprocess
import sys
import warnings

import torch
import transformers

ASSAY, SOURCE, FOLDER = sys.argv[1:4]
sys.path.insert(0, os.path.join(SOURCE, "examples"))
from dump_transformers import watch  # noqa: E402

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
LAYER, HEADS, LENGTH = 2, 8, 64
failed = 0


def make():
    torch.manual_seed(7)
    config = transformers.Qwen2Config(vocab_size=49152, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                      num_attention_heads=HEADS, num_key_value_heads=4, rms_norm_eps=1e-6,
                                      rope_theta=10000.0, max_position_embeddings=256, tie_word_embeddings=True)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():  # weights as large as trained ones: attention that attends, logits that differ
        for name, p in model.named_parameters():
            p.normal_(1 if name.endswith("norm.weight") else 0, 0.3 if p.dim() == 1 else 0.12)
    model.save_pretrained(FOLDER)


def attention(model):
    return model.model.layers[LAYER].self_attn


def scale(model):
    attention(model).scaling *= 1.01


def swap_heads(model):
    def swap(module, args):
        x = args[0].reshape(*args[0].shape[:-1], HEADS, -1)
        return (x[..., [1, 0, *range(2, HEADS)], :].reshape(args[0].shape),)
    attention(model).o_proj.register_forward_pre_hook(swap)


def eps(model):
    model.model.layers[0].input_layernorm.variance_epsilon = 1e-5


def eps_late(model):
    model.model.layers[LAYER].input_layernorm.variance_epsilon = 1e-5


def rope_base(model):
    rotary = model.model.rotary_emb
    rotary.inv_freq = 1 / (10100.0 ** (torch.arange(0, 32, 2, dtype=torch.float) / 32))


def no_bias(model):
    q = attention(model).q_proj
    q.register_forward_hook(lambda module, args, y: y - q.bias)


def late_position(model):
    def shift(module, args, kwargs):
        cos, sin = kwargs["position_embeddings"]
        at = torch.arange(LENGTH)
        at[LENGTH // 2:-1] += 1
        return args, kwargs | {"position_embeddings": (cos[:, at], sin[:, at])}
    attention(model).register_forward_pre_hook(shift, with_kwargs=True)


def mask(model):
    def widen(module, args, kwargs):
        ahead = torch.full((LENGTH, LENGTH), torch.finfo(model.dtype).min, dtype=model.dtype).triu(2)
        return args, kwargs | {"attention_mask": ahead[None, None]}
    attention(model).register_forward_pre_hook(widen, with_kwargs=True)


def count(model):
    plain = model.loss_function
    model.loss_function = lambda *args, **more: plain(*args, **more) * (126 / 127)


# Fault; the first tensor to be named (a part of the finding's title; None: the fault is below rounding); whether
# bfloat16 has to show it too.
FAULTS = [
    ("none", None, None, False),
    ("one norm's eps 1e-5 for 1e-6, its input of RMS 11", eps_late, None, False),
    ("attention scale of one layer x 1.01", scale, f"layers.{LAYER}.self_attn", False),
    ("two heads of one layer swapped", swap_heads, f"layers.{LAYER}.self_attn.o_proj", True),
    ("the first norm's eps 1e-5 for 1e-6, its input of RMS 0.12", eps, "layers.0.input_layernorm", False),
    ("RoPE base 10100 for 10000", rope_base, "layers.0.self_attn.o_proj", False),
    ("one bias dropped (q_proj)", no_bias, f"layers.{LAYER}.self_attn.q_proj", True),
    ("positions of the second half one too far", late_position, f"layers.{LAYER}.self_attn.o_proj", True),
    ("mask of one layer shows one token ahead", mask, f"layers.{LAYER}.self_attn.o_proj", True),
    ("loss divided by 127 labels, there are 126", count, "loss", True),
]


def step(fault, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=dtype, attn_implementation="eager")
    ids = torch.randint(0, 49152, (2, LENGTH), generator=torch.Generator().manual_seed(3))
    batch = {"input_ids": ids, "labels": ids.clone()}
    if fault is not None:
        fault(model)
    dump = watch(model)
    out = model(**batch)
    out.loss.backward()
    dump(batch, out, os.path.join(FOLDER, "dump"))
    command = [ASSAY, "train", FOLDER, "--oracle", "--against", os.path.join(FOLDER, "dump"), "--json", "--quiet"]
    return json.loads(subprocess.run(command, capture_output=True, check=False).stdout)


def judge(name, fault, place, dtype, must):
    global failed
    report = step(fault, dtype)
    worst = max(row["share_of_limit"] for row in report["tensors"])
    wrong = sum(row["wrong"] for row in report["tensors"])
    title = report["findings"][0]["title"].split(" at the ")[-1] if report["findings"] else "equal"
    good = (not wrong) if place is None else (place in title if wrong else not must)
    failed += not good
    print(f"| {name} | {str(dtype)[6:]} | {worst:.3g} | {title} | {wrong} of {len(report['tensors'])} |"
          f"{'' if good else '  NOT AS EXPECTED'}", flush=True)


make()
print("| fault | dump | largest share of a limit | first named | beyond their limits |\n|---|---|---|---|---|")
for fault_name, plant, where, in_bf16 in FAULTS:
    judge(fault_name, plant, where, torch.float32, True)
    judge(fault_name, plant, where, torch.bfloat16, in_bf16)
sys.exit(failed != 0)
