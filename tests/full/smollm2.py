#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: smollm2.py check|speed ASSAY FILE.gguf SOURCE SCRATCH

check: the model of FILE.gguf in `assay train` beside transformers. Weights that --convert writes are those that
transformers and the gguf package read, bit for bit; the ids of a text are equal; its loss in float32, and one
step with all activations and gradients; LoRA lowers the loss of text that was held out, and PEFT finds the same
loss with the adapter; greedy continuations are equal.
speed: tokens per CPU second of updates with all weights trained, beside transformers' eager model and PyTorch's
AdamW."""
import json
import os
import resource
import subprocess
import sys
import time

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

MODE, ASSAY, FILE, SOURCE, SCRATCH = sys.argv[1:6]
FOLDER = os.path.join(SCRATCH, "folder")
LENGTH, STEPS, TOKENS = 128, 40, 24
LIMIT = 1e-4
PROMPTS = ["<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
           "<|im_start|>user\nWrite one sentence about a rabbit.<|im_end|>\n<|im_start|>assistant\n",
           "Alice was beginning to feel very sleepy, when suddenly the Cat"]


def assay(*words):
    done = subprocess.run([ASSAY, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"assay {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(what, true):
    if not true:
        sys.exit(f"FAILED: {what}")


def expect_near(what, ours, theirs):
    error = abs(ours - theirs) / abs(theirs)
    print(f"{what}: {ours:.8f}, theirs {theirs:.8f}, difference {error:.1e}")
    expect(what, error <= LIMIT)


def write(name, text):
    path = os.path.join(SCRATCH, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def split_text():
    """The shipped text, its last twentieth of the lines held out."""
    with open(os.path.join(SOURCE, "examples/train/alice.txt")) as f:
        lines = f.readlines()
    held = len(lines) // 20
    return write("learn.txt", "".join(lines[:-held])), write("held.txt", "".join(lines[-held:]))


def check_weights():
    """In Hugging Face's names and order of rows by transformers, which dequantises with the gguf package."""
    theirs = AutoModelForCausalLM.from_pretrained(os.path.dirname(FILE), gguf_file=os.path.basename(FILE),
                                                  dtype=torch.float32).state_dict()
    ours = load_file(os.path.join(FOLDER, "model.safetensors"))
    expect("names of the weights", set(ours) == set(theirs) - {"lm_head.weight"})
    for name, value in ours.items():
        expect(f"weight {name}", torch.equal(value, theirs[name]))
    print(f"{len(ours)} tensors of weights: equal to the bit")


def check_tokens(paths):
    """By transformers from the GGUF file; by the tokenizers library from the tokenizer.json written."""
    first = AutoTokenizer.from_pretrained(os.path.dirname(FILE), gguf_file=os.path.basename(FILE))
    second = PreTrainedTokenizerFast(tokenizer_file=os.path.join(FOLDER, "tokenizer.json"))
    for path in paths:
        ours = [int(x) for x in assay("tokenizer", "encode", FILE, "--text", path).split()]
        with open(path) as f:
            text = f.read()
        expect("ids of the text", ours == first(text).input_ids and ours == second(text).input_ids)
        print(f"{len(ours)} ids of {os.path.basename(path)}: equal")
    hard = "In 1865, 2024 and \u0664\u0665: it's  we'LL\n\n\t<|im_end|>\u00e9\u4e2d\u6587 \U0001f600 end "
    ours = [int(x) for x in assay("tokenizer", "encode", FILE, "--text", write("hard.txt", hard)).split()]
    expect(f"ids of {hard!r}: {ours}, {second(hard).input_ids}", ours == second(hard).input_ids)
    return second


def pieces_of(tokenizer, path):
    """As assay cuts a text: its ids and the end of text, in pieces."""
    with open(path) as f:
        ids = tokenizer(f.read()).input_ids + [2]
    return [ids[i:i + LENGTH] for i in range(0, len(ids), LENGTH) if len(ids[i:i + LENGTH]) > 1]


def mean_loss(model, pieces):
    total, labels = 0.0, 0
    with torch.no_grad():
        for ids in pieces:
            logits = model(input_ids=torch.tensor([ids])).logits[0, :-1]
            total += torch.nn.functional.cross_entropy(logits.double(), torch.tensor(ids[1:]), reduction="sum").item()
            labels += len(ids) - 1
    return total / labels


def eval_loss(held, run, *words):
    out = os.path.join(SCRATCH, run)
    assay("train", FILE, "--eval", held, "--length", str(LENGTH), "--save", out, "--quiet", *words)
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return [x["eval_loss"] for x in map(json.loads, f) if "eval_loss" in x][-1], out


def check_step(model, pieces):
    sys.path.insert(0, os.path.join(SOURCE, "examples"))
    from dump_transformers import watch
    ids = torch.tensor([pieces[0][:48], pieces[1][:48]])
    batch, dump = {"input_ids": ids, "labels": ids.clone()}, watch(model)
    out = model(**batch)
    logits, labels = out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    loss = torch.nn.functional.cross_entropy
    print(f"loss of the step by PyTorch from the same logits: {loss(logits, labels).item():.9f} in float32, "
          f"{loss(logits.double(), labels).item():.9f} in float64")
    for name, value in (("float32", logits), ("float64", logits.double())):
        out.loss = loss(value, labels)
        out.loss.backward(retain_graph=True)
        path = os.path.join(SCRATCH, "dump.safetensors")
        dump(batch, out, path)
        model.zero_grad()
        report = json.loads(assay("train", FILE, "--oracle", "--against", path, "--json"))
        worst = max(row["share_of_limit"] for row in report["tensors"])
        print(f"one step of 96 tokens, loss in {name}: {report['verdict']}; largest share of a limit {worst:.2f}")
        expect("no tensor beyond its limit", report["findings"] == [])
        expect("gradients and activations among them", len(report["tensors"]) > 800)


def continued(prompt, *words):
    return assay("train", FILE, "--generate", prompt, "--tokens", str(TOKENS), *words).removesuffix("\n")


def check_words(model, tokenizer, before):
    for prompt, ours in zip(PROMPTS, before):
        ids = torch.tensor([tokenizer(prompt).input_ids])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                             eos_token_id=2, pad_token_id=2)
        theirs = tokenizer.decode(out[0].tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        expect(f"greedy continuation: {ours!r}, theirs {theirs!r}", ours == theirs)
    print(f"{len(PROMPTS)} greedy continuations: equal")


def check():
    learn, held = split_text()
    assay("train", FILE, "--convert", FOLDER)
    check_weights()
    tokenizer = check_tokens([learn, held])
    pieces = pieces_of(tokenizer, held)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager")
    first, _ = eval_loss(held, "still", "--data", held, "--steps", "1", "--lr", "0", "--brief", "--lora", "r=1")
    expect_near("loss of the held-out text", first, mean_loss(model, pieces))
    check_step(model, pieces)
    began = time.time()
    last, run = eval_loss(held, "lora", "--data", learn, "--lora", "r=8,alpha=16", "--steps", str(STEPS),
                          "--lr", "5e-4", "--warmup", "5", "--brief")
    print(f"LoRA, {STEPS} updates of {LENGTH} tokens in {time.time() - began:.0f} s: held-out loss "
          f"{first:.4f} to {last:.4f}")
    expect("LoRA lowers the held-out loss by a tenth of a nat", last < first - 0.1)
    before = [continued(p) for p in PROMPTS]
    check_words(model, tokenizer, before)
    adapter = os.path.join(run, f"checkpoint-{STEPS}")
    from peft import PeftModel
    expect_near("with the adapter", last, mean_loss(PeftModel.from_pretrained(model, adapter), pieces))
    for prompt, text in zip(PROMPTS, before):
        print(f"--- before: {text}\n--- after:  {continued(prompt, '--adapter', adapter)}")


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own_seconds(data, steps):
    """CPU seconds of one update: two runs of different length, so that loading falls out."""
    at = []
    for n in (1, 1 + steps):
        began = children()
        assay("train", FILE, "--data", data, "--length", "256", "--lr", "1e-5", "--brief", "--quiet", "--steps", str(n),
              "--threads", "1")
        at.append(children() - began)
    return (at[1] - at[0]) / steps


def torch_seconds(data, steps):
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    with open(data) as f:
        rows = [json.loads(line)["input_ids"] for line in f]
    times = []
    for row in rows[:steps + 1]:
        ids = torch.tensor([row])
        began = time.process_time()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.process_time() - began)
    return sum(times[1:]) / steps


def speed():
    """One thread: its CPU seconds are steady on a busy machine, seconds on all cores are not."""
    assay("train", FILE, "--convert", FOLDER)
    with open(os.path.join(SOURCE, "examples/train/alice.txt")) as f:
        ids = PreTrainedTokenizerFast(tokenizer_file=os.path.join(FOLDER, "tokenizer.json"))(f.read()).input_ids
    rows = [ids[i:i + 256] for i in range(0, 256 * 8, 256)]
    data = write("ids.jsonl", "".join(json.dumps({"input_ids": r, "labels": r}) + "\n" for r in rows))
    print("updates of 256 tokens, float32, AdamW over 134.5 M weights: tokens per CPU second of one thread")
    for name, seconds in (("PyTorch eager", torch_seconds), ("assay train", own_seconds)):
        print(f"{name:14} {256 / seconds(data, 4):8.1f}")


if __name__ == "__main__":
    {"check": check, "speed": speed}[MODE]()
