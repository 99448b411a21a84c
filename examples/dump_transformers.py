#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One step of your own stack, written for `assay train --oracle --against dump.safetensors`.

Put the two calls around your own step: `dump = watch(model)` before it, `dump(batch, out, path)` after
loss.backward(). As a program it dumps a step of a model folder: dump_transformers.py FOLDER OUT [DTYPE]."""
import sys

import torch
from safetensors.torch import save_file


SKIPPED = ("", "model", "lm_head", "base_model", "base_layer", "rotary_emb", "self_attn", "linear_attn", "mlp", "act_fn")


def watch(model):
    seen = {}

    def keep(name, value):
        value = value[0] if isinstance(value, tuple) else value
        if torch.is_tensor(value) and value.is_floating_point():
            seen[name] = value.detach().cpu().contiguous().clone()

    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] not in SKIPPED and "lora_" not in name:
            module.register_forward_hook(lambda m, i, o, n=name: keep(f"act.{n}.output", o))
            module.register_full_backward_hook(lambda m, i, o, n=name: keep(f"act.{n}.grad_output", o))

    def dump(batch, out, path, positions=8):
        logits = out.logits.detach().reshape(-1, out.logits.shape[-1])
        at = torch.nonzero(batch.get("attention_mask", torch.ones_like(batch["input_ids"])).reshape(-1))[:positions, 0]
        tensors = {k: v.cpu().contiguous() for k, v in batch.items()} | seen
        tensors |= {"loss": out.loss.detach().double().reshape(()), "logits.rows": at, "logits": logits[at].contiguous()}
        tensors |= {f"grad.{n}": p.grad.cpu().contiguous() for n, p in model.named_parameters() if p.grad is not None}
        save_file(tensors, path, {"weights": str(next(model.parameters()).dtype)})

    return dump


if __name__ == "__main__":
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        sys.argv[1], dtype=getattr(torch, sys.argv[3] if len(sys.argv) > 3 else "float32"), attn_implementation="eager")
    ids = torch.randint(0, model.config.vocab_size, (2, 48), generator=torch.Generator().manual_seed(0))
    batch, dump = {"input_ids": ids, "labels": ids.clone()}, watch(model)
    out = model(**batch)
    out.loss.backward()
    dump(batch, out, sys.argv[2])
