# SPDX-License-Identifier: Apache-2.0
"""Makes a LLaMA-Factory job in the working folder: a tiny Qwen2 with random weights and a tokenizer of
its own (tiny/), 200 sums to learn (data/), and lora.yaml."""
import json
import os

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

text = ["What is two and two? It is four. The quick brown fox jumps over the lazy dog."] * 5
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(text, trainers.BpeTrainer(
    vocab_size=400, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>",
                        pad_token="<|endoftext|>").save_pretrained("tiny")
Qwen2ForCausalLM(Qwen2Config(
    vocab_size=512, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, eos_token_id=2, pad_token_id=0,
    bos_token_id=None)).save_pretrained("tiny")
os.makedirs("data", exist_ok=True)
with open("data/sums.json", "w") as f:
    json.dump([{"instruction": f"What is {i} plus {i + 1}?", "input": "", "output": f"It is {2 * i + 1}."}
               for i in range(200)], f)
with open("data/dataset_info.json", "w") as f:
    json.dump({"sums": {"file_name": "sums.json"}}, f)
with open("lora.yaml", "w") as f:
    f.write("""model_name_or_path: tiny
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
dataset: sums
dataset_dir: data
template: qwen
cutoff_len: 128
output_dir: out
overwrite_output_dir: true
logging_steps: 5
max_steps: 40
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
learning_rate: 1.0e-3
lr_scheduler_type: cosine
report_to: none
use_cpu: true
dataloader_num_workers: 1
""")
