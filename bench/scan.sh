#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Log reading: growth over size, peak memory, a stream, and ripgrep with the same patterns on the same bytes; then logs
# of one sort of lines (make_log.py), which a mixed log flatters.
# usage: scan.sh [BUILD_DIR]; SIZE_MB (1024) of the largest file, STREAM_GB (10), RG_MB (8: ripgrep's share; it is slow),
# KIND_MB (256) and KIND_RG_MB (1) of each sort, AGAINST: another assay to run beside on the largest file and the sorts.
set -euo pipefail
assay=$PWD/${1:-build}/assay
size=${SIZE_MB:-1024} stream=${STREAM_GB:-10} rg_mb=${RG_MB:-8} kind_mb=${KIND_MB:-256} kind_rg_mb=${KIND_RG_MB:-1}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 bench/make_log.py $((size << 20)) "$tmp/big.log" corpus
python3 - "$tmp/patterns" <<'P'
import pathlib, re, sys
rows = []
for f in sorted(pathlib.Path("knowledge/patterns").glob("*.yaml")):
    for m in re.finditer(r"^    regex: (.*)$", f.read_text(encoding="utf-8"), re.M):
        text = m.group(1)
        text = text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1].replace('\\\\', '\\').replace('\\"', '"') if text[0] == '"' else text
        rows.append("".join(c if ord(c) < 128 else "..?.?" for c in text))  # ripgrep without Unicode takes ASCII alone
open(sys.argv[1], "w").write("\n".join(rows) + "\n")
P
cat >"$tmp/run.py" <<'P'
import os, resource, subprocess, sys, time
label, megabytes, *command = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_CHILDREN)
t = time.monotonic()
subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
wall = time.monotonic() - t
use = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = use.ru_utime + use.ru_stime - before.ru_utime - before.ru_stime
mb = float(megabytes) * 1.048576
print(f"{label:44s} {wall:9.3f} s wall {cpu:9.3f} s CPU {mb / 1000 / cpu:8.4f} GB/s (CPU) peak {use.ru_maxrss / 1024:6.0f} MB")
P
echo "patterns: $(wc -l <"$tmp/patterns")   load: $(cut -d' ' -f1 /proc/loadavg) on $(nproc) cores"
for mb in 1 10 100 "$size"; do
    head -c $((mb << 20)) "$tmp/big.log" >"$tmp/part.log"
    python3 "$tmp/run.py" "assay diagnose, $mb MiB" "$mb" "$assay" diagnose "$tmp/part.log"
done
[ -z "${AGAINST:-}" ] || python3 "$tmp/run.py" "$AGAINST diagnose, $size MiB" "$size" "$AGAINST" diagnose "$tmp/part.log"
head -c $((rg_mb << 20)) "$tmp/big.log" >"$tmp/part.log"
python3 "$tmp/run.py" "assay diagnose, $rg_mb MiB" "$rg_mb" "$assay" diagnose "$tmp/part.log"
python3 "$tmp/run.py" "rg -j1 --no-unicode -c -f patterns, $rg_mb MiB" "$rg_mb" rg -j1 --no-unicode -a -c -f "$tmp/patterns" "$tmp/part.log"
if [ "$stream" != 0 ]; then
    python3 "$tmp/run.py" "assay diagnose -, stream of $stream x $size MiB" $((stream * size)) \
        bash -c "for i in \$(seq $stream); do cat '$tmp/big.log'; done | '$assay' diagnose -"
fi
for kind in metrics bars hex unique; do
    python3 bench/make_log.py $((kind_mb << 20)) "$tmp/kind.log" corpus $kind
    python3 "$tmp/run.py" "assay diagnose, $kind, $kind_mb MiB" "$kind_mb" "$assay" diagnose "$tmp/kind.log"
    [ -z "${AGAINST:-}" ] || python3 "$tmp/run.py" "$AGAINST diagnose, $kind, $kind_mb MiB" "$kind_mb" "$AGAINST" diagnose "$tmp/kind.log"
    head -c $((kind_rg_mb << 20)) "$tmp/kind.log" >"$tmp/part.log"
    python3 "$tmp/run.py" "rg -j1 --no-unicode -c, $kind, $kind_rg_mb MiB" "$kind_rg_mb" \
        rg -j1 --no-unicode -a -c -f "$tmp/patterns" "$tmp/part.log"
done
