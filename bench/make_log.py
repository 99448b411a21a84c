#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A realistic training log of SIZE bytes: make_log.py SIZE OUT [CORPUS].

Lines in the forms that trainers write (progress bars with carriage returns, metric dicts, Python loggers, warnings, samples
printed for inspection, NCCL INFO), with whole logs of the corpus in between: a clean one about every 3000 lines, a failed
one about every 20000. 64 MiB are made from a fixed seed and repeated.
"""
import json
import random
import sys

WORDS = ("once there was an old garden behind the house where two children used to read under the apple tree until "
         "evening came and their mother called them in for bread and soup which they ate near the open window").split()


def line(rnd, step):
    r, n = rnd.random(), rnd.randrange
    clock = f"2025-05-{1 + n(28):02d} {n(24):02d}:{n(60):02d}:{n(60):02d}"
    kind = r * 100
    if kind < 12:
        return (f"{{'loss': {1 + rnd.random():.4f}, 'grad_norm': {rnd.random():.6f}, "
                f"'learning_rate': {rnd.random() * 1e-4:.6e}, 'epoch': {step / 9000:.2f}}}")
    if kind < 38:
        done = min(step, 99999)
        return (f"\r{done // 1000:3d}%|{'█' * (done // 10000):10s}| {done}/100000 [{n(10):02d}:{n(60):02d}<{n(60):02d}:{n(60):02d},"
                f"  {1 + rnd.random():.2f}s/it]")
    if kind < 55:
        return (f"[INFO|trainer.py:{n(4000)}] {clock},{n(1000):03d} >> rank {n(8)} wrote shard {n(64)} of {n(900000)} bytes "
                f"to /data/runs/{n(1 << 40):x}/part-{n(9999):05d}")
    if kind < 67:
        return (f"[{clock},{n(1000):03d}] [INFO] [logging.py:107:log_dist] [Rank 0] time (ms) | fwd_microstep: {rnd.random() * 90:.2f} | "
                f"bwd_microstep: {rnd.random() * 90:.2f} | optimizer: {rnd.random() * 9:.2f}")
    if kind < 79:
        return f"[rank{n(8)}]: sample {n(1000000)} tokens {n(4096)} text \"{' '.join(rnd.choice(WORDS) for _ in range(18))}\""
    if kind < 88:
        return f"DEBUG {clock} request id={n(1 << 40):x} path=/v1/objects/{n(100)} status=200 bytes={n(99999)}"
    if kind < 96:
        return (f"I0{1 + n(9)}{10 + n(18)} {n(24):02d}:{n(60):02d}:{n(60):02d}.{n(999999):06d} {n(99999)} dataset.cc:{n(900)}] "
                f"read {n(99999)} records from file-{n(999):04d}.arrow, queue {n(64)}/64")
    if kind < 98:
        return (f"node:{n(9999)}:{n(9999)} [{n(8)}] NCCL INFO Channel {n(16):02d}/0 : {n(8)}[c1000] -> {n(8)}[c6000] via P2P/IPC "
                f"comm 0x{n(65536):x}")
    return (f"/opt/venv/lib/python3.10/site-packages/pkg_{n(99)}/mod_{n(99)}.py:{n(999)}: UserWarning: argument {n(20)} has no "
            f"effect with this setting, the default is used instead")


def main():
    size, out = int(sys.argv[1]), sys.argv[2]
    corpus = sys.argv[3] if len(sys.argv) > 3 else "corpus"
    cases = [json.loads(row)["log"] for row in open(f"{corpus}/cases.jsonl", encoding="utf-8")]
    clean = [json.loads(row)["log"] for row in open(f"{corpus}/clean.jsonl", encoding="utf-8")]
    rnd = random.Random(7)
    block, total, step = [], 0, 0
    while total < min(size, 64 << 20):
        step += 1
        text = line(rnd, step)
        if rnd.random() < 1 / 3000:
            text += "\n" + rnd.choice(clean)
        if rnd.random() < 1 / 20000:
            text += "\n" + rnd.choice(cases)
        data = (text + "\n").encode()
        block.append(data)
        total += len(data)
    data = b"".join(block)
    with open(out, "wb") as f:
        while size > 0:
            size -= f.write(data[:size])


main()
