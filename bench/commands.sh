#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whole commands as a user runs them: start-up, doctor, diagnose of a 2 MB log; median of 9 runs.
# The peer of diagnose is what people do today: grep for Error in the same file.
set -euo pipefail
assay=$PWD/${1:-build}/assay
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# 2 MB: the training noise of a long run, then a fault.
python3 - "$tmp/train.log" <<'P'
import sys
lines, size, i = [], 0, 0
while size < 2_000_000:
    line = (f"{{'loss': {1.5 + (i * 7919 % 100) / 500:.4f}, 'grad_norm': {0.8 + (i * 104729 % 100) / 200:.6f}, "
            f"'learning_rate': 1e-05, 'epoch': {i / 1000:.2f}}}") if i % 2 else f" {i % 100:3d}%|####      | {i}/20000 [01:24<04:24,  2.40s/it]"
    lines.append(line); size += len(line) + 1; i += 1
lines += ["Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f3a00000000. Reason: Page not present or supervisor privilege.", "Aborted (core dumped)"]
open(sys.argv[1], "w").write("\n".join(lines) + "\n")
P

median() { # COMMAND...: milliseconds, and peak MB of the last run
    python3 - "$@" <<'P'
import os, resource, statistics, subprocess, sys, time
times = []
for _ in range(9):
    t = time.monotonic()
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times.append((time.monotonic() - t) * 1e3)
print(f"{statistics.median(times):8.1f} ms   (min {min(times):.1f}, max {max(times):.1f})   peak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB")
P
}
printf '%-34s' "assay --version"; median "$assay" --version
printf '%-34s' "assay doctor (this machine)"; median "$assay" doctor
printf '%-34s' "assay diagnose, 2 MB log"; median "$assay" diagnose "$tmp/train.log"
printf '%-34s' "grep -n Error, 2 MB log"; median grep -n Error "$tmp/train.log"
