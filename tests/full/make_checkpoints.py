#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small checkpoints with the real libraries: torch, transformers, peft, deepspeed, torch DCP.

usage: make_checkpoints.py FOLDER

Each kind goes to its own folder; a kind whose library is missing or fails is named on stderr and left
out. CPU only, no network, about a minute.
"""
import os
import pathlib
import random
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch  # noqa: E402


def small_model():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(7)
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64,
                                        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                        max_position_embeddings=64, tie_word_embeddings=False))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        ids = torch.randint(0, 128, (16,), generator=g)
        return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


def train(model, folder, **more):
    from transformers import Trainer, TrainingArguments
    args = TrainingArguments(output_dir=str(folder), max_steps=4, save_steps=2, save_strategy="steps",
                             per_device_train_batch_size=4, logging_steps=1, report_to=[], use_cpu=True,
                             learning_rate=1e-3, warmup_steps=1, disable_tqdm=True, seed=1, **more)
    Trainer(model=model, args=args, train_dataset=Rows()).train()


def make_torch(folder):
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    a = torch.randn(64, 64)
    torch.save({"a": a, "tied": a, "t": a.t(), "part": a[3:7, ::2], "empty": torch.empty(0, 5),
                "scalar": torch.tensor(3.0), "half": a.to(torch.bfloat16), "ids": torch.arange(5),
                "parameter": torch.nn.Parameter(a[0].clone()), "complex": torch.randn(3, dtype=torch.complex64),
                "mask": torch.tensor([True]), "u16": torch.zeros(4, dtype=torch.uint16)}, folder / "views.pt")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    torch.save(model.state_dict(), folder / "state.pt")
    torch.save(model.state_dict(), folder / "legacy.pt", _use_new_zipfile_serialization=False)


def make_families(folder):
    """One model of each family whose config.json is understood, with every switch of its parts."""
    import transformers as t
    common = dict(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64)
    wide = dict(common, head_dim=16)
    delta = dict(wide, num_hidden_layers=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
                 linear_num_value_heads=4)
    vision = dict(depth=2, hidden_size=16, num_heads=2, intermediate_size=24, patch_size=4, out_hidden_size=32,
                  num_position_embeddings=16)
    deep = dict(vision, deepstack_visual_indexes=[0, 1])
    latent = dict(common, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, n_routed_experts=4,
                  moe_intermediate_size=16, n_shared_experts=2, first_k_dense_replace=1, num_experts_per_tok=2, n_group=1,
                  topk_group=1)
    for tied in (False, True):
        tie = dict(tie_word_embeddings=tied)
        models = {
            "llama": t.LlamaForCausalLM(t.LlamaConfig(**common, **tie)),
            "llama_bias": t.LlamaForCausalLM(t.LlamaConfig(**wide, attention_bias=True, mlp_bias=True, **tie)),
            "llama_base": t.LlamaModel(t.LlamaConfig(**common, **tie)),
            "llama_classes": t.LlamaForSequenceClassification(t.LlamaConfig(**common, **tie)),
            "mistral": t.MistralForCausalLM(t.MistralConfig(**common, **tie)),
            "mixtral": t.MixtralForCausalLM(t.MixtralConfig(**common, num_local_experts=2, **tie)),
            "qwen2_moe": t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(
                **common, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
                mlp_only_layers=[1], **tie)),
            "qwen3_moe": t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
                **wide, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=2, **tie)),
            "deepseek_v2": t.DeepseekV2ForCausalLM(t.DeepseekV2Config(**latent, q_lora_rank=None, **tie)),
            "deepseek_v3": t.DeepseekV3ForCausalLM(t.DeepseekV3Config(**latent, q_lora_rank=12, attention_bias=True, **tie)),
            "gpt_oss": t.GptOssForCausalLM(t.GptOssConfig(**wide, num_local_experts=4, num_experts_per_tok=2, **tie)),
            "qwen2": t.Qwen2ForCausalLM(t.Qwen2Config(**common, **tie)),
            "qwen3": t.Qwen3ForCausalLM(t.Qwen3Config(**wide, **tie)),
            "qwen3_5_text": t.Qwen3_5ForCausalLM(t.Qwen3_5TextConfig(**delta, **tie)),
            "qwen3_5": t.Qwen3_5ForConditionalGeneration(
                t.Qwen3_5Config(text_config=dict(delta, **tie), vision_config=vision, **tie)),
            "qwen3_vl": t.Qwen3VLForConditionalGeneration(
                t.Qwen3VLConfig(text_config=wide, vision_config=deep, **tie)),
        }
        for name, model in models.items():
            model.save_pretrained(folder / (name + ("_tied" if tied else "")))
            # In two groups of its optimizer, in the order of its modules.
            if name in ("llama_bias", "qwen2", "qwen3_5_text"):
                train(model, folder / f"{name}_trained{tied}", weight_decay=0.1)


def make_trainer(folder):
    train(small_model(), folder)


def make_peft(folder):
    from peft import LoraConfig, get_peft_model
    base = small_model()
    base.save_pretrained(folder / "base")
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"],
                        modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    base.name_or_path = "../../base"
    base.config._name_or_path = "../../base"
    train(get_peft_model(base, config), folder / "run")


def make_merge(folder):
    """Base, adapter and what peft merges of them, in three types and with the options that matter."""
    from peft import LoraConfig, get_peft_model
    options = {"plain": {}, "rslora": dict(use_rslora=True), "kept": dict(modules_to_save=["lm_head"]),
               "patterns": dict(alpha_pattern={"q_proj": 3}, rank_pattern={"v_proj": 2})}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, more in options.items():
            top = folder / f"{name}_{str(dtype)[6:]}"
            base = small_model().to(dtype)
            base.save_pretrained(top / "base")
            model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"],
                                                    **more))
            g = torch.Generator().manual_seed(3)
            for key, x in model.named_parameters():
                if "lora_B" in key:
                    x.data = (torch.randn(x.shape, generator=g) * .02).to(x.dtype)
            model.save_pretrained(top / "adapter")
            model.merge_and_unload().save_pretrained(top / "merged")


def make_dcp(folder):
    import torch.distributed.checkpoint as dcp
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(input_ids=torch.arange(16)[None], labels=torch.arange(16)[None]).loss.backward()
    optimizer.step()
    dcp.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1},
             checkpoint_id=str(folder))


def rank_environment(rank, world, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), LOCAL_SIZE=str(world))


def fsdp_rank(rank, folder, port):
    rank_environment(rank, 2, port)
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    model = small_model()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(input_ids=torch.arange(16)[None], labels=torch.arange(16)[None]).loss.backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    dist.destroy_process_group()


def make_fsdp(folder):
    torch.multiprocessing.spawn(fsdp_rank, (str(folder), random.randint(20000, 50000)), nprocs=2)


def deepspeed_rank(rank, folder, port, stage):
    rank_environment(rank, 2, port)
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo")
    model = small_model()
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "bf16": {"enabled": True},
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for _ in range(3):
        ids = torch.arange(32).reshape(2, 16)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
    engine.save_checkpoint(folder, tag="global_step3")


def deepspeed_stage(folder, stage):
    torch.multiprocessing.spawn(deepspeed_rank, (str(folder), random.randint(20000, 50000), stage), nprocs=2)


def make_zero1(folder):
    deepspeed_stage(folder, 1)


def make_zero2(folder):
    deepspeed_stage(folder, 2)


def make_zero3(folder):
    deepspeed_stage(folder, 3)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    top = pathlib.Path(sys.argv[1])
    top.mkdir(parents=True, exist_ok=True)
    kinds = {"torch": make_torch, "trainer": make_trainer, "peft": make_peft, "dcp": make_dcp,
             "families": make_families, "merge": make_merge,
             "fsdp": make_fsdp, "zero1": make_zero1, "zero2": make_zero2, "zero3": make_zero3}
    made = []
    for name in sys.argv[2:] or kinds:
        try:
            kinds[name](top / name)
            made.append(name)
        except Exception as e:  # noqa: BLE001: the other kinds are still wanted
            print(f"make_checkpoints: {name}: {type(e).__name__}: {str(e)[-600:]}", file=sys.stderr)
    print("made", " ".join(made))


if __name__ == "__main__":
    main()
