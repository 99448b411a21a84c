#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changed forms of a case that must not change its diagnosis.

Each function takes (log, random) and gives a new log; `apply` picks one by name. Nothing here knows
what any case is about: only addresses, paths, ranks, times and framing are touched.
"""
import random
import re

NOISE = [
    "{'loss': 1.%04d, 'grad_norm': 0.9%03d, 'learning_rate': 1e-05, 'epoch': 0.0%d}",
    "[INFO|trainer.py:2409] 2025-03-0%d 10:00:%02d,118 >> step %d done",
    "INFO 03-0%d 10:00:%02d worker %d heartbeat",
]


def addresses(log, rnd):
    return re.sub(r"0x[0-9a-f]{9,16}\b",
                  lambda m: "0x" + "".join(rnd.choice("0123456789abcdef") for _ in m.group(0)[2:]), log)


def paths(log, rnd):
    prefix = rnd.choice(["/home/u/envs/t", "/mnt/data/py", "/usr/local/ai"])
    return re.sub(r"/opt/venv\b", prefix, log).replace("/opt/src/", "/srv/work/")


def pids(log, rnd):
    return re.sub(r"\(pid: \d+\)", lambda m: f"(pid: {rnd.randint(1000, 99999)})", log)


def ranks(log, rnd):
    """Every line carries a torchrun prefix of one rank."""
    r = rnd.randint(0, 7)
    return "\n".join(f"[rank{r}]:{l}" if not l.startswith("[rank") else l for l in log.split("\n"))


def default_prefix(log, rnd):
    return "\n".join(f"[default0]:{l}" for l in log.split("\n"))


def interleaved(log, rnd):
    """A healthy rank prints between the lines of the sick one."""
    out = []
    for i, line in enumerate(log.split("\n")):
        out.append(line)
        if i % 2:
            out.append(f"[rank5]: INFO heartbeat {i}")
    return "\n".join(out)


def colour(log, rnd):
    out = []
    for line in log.split("\n"):
        m = re.search(r"\b(WARN\w*|ERROR|INFO|Error|error|\w+Error)\b", line)
        if m:
            line = line[:m.start()] + "\x1b[31;1m" + m.group(0) + "\x1b[0m" + line[m.end():]
        out.append(line)
    return "\n".join(out)


def carriage_returns(log, rnd):
    """Progress bars redrawn in place, as tqdm writes them, in front of the lines."""
    out = []
    for i, line in enumerate(log.split("\n")):
        bar = "".join(f"\rdownload: {p}%|{'#' * (p // 10)}| {p}/100" for p in (20, 60, 100)) if i % 3 == 0 else ""
        out.append((bar + "\n" if bar else "") + line)
    return "\n".join(out)


def crlf(log, rnd):
    return log.replace("\r\n", "\n").replace("\n", "\r\n")


def truncated_tail(log, rnd):
    """The last line is cut in its middle when it says nothing new (one of five lines or more)."""
    lines = log.rstrip("\n").split("\n")
    filler = f"2025-03-02 09:10:11,118 [INFO] flushing {rnd.randint(1, 9)} buffers before ex"
    return "\n".join(lines + [filler])


def timestamps(log, rnd):
    return "\n".join(f"2025-06-11T09:{i // 60 % 60:02d}:{i % 60:02d}.118Z stderr F {l}"
                     for i, l in enumerate(log.split("\n")))


def noise_prefix(log, rnd):
    head = [NOISE[1 + i % 2] % (i % 9 + 1, i % 60, i) for i in range(400)]
    return "\n".join(head) + "\n" + log


def invalid_bytes(log, rnd):
    data = log.encode().split(b"\n")
    return b"\n".join(l for i, line in enumerate(data) for l in ([line, b"\xff\xfe\x00garbage\x80"] if i % 5 == 4 else [line]))


def noise_100_mb(log, rnd):
    """A hundred megabytes of healthy training before the case: slow, so only some cases take it."""
    block = "\n".join(NOISE[1 + i % 2] % (i % 9 + 1, i % 60, i) for i in range(20000)) + "\n"
    return block * (100_000_000 // len(block) + 1) + log


MUTATIONS = [addresses, paths, pids, ranks, default_prefix, interleaved, colour, carriage_returns, crlf,
             truncated_tail, timestamps, noise_prefix, invalid_bytes]


HEAVY = [noise_100_mb]


def names():
    return [m.__name__ for m in MUTATIONS]


def apply(name, case, seed):
    rnd = random.Random(f"{seed}/{name}/{case['id']}")
    change = next(m for m in MUTATIONS + HEAVY if m.__name__ == name)
    out = dict(case)
    out["log"] = change(case["log"], rnd)
    if name in ("addresses", "crlf") and case.get("kernel_log"):
        out["kernel_log"] = change(case["kernel_log"], rnd)
    return out
