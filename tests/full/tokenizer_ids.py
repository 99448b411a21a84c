# SPDX-License-Identifier: Apache-2.0
"""usage: tokenizer_ids.py ASSAY FILES WORK [NAME]: the ids of `assay tokenizer encode` beside those of the libraries.

FILES is what tokenizer_files.sh prints, WORK/texts what tokenizer_texts.py wrote. One row a model and library;
every part whose ids differ is named with the place. NAME: only models whose name contains it."""
import base64
import glob
import json
import multiprocessing
import os
import subprocess
import sys

import mistral_common
import sentencepiece
import tiktoken
import tiktoken.load
import tiktoken_ext.openai_public as public
from tokenizers import Tokenizer

assay, files, work = sys.argv[1:4]
only = sys.argv[4] if len(sys.argv) > 4 else ""
parts = sorted(glob.glob(f"{work}/texts/*"))
texts = {p: open(p, "rb").read().decode("utf-8", errors="replace") for p in parts}
total = sum(os.path.getsize(p) for p in parts)
worst = 0


def ours(model, path, *options):
    done = subprocess.run([assay, "tokenizer", "encode", model, "--text", path, *options], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return [int(x) for x in done.stdout.split()]


def place(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"id {at} of {len(b)}: {a[at:at + 6]}, the library {b[at:at + 6]}"


def side_by_side(function, items):
    """As map(), by as many processes as there are cores; what they run is inherited, since it cannot be sent."""
    global task
    task = function
    with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
        return pool.map(run_task, items, chunksize=1)


def run_task(item):
    return task(item)


def row(name, library, model, encode, *options, show=None):
    global worst
    if only not in f"{name} {library}":
        return
    def part(path):
        a, b = ours(model, path, *options), encode(texts[path])
        if a == b:
            return len(b), None
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return len(b), f"  {os.path.basename(path)}: {place(a, b)}" + (f" {show(b[at - 3:at + 6])!r}" if show else "")

    results = side_by_side(part, parts)
    tokens, differ = sum(n for n, _ in results), [line for _, line in results if line]
    print(f"{name:28}{library:15}{total / 1e6:8.1f} MB{tokens:12,} ids   "
          f"{f'{len(differ)} of {len(parts)} parts differ' if differ else 'the same'}", flush=True)
    for line in differ:
        print(line, flush=True)
    worst |= bool(differ)


def through_tokenizers(family):
    path = f"{files}/{family}/tokenizer.json"
    t = Tokenizer.from_file(path)
    row(family, "tokenizers", path, lambda s: t.encode(s, add_special_tokens=False).ids,
        show=lambda ids: t.decode(ids, skip_special_tokens=False))


def alphabet():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(others)}


def ranks_of(family, count):
    """The mergeable ranks of a tokenizer.json, which numbers them as tiktoken does."""
    letters = alphabet()
    vocab = json.load(open(f"{files}/{family}/tokenizer.json"))["model"]["vocab"]
    return {bytes(letters[c] for c in piece): rank for piece, rank in vocab.items() if rank < count}


def through_tiktoken(name, family, count, pattern=None):
    if only not in f"{name} tiktoken":
        return
    ranks = ranks_of(family, count)
    assert sorted(ranks.values()) == list(range(count)), (name, len(ranks))
    path = f"{work}/{name}.tiktoken"
    with open(path, "wb") as f:
        for piece, rank in sorted(ranks.items(), key=lambda x: x[1]):
            f.write(base64.b64encode(piece) + b" %d\n" % rank)
    public.load_tiktoken_bpe = lambda *_, **__: ranks  # the library's own expression and specials over our ranks
    made = getattr(public, name)() if pattern is None else dict(name=name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    made.pop("explicit_n_vocab", None)
    t = tiktoken.Encoding(**made)
    row(name, "tiktoken", path, t.encode_ordinary, "--plain", "--pattern", name, show=t.decode)


def through_sentencepiece(name, path):
    t = sentencepiece.SentencePieceProcessor(model_file=path)
    row(name, "sentencepiece", path, t.encode, show=t.decode)


def train(name, **options):
    if only not in f"{name} sentencepiece":
        return
    lines = [x for p in parts if p.endswith((".00", ".01")) and "hostile" not in p for x in texts[p].split("\n") if x.strip()][::9]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=f"{work}/{name}", minloglevel=2,
                                             input_sentence_size=60_000, shuffle_input_sentence=True, num_threads=2, **options)
    through_sentencepiece(name, f"{work}/{name}.model")


for family in ("llama2", "llama3_1", "qwen3", "gemma3", "gptoss", "deepseek_v3", "gpt35turbo"):
    if only in f"{family} tokenizers":
        through_tokenizers(family)
llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
through_tiktoken("cl100k_base", "gpt35turbo", 100256)
through_tiktoken("o200k_base", "gptoss", 199998)
through_tiktoken("llama3", "llama3_1", 128000, llama3)
through_tiktoken("qwen", "qwen3", 151643, llama3.replace("{1,3}", ""))
data = os.path.join(os.path.dirname(mistral_common.__file__), "data")
for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3", "mistral_instruct_tokenizer_241114.model.v7m1"):
    through_sentencepiece(name.replace("instruct_tokenizer_", ""), f"{data}/{name}")
train("unigram nmt_nfkc", vocab_size=8000, model_type="unigram", character_coverage=.9995)
train("unigram identity bytes", vocab_size=16000, model_type="unigram", normalization_rule_name="identity", byte_fallback=True,
      split_digits=True, user_defined_symbols=["<|x|>", "==", "don't"], remove_extra_whitespaces=False, add_dummy_prefix=False)
train("bpe nmt_nfkc", vocab_size=8000, model_type="bpe", character_coverage=.9995)
train("bpe identity bytes", vocab_size=8000, model_type="bpe", normalization_rule_name="identity", byte_fallback=True,
      split_digits=True, remove_extra_whitespaces=False)
sys.exit(worst)
