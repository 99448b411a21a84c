#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny Qwen3.5 and Qwen3-VL models and one training step of each by transformers (and peft), for
train_oracle_qwen35.sh and, with --golden, for tests/golden/train/.

    train_oracle_qwen35.py FOLDER DTYPE [--golden]

Each FOLDER/<case>/ holds config.json, model.safetensors, an adapter's folder where the case has one, and
step.<dtype>.safetensors: the batch, the loss (a mean over the labels) and the gradient of every trained
parameter. float64 is float64 throughout: transformers casts to float32 in norms, softmax, rotary tables,
the delta rule and the interpolation of positions, and those casts are made float64 here, so that formulas
can be compared to many digits; with --golden their gradients are stored as float32, which is smaller.
float32 and bfloat16 are as they come."""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

TEXT = dict(vocab_size=60, hidden_size=16, intermediate_size=20, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, rms_norm_eps=1e-5, max_position_embeddings=512, initializer_range=0.2)
QWEN35 = TEXT | dict(model_type="qwen3_5_text", head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
                     linear_key_head_dim=8, linear_value_head_dim=6, linear_conv_kernel_dim=4,
                     layer_types=["linear_attention", "full_attention", "linear_attention"],
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5,
                                          mrope_section=[2, 1, 1], mrope_interleaved=True))
QWEN3VL = TEXT | dict(model_type="qwen3_vl_text", head_dim=12,
                      rope_parameters=dict(rope_type="default", rope_theta=5000000.0, mrope_section=[2, 2, 2],
                                           mrope_interleaved=True))
VISION = dict(depth=2, hidden_size=8, intermediate_size=12, num_heads=2, in_channels=3, patch_size=2,
              temporal_patch_size=2, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=16,
              initializer_range=0.2)
IMAGE, VIDEO = 58, 59
TOKENS = dict(image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=56, vision_end_token_id=57)
GRIDS = [[1, 4, 6], [1, 2, 2], [1, 8, 4]]  # pictures of 6, 1 and 8 tokens
VIDEO_GRIDS = [[2, 4, 2], [1, 4, 4]]  # a video of two frames of 2 tokens, one of a frame of 4

CASES = {
    "qwen3_5_text": (QWEN35 | dict(tie_word_embeddings=True), None),
    "qwen3_5": (dict(model_type="qwen3_5", text_config=QWEN35, vision_config=VISION, tie_word_embeddings=False) | TOKENS,
                None),
    "qwen3_5_video": (dict(model_type="qwen3_5", text_config=QWEN35, vision_config=VISION,
                           tie_word_embeddings=True) | TOKENS, None),
    "qwen3_vl_video": (dict(model_type="qwen3_vl", text_config=QWEN3VL, tie_word_embeddings=False,
                            vision_config=VISION | dict(deepstack_visual_indexes=[1])) | TOKENS, None),
    "qwen3_vl": (dict(model_type="qwen3_vl", text_config=QWEN3VL, tie_word_embeddings=True,
                      vision_config=VISION | dict(deepstack_visual_indexes=[0, 1])) | TOKENS, None),
    "qwen3_5_lora": (dict(model_type="qwen3_5", text_config=QWEN35, vision_config=VISION,
                          tie_word_embeddings=True) | TOKENS,
                     dict(r=2, lora_alpha=6, target_modules="all-linear")),
    "qwen3_vl_lora": (dict(model_type="qwen3_vl", text_config=QWEN3VL, tie_word_embeddings=False,
                           vision_config=VISION | dict(deepstack_visual_indexes=[1])) | TOKENS,
                      dict(r=3, lora_alpha=4, use_rslora=True,
                           target_modules=["q_proj", "v_proj", "down_proj", "qkv", "linear_fc2"])),
}
GOLDEN = ["qwen3_5", "qwen3_vl"]


class DoubleTorch:
    """The torch module, in which float32 is float64."""
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def all_double():
    import transformers.loss.loss_utils as loss_utils
    import transformers.modeling_rope_utils as modeling_rope_utils
    import transformers.models.qwen3_5.modeling_qwen3_5 as qwen3_5
    import transformers.models.qwen3_vl.modeling_qwen3_vl as qwen3_vl
    import transformers.vision_utils as vision_utils
    for module in (qwen3_5, qwen3_vl, loss_utils, modeling_rope_utils, vision_utils):
        module.torch = DoubleTorch()
    torch.Tensor.float = lambda self: self.double()


def check_double(model):
    frequencies = [m.inv_freq for m in model.modules() if hasattr(m, "inv_freq")]
    assert frequencies and all(f.dtype == torch.float64 for f in frequencies)


def classes(case):
    text = CASES[case][0]["model_type"].endswith("_text")
    return transformers.AutoModelForCausalLM if text else transformers.AutoModelForImageTextToText


def disturb(model, only=""):
    """Norms away from 0 and 1, adapters away from 0; values that bfloat16 can hold."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if only in name:
                p.add_(torch.randn_like(p) * 0.1)
                p.copy_(p.bfloat16())


def make(case, folder):
    torch.manual_seed(sum(map(ord, case)))
    settings, lora = CASES[case]
    config = transformers.AutoConfig.for_model(**settings)
    model = classes(case).from_config(config, dtype=torch.float32)
    disturb(model)
    model.bfloat16().save_pretrained(folder)
    if lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **lora),
                                    autocast_adapter_dtype=False)
        disturb(model, "lora_")
        model.save_pretrained(folder / "adapter")


def pictures(grids, generator, pixels, grid):
    patches = sum(t * h * w for t, h, w in grids)
    size = VISION["in_channels"] * VISION["temporal_patch_size"] * VISION["patch_size"]**2
    return {pixels: torch.randn((patches, size), generator=generator).bfloat16(), grid: torch.tensor(grids)}


def batch(case):
    g = torch.Generator().manual_seed(len(case))
    ids = torch.randint(0, 50, (3, 80), generator=g)
    mask = torch.ones_like(ids)
    mask[1, 67:] = 0
    mask[2, 30:] = 0
    data = {"input_ids": ids, "attention_mask": mask}
    if case.endswith("video"):  # frames are apart, as the processor puts times between them
        for row, at, n in (0, 20, 2), (0, 24, 2), (2, 5, 4):
            ids[row, at - 1], ids[row, at:at + n], ids[row, at + n] = 56, VIDEO, 57
        data |= pictures(VIDEO_GRIDS, g, "pixel_values_videos", "video_grid_thw")
        data["mm_token_type_ids"] = (ids == VIDEO).long() * 2
    elif not case.startswith("qwen3_5_text"):
        ids[0, 3], ids[0, 4:10], ids[0, 10] = 56, IMAGE, 57
        ids[0, 70], ids[0, 71], ids[0, 72] = 56, IMAGE, 57
        ids[2, 0], ids[2, 1:9], ids[2, 9] = 56, IMAGE, 57
        data |= pictures(GRIDS, g, "pixel_values", "image_grid_thw")
        data["mm_token_type_ids"] = (ids == IMAGE).long()
    keep = (mask == 1) & (torch.rand(ids.shape, generator=g) > 0.2) & (ids < IMAGE)
    data["labels"] = torch.where(keep, ids, -100)
    return data


def step(case, folder, dtype, path, stored):
    model = classes(case).from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    if CASES[case][1]:
        import peft
        model = peft.PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True,
                                               autocast_adapter_dtype=False)
        model.to(dtype)
    if dtype == torch.float64:
        check_double(model)
    model.train()
    data = batch(case)
    out = model(**data)
    out.loss.backward()
    tensors = {k: v.contiguous() for k, v in data.items()}
    tensors["loss"] = out.loss.detach().double().reshape(())
    for name, p in model.named_parameters():
        if p.grad is not None:
            tensors["grad." + name.replace(".default.", ".")] = p.grad.to(stored).contiguous()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    save_file(tensors, path)
    print(f"{case} {dtype}: loss {out.loss.item():.6f}, {sum(k.startswith('grad.') for k in tensors)} gradients")


def main():
    top, dtype = pathlib.Path(sys.argv[1]), sys.argv[2]
    if dtype == "float64":
        all_double()
    golden = "--golden" in sys.argv
    for case in GOLDEN if golden else CASES:
        folder = top / case
        if not folder.exists():
            make(case, folder)
        step(case, folder, getattr(torch, dtype), folder / f"step.{dtype}.safetensors",
             torch.float32 if golden else getattr(torch, dtype))


if __name__ == "__main__":
    main()
