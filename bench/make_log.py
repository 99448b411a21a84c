#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training log of SIZE bytes: make_log.py SIZE OUT [CORPUS [KIND]].

KIND is `mixed` (the default), a realistic log, or one that is of one sort of lines alone: `unique` (texts that never
repeat), `bars` (tqdm, carriage returns and no newlines), `metrics` (dicts of numbers), `hex` (addresses, hashes, dumps).

The realistic log has lines in the forms that trainers write (progress bars with carriage returns, metric dicts, Python
loggers, warnings, samples printed for inspection, NCCL INFO), with whole logs of the corpus in between: a clean one about
every 3000 lines, a failed one about every 20000. 64 MiB are made from a fixed seed and repeated.
"""
import json
import random
import sys

BLOCK = 64 << 20

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


SYLLABLES = ("ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu za bre cle dri flo gru sta che thi sho phu ing er"
             " tion ment al ous").split()


def word(rnd):
    return rnd.choice(WORDS) if rnd.random() < 0.5 else "".join(rnd.choice(SYLLABLES) for _ in range(rnd.randint(1, 4)))


def unique(rnd, step):
    words = [word(rnd) for _ in range(rnd.randint(3, 30))]
    for i in range(0, len(words), 7):
        words[i] = words[i].capitalize() + rnd.choice(("", "", ",", ".", "'s", " -", "(s)", ":"))
    return " ".join(words)


def bars(rnd, step):
    done, total = step % 5000, 5000
    shown = "█" * (done * 20 // total)
    postfix = f", loss={rnd.random() * 3:.3f}, lr={rnd.random() * 1e-4:.2e}" if step // total % 2 else ""
    return (f"\rEpoch {step // total}: {done * 100 // total:3d}%|{shown:20s}| {done}/{total} [{done // 60:02d}:{done % 60:02d}<"
            f"{(total - done) // 60:02d}:{(total - done) % 60:02d}, {1 + rnd.random():5.2f}it/s{postfix}]")


def metrics(rnd, step):
    return (f"{{'loss': {1 + rnd.random():.4f}, 'grad_norm': {rnd.random() * 3:.6f}, 'learning_rate': {rnd.random() * 1e-4:.6e}, "
            f"'mean_token_accuracy': {rnd.random():.4f}, 'epoch': {step / 9000:.2f}}}")


def hexadecimal(rnd, step):
    bits, n = rnd.getrandbits, rnd.randrange
    return rnd.choice((
        lambda: f"{step * 16:08x}  " + " ".join(f"{bits(8):02x}" for _ in range(16)),
        lambda: f"node{n(64)}:{n(9999)} comm 0x{bits(46):x} rank {n(8)} busId {n(8):x}1000 commId 0x{bits(64):x} nranks 8",
        lambda: f"sha256 {bits(256):064x} data/shard-{n(9999):05d}.bin",
        lambda: f"  frame #{n(40)}: <unknown function> + 0x{bits(20):x} (0x{bits(47):x} in /usr/lib/libtorch.so.{n(3)})",
        lambda: f"request {bits(32):08x}-{bits(16):04x}-{bits(16):04x}-{bits(16):04x}-{bits(48):012x} took {n(900)} us"))()


KINDS = {"unique": unique, "bars": bars, "metrics": metrics, "hex": hexadecimal}


def block_of(kind, rnd, size):
    rows, total, step = [], 0, 0
    end = "" if kind == "bars" else "\n"
    while total < size:
        step += 1
        rows.append((KINDS[kind](rnd, step) + end).encode())
        total += len(rows[-1])
    return b"".join(rows)


def mixed_block(rnd, size, corpus):
    cases = [json.loads(row)["log"] for row in open(f"{corpus}/cases.jsonl", encoding="utf-8")]
    clean = [json.loads(row)["log"] for row in open(f"{corpus}/clean.jsonl", encoding="utf-8")]
    block, total, step = [], 0, 0
    while total < size:
        step += 1
        text = line(rnd, step)
        if rnd.random() < 1 / 3000:
            text += "\n" + rnd.choice(clean)
        if rnd.random() < 1 / 20000:
            text += "\n" + rnd.choice(cases)
        data = (text + "\n").encode()
        block.append(data)
        total += len(data)
    return b"".join(block)


def main():
    size, out = int(sys.argv[1]), sys.argv[2]
    corpus = sys.argv[3] if len(sys.argv) > 3 else "corpus"
    kind = sys.argv[4] if len(sys.argv) > 4 else "mixed"
    rnd = random.Random(7)
    first = min(size, BLOCK)
    data = mixed_block(rnd, first, corpus) if kind == "mixed" else block_of(kind, rnd, first)
    with open(out, "wb") as f:
        while size > 0:
            size -= f.write(data[:size])


main()
