#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of `assay train` beside PyTorch, in float32, AdamW over all weights.

    train.py [BUILD_DIR] [--rounds N] [--costs]

1. A Llama of 25 M parameters, updates of 4 x 256 tokens: PyTorch eager, torch.compile, and ours. The contenders take
   turns, so that a busy machine is unfair to all alike; medians are reported. CPU seconds are of all threads.
   Our seconds of an update are the difference of a long and a short run: start and random weights fall out.
2. Where our time goes (perf, if it is there), and the rate of the matrix products beside torch.mm's.
3. Cost of a token against the length of a sequence, and against the size of the model."""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CORES = len(os.sched_getaffinity(0))
ROWS, LENGTH, VOCAB = 4, 256, 16000
GEMM = ("tile_", "own", "pack_panel", "turn_", "store_part")


def config(hidden, layers, heads, kv_heads, intermediate):
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "max_position_embeddings": 2048, "tie_word_embeddings": False}


SIZES = {"9": config(192, 6, 3, 1, 512), "25": config(384, 8, 6, 2, 1024), "74": config(640, 12, 10, 2, 1792)}


def matrices(c):
    """Weights that take part in matrix products of each token, and all parameters."""
    kv = c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"]
    layer = 2 * c["hidden_size"] ** 2 + 2 * c["hidden_size"] * kv + 3 * c["hidden_size"] * c["intermediate_size"]
    head = c["vocab_size"] * c["hidden_size"]
    return c["num_hidden_layers"] * layer + head, c["num_hidden_layers"] * layer + 2 * head


def flops(c, rows, length):
    """Of the matrix products of one update. Attention: two products forward, four backward and one made again,
    over the lower triangle in blocks of 64 rows."""
    attention = c["num_hidden_layers"] * 7 * 2 * c["hidden_size"] * length * (length + 64) / 2
    return rows * (6 * matrices(c)[0] * length + attention)


class Torch:
    def __init__(self, folder, threads, kind):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                   TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"))
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "train_torch.py"), folder, str(threads), kind],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=env)
        self.version = self.process.stdout.readline().split()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the PyTorch process ended")
        return [float(x) for x in answer.split()]

    def update(self, rows, length, updates):
        return self.ask(f"{rows} {length} {updates}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    def __init__(self, build, folder, threads, *options):
        self.command = [os.path.join(build, "assay"), "train", folder, "--random", "--lr", "1e-4", "--brief", "--quiet",
                        "--threads", str(threads), *options]
        self.folder = folder

    def run(self, rows, length, steps, prefix=()):
        data = ids(self.folder, length)
        began = time.perf_counter()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*prefix, *self.command, "--data", data, "--batch", str(rows), "--length", str(length), "--steps",
                        str(steps)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - began

    def update(self, rows, length, updates):
        short, long = self.run(rows, length, 1), self.run(rows, length, 1 + updates)
        return [(b - a) / updates for a, b in zip(short, long)]

    def close(self):
        pass


def ids(folder, length):
    """Enough for one epoch of any run here."""
    path = os.path.join(folder, f"{length}.jsonl")
    if not os.path.exists(path):
        r = random.Random(1)
        with open(path, "w") as f:
            for _ in range(65536 // length):
                f.write(json.dumps({"input_ids": [r.randrange(VOCAB) for _ in range(length)]}) + "\n")
    return path


def turns(contenders, rows, length, updates, rounds):
    """Medians of CPU seconds and seconds of an update, by name."""
    seen = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            seen[name].append(contender.update(rows, length, updates))
    return {name: tuple(statistics.median(x) for x in zip(*values)) for name, values in seen.items()}


def contest(build, folder, rounds):
    table = {}
    for threads in dict.fromkeys((1, CORES)):
        contenders = {"PyTorch eager": Torch(folder, threads, "eager"), "torch.compile": Torch(folder, threads, "compile"),
                      "assay train": Ours(build, folder, threads, "--blas", "own"),
                      "assay train, OpenBLAS": Ours(build, folder, threads, "--blas", "libopenblas.so.0")}
        try:
            contenders["assay train, OpenBLAS"].run(1, 64, 1)
        except subprocess.CalledProcessError:
            del contenders["assay train, OpenBLAS"]
        for name, values in turns(contenders, ROWS, LENGTH, 2, rounds).items():
            table.setdefault(name, {})[threads] = values
        if threads == 1:
            versions = contenders["PyTorch eager"].version
            peak = [max(x) for x in zip(*(contenders["PyTorch eager"].ask("peak") for _ in range(3)))]
        for contender in contenders.values():
            contender.close()
    plain = Ours(build, folder, 1, "--reference").run(1, 64, 1)[0]
    tokens = ROWS * LENGTH
    ours = table["assay train"]
    print(f"torch {versions[0]}, transformers {versions[1]}; {CORES} cores; 25 M parameters, {ROWS} x {LENGTH} tokens an "
          f"update; median of {rounds} turns")
    print(f"{'':24}{'1 thread':>20}{'all cores':>34}{'assay is times as fast':>34}")
    print(f"{'':24}{'CPU s':>10}{'tok/CPU s':>10}{'CPU s':>12}{'s':>10}{'tok/s':>12}{'1 thread':>12}{'CPU, all':>11}{'s, all':>11}")
    for name, by in table.items():
        one, many = by[1], by[CORES]
        print(f"{name:24}{one[0]:10.3f}{tokens / one[0]:10.0f}{many[0]:12.3f}{many[1]:10.3f}{tokens / many[1]:12.0f}"
              f"{one[0] / ours[1][0]:12.2f}{many[0] / ours[CORES][0]:11.2f}{many[1] / ours[CORES][1]:11.2f}")
    print(f"{'assay train --reference':24}{plain * tokens / 64:10.1f}{64 / plain:10.1f}   (plain loops, -O3; of 64 tokens)", flush=True)
    return ours[1][0], peak


def shares(build, folder, seconds, peak):
    c = SIZES["25"]
    work = flops(c, ROWS, LENGTH)
    print(f"\nmatrix products: {work / 1e9:.0f} GFLOP an update, {work / seconds / 1e9:.0f} GFLOP/s of one thread over the whole "
          f"update; torch.mm {peak[0]:.0f} GFLOP/s, OpenBLAS {peak[1]:.0f}")
    ours = Ours(build, folder, 1, "--blas", "own")
    record = os.path.join(folder, "perf")
    rate, updates = 997, 8 # samples a second of CPU time
    try:
        ours.run(ROWS, LENGTH, updates, ("perf", "record", "-q", "-e", "cpu-clock", "-F", str(rate), "-o", record))
        report = subprocess.run(["perf", "report", "-i", record, "--no-children", "-n", "--sort", "symbol"],
                                check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("where the time goes: perf is not there")
        return
    rows = [(int(line.split()[1]) / rate / updates, line.split("[.]")[-1].strip())
            for line in report.splitlines() if "[.]" in line]
    gemm, tile, adamw = (sum(s for s, symbol in rows if symbol.startswith(start)) for start in (GEMM, "tile_", "update_"))
    print(f"  share of an update: matrix products {gemm / seconds:.0%} (inner tile {tile / seconds:.0%}, packing and the rest "
          f"{(gemm - tile) / seconds:.0%}), AdamW {adamw / seconds:.0%}")
    print(f"  rate: {work / gemm / 1e9:.0f} GFLOP/s, {work / gemm / 1e9 / peak[0]:.2f} of torch.mm, "
          f"{work / gemm / 1e9 / peak[1]:.2f} of OpenBLAS; the tile alone "
          f"{work / tile / 1e9:.0f}")


def costs(build, folder, work):
    print(f"\nCPU ms of a token, one thread    {'assay':>8}{'PyTorch eager':>16}{'ratio':>8}{'GFLOP a token':>16}", flush=True)
    pair = {"eager": Torch(folder, 1, "eager"), "ours": Ours(build, folder, 1, "--blas", "own")}
    for length in (128, 256, 512, 1024, 2048):
        rows = max(1, 1024 // length)
        line(f"  sequences of {length}", turns(pair, rows, length, 2, 1), SIZES["25"], rows, length)
    pair["eager"].close()
    for name in ("9", "74"):
        c = SIZES[name]
        other = os.path.join(work, name)
        write_config(other, c)
        pair = {"eager": Torch(other, 1, "eager"), "ours": Ours(build, other, 1, "--blas", "own")}
        line(f"  {matrices(c)[1] / 1e6:.0f} M parameters", turns(pair, 2, 256, 2, 1), c, 2, 256)
        pair["eager"].close()


def line(name, medians, c, rows, length):
    ours, theirs = (1e3 * medians[x][0] / rows / length for x in ("ours", "eager"))
    print(f"{name:33}{ours:8.3f}{theirs:16.3f}{theirs / ours:8.2f}{flops(c, rows, length) / rows / length / 1e9:16.3f}", flush=True)


def write_config(folder, c):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--costs", action="store_true", help="part 3 alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "bench")
        write_config(folder, SIZES["25"])
        if not arguments.costs:
            seconds, peak = contest(arguments.build, folder, arguments.rounds)
            shares(arguments.build, folder, seconds, peak)
        costs(arguments.build, folder, work)


main()
