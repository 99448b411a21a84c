#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model files beside the libraries that people use: values of a checkpoint read and judged, of a GGUF file
# dequantised, text cut into tokens. Medians of 5, whole processes without their start: each peer times itself,
# ours is the process less 'assay --version'. usage: files.sh [BUILD_DIR]
# Needs the environment of tests/full/oracle_env.sh, which is not made here: 6 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=$PWD/${1:-build}/assay
python=${ASSAY_ORACLE_PYTHON:-${ASSAY_DOWNLOADS:-$PWD/.cache/downloads}/python-oracle/bin/python}
[ -x "$python" ] || { echo "skipped: $python is not there (tests/full/oracle_env.sh makes it)"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ASSAY=$assay TMP=$tmp "$python" - <<'P'
import glob, os, random, statistics, subprocess, sys, sysconfig, time, warnings
import gguf, numpy, torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
warnings.filterwarnings("ignore")
assay, tmp = os.environ["ASSAY"], os.environ["TMP"]
torch.set_num_threads(os.cpu_count())

def median(f, n=5):
    times = []
    for _ in range(n):
        t = time.monotonic(); f(); times.append(time.monotonic() - t)
    return statistics.median(times)

def ours(*args, ok=(0,)):
    def run():
        done = subprocess.run([assay, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert done.returncode in ok, done
    return median(run) - start

start = median(lambda: subprocess.run([assay, "--version"], stdout=subprocess.DEVNULL))

def row(what, unit, amount, a, peers):
    print(f"{what:34}{amount / a:9.0f} {unit}")
    for name, t in peers:
        print(f"  {name:32}{amount / t:9.0f} {unit}   ours is {t / a:5.1f} times as fast")

# 1. A checkpoint: every value looked at for NaN, infinities, zeros, largest magnitude and norm.
g = torch.Generator().manual_seed(0)
for name, dtype, count in (("bf16", torch.bfloat16, 12), ("float32", torch.float32, 6)):
    path = f"{tmp}/{name}.safetensors"
    save_file({f"m.{i}.w": (torch.randn(4096, 4096, generator=g) * .02).to(dtype) for i in range(count)}, path)
    def torch_way():
        with safe_open(path, "pt") as f:
            for k in f.keys():
                t = f.get_tensor(k)
                assert torch.isfinite(t).all(); (t == 0).sum(); t.abs().max(); t.float().norm()
    def load_only():
        with safe_open(path, "pt") as f:
            for k in f.keys():
                f.get_tensor(k).clone()
    row(f"checkpoint verify, {name}", "MB/s", os.path.getsize(path) / 1e6, ours("checkpoint", "verify", path),
        [("safetensors + torch, the same", median(torch_way)), ("safetensors, copied only", median(load_only))])
    os.unlink(path)

# 2. A GGUF file of Q4_1 blocks.
path = f"{tmp}/q.gguf"
w = gguf.GGUFWriter(path, "llama")
raw = gguf.quantize((numpy.random.default_rng(1).standard_normal((4096, 4096)) * .02).astype("f4"), gguf.GGMLQuantizationType.Q4_1)
for i in range(8):
    w.add_tensor(f"blk.{i}", raw, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
def gguf_way():
    for t in gguf.GGUFReader(path).tensors:
        x = gguf.dequantize(t.data, t.tensor_type); assert numpy.isfinite(x).all(); abs(x).max()
row("checkpoint verify, GGUF Q4_1", "MB/s", os.path.getsize(path) / 1e6, ours("checkpoint", "verify", path),
    [("gguf + numpy, the same", median(gguf_way, 3))])

# 3. Text into tokens, one thread: a byte-level BPE of 32,000 trained on half of the text.
files = sorted(glob.glob(sysconfig.get_paths()["stdlib"] + "/**/*.py", recursive=True))[:800]
random.Random(1).shuffle(files)
texts = [open(f, encoding="utf-8", errors="ignore").read() for f in files]
text = "\n".join(texts)[:4_000_000]
t = Tokenizer(models.BPE())
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.train_from_iterator(texts[::2], trainers.BpeTrainer(vocab_size=32000, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
t.save(f"{tmp}/tokenizer.json")
open(f"{tmp}/text", "w").write(text)
out = f"{tmp}/ids"
def encode():
    subprocess.run([assay, "tokenizer", "encode", f"{tmp}/tokenizer.json", "--text", f"{tmp}/text", "-o", out], check=True)
load = median(lambda: subprocess.run([assay, "tokenizer", "encode", f"{tmp}/tokenizer.json", "x"], stdout=subprocess.DEVNULL))
a = median(encode, 3) - load
ids = []
def tokenizers_way():
    ids[:] = t.encode(text).ids
parts = [text[i:i + 20000] for i in range(0, len(text), 20000)]
b = median(tokenizers_way, 3)
c = median(lambda: [t.encode(x) for x in parts], 3)
assert ids == [int(x) for x in open(out).read().split()], "the ids differ"
row("tokenizer encode (and write)", "MB/s", len(text.encode()) / 1e6, a, [("tokenizers, one text", b), ("tokenizers, texts of 20 kB", c)])
P
