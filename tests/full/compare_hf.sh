#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real HF Trainer runs: bf16 beside float32 is the same training; an MLP whose backward is missing, which the
# losses hardly show, is never called the same. Python with torch and transformers: oracle_env.sh.
. "$(dirname "$0")/../cli/lib.sh"
python=$("$SOURCE/tests/full/oracle_env.sh") || exit 77
"$python" -c 'import torch, transformers, accelerate' 2>/dev/null || { echo "$python has no torch, transformers and accelerate"; exit 77; }
cp "$SOURCE/tests/full/compare_hf.py" "$TMP"
cd "$TMP"
run() { # NAME ARG...
    local name=$1
    shift
    timeout 300 "$ASSAY" run --no-facts --record "$name" -- "$python" compare_hf.py --output "$name.out" "$@" >/dev/null 2>"$name.err" ||
        { echo "FAILED: $name"; tail -n 5 "$name.err"; exit 1; }
}
for n in 1 2 3; do run "a$n" --perturb "0.0$n"; done
run bf16 --bf16 true
run backward --fault backward
[ "$(grep -c '"loss"' a1/metrics.jsonl)" -ge 120 ] || { echo "FAILED: losses are missing"; FAILED=1; }
expect "bf16" 0 "$ASSAY" compare a1 a2 a3 --against bf16
says "bf16" out "same: the losses agree"
says "bf16 is other work" out "no ratios of A and B"
expect "no backward" 2 "$ASSAY" compare a1 a2 a3 --against backward
says "no backward" out "gradient norm"
expect "one run each" 2 "$ASSAY" compare a1 backward
expect "from the trainer's own state" 2 "$ASSAY" compare --force a1.out backward.out
finish
