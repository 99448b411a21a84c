# SPDX-License-Identifier: Apache-2.0
"""Makes a multimodal LLaMA-Factory job in the working folder: two Qwen2.5-VL models with random weights
(tiny/, larger/), 24 questions about pictures of one colour and 24 without a picture (data/), and job.yaml."""
import json
import os

from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration,
                          Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor, set_seed)

special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
           "<|image_pad|>", "<|video_pad|>"]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(["What colour is this? It is red, green or blue."] * 5, trainers.BpeTrainer(
    vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                               additional_special_tokens=special[3:])
token = {name: fast.convert_tokens_to_ids(name) for name in special}
pixels = {"min_pixels": 56 * 56, "max_pixels": 56 * 56, "patch_size": 14, "merge_size": 2}
processor = Qwen2_5_VLProcessor(
    image_processor=Qwen2VLImageProcessor(**pixels), tokenizer=fast, video_processor=Qwen2VLVideoProcessor(),
    chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}")
for name, hidden, layers in (("tiny", 64, 2), ("larger", 192, 4)):
    set_seed(0)
    Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(vocab_size=512, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [hidden // 32, hidden // 32, hidden // 16]},
                         eos_token_id=token["<|im_end|>"], pad_token_id=token["<|endoftext|>"], bos_token_id=None),
        vision_config=dict(depth=2, hidden_size=hidden, intermediate_size=2 * hidden, num_heads=4,
                           out_hidden_size=hidden, patch_size=14, window_size=56, fullatt_block_indexes=[1]),
        image_token_id=token["<|image_pad|>"], video_token_id=token["<|video_pad|>"],
        vision_start_token_id=token["<|vision_start|>"], vision_end_token_id=token["<|vision_end|>"],
    )).save_pretrained(name)
    processor.save_pretrained(name)
os.makedirs("data", exist_ok=True)
pictures, text = [], []
for i in range(24):
    colour = ("red", "green", "blue")[i % 3]
    Image.new("RGB", (56, 56), colour).save(f"data/{colour}.png")
    answer = {"content": f"It is {colour}.", "role": "assistant"}
    pictures.append({"messages": [{"content": "<image>What colour is this?", "role": "user"}, answer],
                     "images": [f"{colour}.png"]})
    text.append({"messages": [{"content": f"What colour is {colour}?", "role": "user"}, answer]})
tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
info = {}
for name, rows in (("pictures", pictures), ("text", text)):
    with open(f"data/{name}.json", "w") as f:
        json.dump(rows, f)
    columns = {"messages": "messages"} | ({"images": "images"} if name == "pictures" else {})
    info[name] = {"file_name": f"{name}.json", "formatting": "sharegpt", "columns": columns, "tags": tags}
with open("data/dataset_info.json", "w") as f:
    json.dump(info, f)
with open("job.yaml", "w") as f:
    f.write("""model_name_or_path: tiny
stage: sft
do_train: true
finetuning_type: full
freeze_vision_tower: false
freeze_multi_modal_projector: false
dataset: pictures
dataset_dir: data
media_dir: data
template: qwen2_vl
cutoff_len: 256
output_dir: out
overwrite_output_dir: true
logging_steps: 1
max_steps: 12
save_strategy: "no"
per_device_train_batch_size: 4
learning_rate: 3.0e-4
report_to: none
use_cpu: true
seed: 1
""")
