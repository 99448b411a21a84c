#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model files beside the libraries that people use: values of a checkpoint read and judged, of a GGUF file
# dequantised, text cut into tokens; verification and SHA-256 of 4 GB beside one plain pass over the file.
# Medians of 5, whole processes without their start: each peer times itself, ours is the process less
# 'assay --version'. usage: files.sh [BUILD_DIR] [PART...], a PART of values, pass, gguf, tokens
# Needs the environment of tests/full/oracle_env.sh and the files of tokenizer_files.sh, which are not made here.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=$PWD/${1:-build}/assay
python=${ASSAY_ORACLE_PYTHON:-${ASSAY_DOWNLOADS:-$PWD/.cache/downloads}/python-oracle/bin/python}
[ -x "$python" ] || { echo "skipped: $python is not there (tests/full/oracle_env.sh makes it)"; exit 0; }
shift $(($# > 0))
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc -O3 -march=native -D_GNU_SOURCE -pthread -o "$tmp/read_rate" bench/read_rate.c
export ASSAY=$assay TMP=$tmp FILES=${ASSAY_DOWNLOADS:-$PWD/.cache/downloads}/tokenizer-files
"$python" - "$@" <<'P'
import json, os, resource, statistics, subprocess, sys, time, warnings
import gguf, numpy, tiktoken, torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
warnings.filterwarnings("ignore")
assay, tmp, files = os.environ["ASSAY"], os.environ["TMP"], os.environ["FILES"]
wanted = sys.argv[1:] or ["values", "pass", "gguf", "tokens"]
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
def values():
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

# 2. 4 GB of bf16 in the page cache: every value judged beside one pass that sums the words, on all cores, in turns, so
# that what else runs here slows both alike; and SHA-256 beside openssl's.
def one_pass():
    path = f"{tmp}/big.safetensors"
    rows = ((numpy.random.default_rng(0).standard_normal(32 << 20) * .02).astype("f4").view("u4") >> 16).astype("u2")
    header = json.dumps({f"m.{i}.w": {"dtype": "BF16", "shape": [4096, 8192], "data_offsets": [i << 26, i + 1 << 26]}
                         for i in range(60)}).encode()
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        for i in range(60):
            numpy.roll(rows, i).tofile(f)
    size = os.path.getsize(path)
    def seconds(how):
        return float(subprocess.run([f"{tmp}/read_rate", path, how], capture_output=True).stdout)
    def timed(*args):
        t = time.monotonic(); subprocess.run(args, check=True, stdout=subprocess.DEVNULL); return time.monotonic() - t
    turns = [(timed(assay, "checkpoint", "verify", path), min(seconds("mapped"), seconds("read"))) for _ in range(9)]
    print(f"{'checkpoint verify, 4 GB':34}{size / 1e6 / statistics.median(a for a, _ in turns):9.0f} MB/s")
    print(f"  {'one pass over the file':32}{size / 1e6 / statistics.median(b for _, b in turns):9.0f} MB/s   "
          f"ours is {statistics.median(b / a for a, b in turns):5.2f} times as fast (median of 9 turns)")
    def used(*args):
        before = resource.getrusage(resource.RUSAGE_CHILDREN); timed(*args)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    turns = [(used(assay, "checkpoint", "hash", path), used("openssl", "dgst", "-sha256", path)) for _ in range(3)]
    print(f"{'checkpoint hash (SHA-256 and XXH3)':34}{size / 1e6 / statistics.median(a for a, _ in turns):9.0f} MB/s of processor time")
    print(f"  {'openssl dgst -sha256':32}{size / 1e6 / statistics.median(b for _, b in turns):9.0f} MB/s   "
          f"ours is {statistics.median(b / a for a, b in turns):5.2f} times as fast")
    os.unlink(path)

# 3. A GGUF file of Q4_1 blocks.
def dequantise():
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

# 4. English (16 MB of manuals and documentation) into ids with published files, on one core: processor time, so that what
# else runs here does not count; ours includes writing the ids as text. tiktoken has the same ranks and expression.
def tokens():
    if not os.path.exists(f"{files}/complete"):
        print(f"tokens: skipped, {files} is not there (tests/full/tokenizer_files.sh makes it)")
        return
    os.makedirs(f"{tmp}/texts")
    subprocess.run([sys.executable, "tests/full/tokenizer_texts.py", files, f"{tmp}/texts"], check=True, stdout=subprocess.DEVNULL)
    names = sorted(x for x in os.listdir(f"{tmp}/texts") if x.startswith("english"))
    data = b"".join(open(f"{tmp}/texts/{x}", "rb").read() for x in names)
    text = data.decode(errors="replace")
    open(f"{tmp}/text", "w").write(text)
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    letters = {chr(b): b for b in kept} | {chr(256 + i): b for i, b in enumerate(others)}
    llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    for family, count, pattern in (("llama3_1", 128000, llama3), ("qwen3", 151643, llama3.replace("{1,3}", ""))):
        model = f"{files}/{family}/tokenizer.json"
        vocab = json.load(open(model))["model"]["vocab"]
        ranks = {bytes(letters[c] for c in piece): rank for piece, rank in vocab.items() if rank < count}
        peer = tiktoken.Encoding(name=family, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        library = Tokenizer.from_file(model)
        def process(*args):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([assay, "tokenizer", "encode", model, *args], check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        def inside(f):
            t = time.process_time(); f(); return time.process_time() - t
        load = statistics.median(process("x") for _ in range(5))
        mine = statistics.median(process("--text", f"{tmp}/text", "-o", f"{tmp}/ids") - load for _ in range(5))
        ids = [int(x) for x in open(f"{tmp}/ids").read().split()]
        assert ids == library.encode(text, add_special_tokens=False).ids, "the ids differ"
        print(f"{'tokenizer encode, ' + family:34}{len(data) / 2**20 / mine:9.1f} MiB/s")
        for name, f in (("tiktoken", lambda: peer.encode_ordinary(text)),
                        ("tokenizers, one text", lambda: library.encode(text, add_special_tokens=False)),
                        ("tokenizers, texts of 20 kB", lambda: [library.encode(text[i:i + 20000]) for i in range(0, len(text), 20000)])):
            t = statistics.median(inside(f) for _ in range(3))
            print(f"  {name:32}{len(data) / 2**20 / t:9.1f} MiB/s   ours is {t / mine:5.1f} times as fast")

for part, f in {"values": values, "pass": one_pass, "gguf": dequantise, "tokens": tokens}.items():
    if part in wanted:
        f()
P
