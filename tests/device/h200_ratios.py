# SPDX-License-Identifier: Apache-2.0
"""Ratios of the pairs that h200_run.sh left in this folder (N.plain.out, N.recorded.out, N.guarded.out), with the
standard error of their mean. usage: h200_ratios.py PAIRS"""
import math
import re
import statistics
import sys

LINE = re.compile(r"^(wide|narrow) median_ms (\S+) main_cpu_ms (\S+) cpu_ms (\S+) last_loss (\S+)", re.M)
FIGURES = [("wide", 1, "wide step, wall time"), ("narrow", 1, "narrow step, wall time"),
           ("narrow", 2, "narrow step, CPU time of the main thread"), ("narrow", 3, "narrow step, CPU time of the process")]


def read(number, kind):
    try:
        text = open(f"{number}.{kind}.out").read()
    except OSError:
        return {}
    return {m[1]: (m[5], float(m[2]), float(m[3]), float(m[4])) for m in LINE.finditer(text)}


runs = {(n, kind): read(n, kind) for n in range(1, int(sys.argv[1]) + 1) for kind in ("plain", "recorded", "guarded")}
for n in range(1, int(sys.argv[1]) + 1):
    cells = []
    for kind in ("plain", "recorded", "guarded"):
        r = runs[n, kind]
        cells.append(" ".join(f"{r[phase][at]:8.3f}" if phase in r else "       -" for phase, at, _ in FIGURES))
    print(f"{n:3d} | " + " | ".join(cells))
for kind in ("recorded", "guarded"):
    for phase, at, what in FIGURES:
        ratios = [runs[n, kind][phase][at] / runs[n, "plain"][phase][at] for n in range(1, int(sys.argv[1]) + 1)
                  if phase in runs[n, kind] and phase in runs[n, "plain"] and runs[n, "plain"][phase][at] > 0]
        if len(ratios) < 2:
            print(f"{kind}/plain, {what}: {len(ratios)} pairs are too few")
            continue
        error = statistics.stdev(ratios) / math.sqrt(len(ratios))
        print(f"{kind}/plain, {what}: mean {statistics.mean(ratios):.4f}, standard error {error:.4f}, "
              f"median {statistics.median(ratios):.4f}, {len(ratios)} pairs")
for phase in ("wide", "narrow"):
    losses = {r[phase][0] for r in runs.values() if phase in r}
    count = sum(phase in r for r in runs.values())
    print(f"{phase}: last loss of {count} runs: {' '.join(sorted(losses)) or 'none'}"
          f"{' (the same in all)' if len(losses) == 1 else ''}")
