#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: h200_torch.sh ASSAY [PYTHON] [--short | SECONDS]
# The operators of a real PyTorch on a real GPU, under guard: the whole table in float32, bfloat16 and
# float16 within SECONDS (300), the gated delta rule over 3,700 tokens, a Triton kernel with a forgotten mask
# (and the same with its mask), Conv3d against the linear patch embedding. Prints probes and seconds by
# operator, and each finding; fails when a planted fault is missed.
set -uo pipefail
assay=$(realpath "$1")
python=${2:-python3}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() { # NAME WANTED GOT
    if [ "$2" = "$3" ]; then echo "h200: ok: $1"; else echo "h200: FAILED: $1: wanted $2, got $3"; failures=$((failures + 1)); fi
}

# table NAME OPTION...: runs a campaign and sums its rows up.
table() {
    local name=$1 start=$SECONDS status
    shift
    "$assay" probe --torch="$python" --device cuda --quiet --json "$@" >"$work/report.json"
    status=$?
    echo "h200: $name: exit $status, $((SECONDS - start)) s with start and proof"
    "$python" - "$work/report.json" <<'P'
import collections, json, sys
report = json.load(open(sys.argv[1]))
probes, seconds, bad = collections.Counter(), collections.Counter(), collections.defaultdict(list)
slowest = collections.Counter()
for r in report["operators"]:
    probes[r["op"]] += r["probes"]
    seconds[r["op"]] += r["seconds"]
    slowest[r["op"], r["way"]] += r["seconds"]
    if not {r["forward"], r["backward"]} <= {"ok", "none", "not run"}:
        bad[r["op"]].append("%s %s %s: %s, %s" % (r["way"], r["dtype"], r["layout"], r["forward"], r["backward"]))
for op, s in seconds.most_common():
    print("h200:   %-18s %5d probes %8.2f s  %s" % (op, probes[op], s, "; ".join(bad[op])))
print("h200:   slowest ways: " + ", ".join("%s by %s %.1f s" % (*k, s) for k, s in slowest.most_common(6)))
for f in report["findings"]:
    print("h200:   %s: %s: %s" % (f["severity"], f["title"], f["claim"]))
for note in report.get("notes", []):
    print("h200:   note: %s" % note)
print("h200:   %s" % report["verdict"])
P
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/^/h200: /'
start=$SECONDS
"$assay" probe --torch="$python" --device cuda --quiet --torch-module "$here/triton_forgotten_mask.py"
check "a Triton kernel without its mask is convicted" 1 $?
MASKED=1 "$assay" probe --torch="$python" --device cuda --quiet --torch-module "$here/triton_forgotten_mask.py"
check "the same kernel with its mask passes" 0 $?
echo "h200: Triton part took $((SECONDS - start)) s"

if [ "${3:-}" = --short ]; then
    table "linear, softmax, rms_norm" --time-limit 60 --dtype bfloat16 --dtype float32 linear softmax rms_norm
else
    table "whole table" --time-limit "${3:-300}" --dtype float32 --dtype bfloat16 --dtype float16
    table "gated delta rule, 3,700 tokens too" --time-limit 120 --level full --dtype float32 --dtype bfloat16 gated_delta_rule
fi
start=$SECONDS
timeout 60 "$assay" probe --torch="$python" --device cuda --quiet --timing --dtype bfloat16 --dtype float32 patch_embed
echo "h200: Conv3d against linear: exit $?, $((SECONDS - start)) s"
echo "h200: $failures of 2 checks failed"
exit $((failures != 0))
