#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: h200_torch.sh ASSAY [PYTHON] [--short]
# The operators of a real PyTorch on a real GPU, under guard: the whole table in float32, bfloat16 and
# float16, a Triton kernel with a forgotten mask (and the same with its mask), Conv3d against the linear
# patch embedding. Prints what `assay probe --torch` prints; fails when a planted fault is missed.
set -uo pipefail
assay=$(realpath "$1")
python=${2:-python3}
here=$(realpath "$(dirname "$0")")
failures=0

check() { # NAME WANTED GOT
    if [ "$2" = "$3" ]; then echo "h200: ok: $1"; else echo "h200: FAILED: $1: wanted $2, got $3"; failures=$((failures + 1)); fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/^/h200: /'
start=$SECONDS
"$assay" probe --torch="$python" --device cuda --quiet --torch-module "$here/triton_forgotten_mask.py"
check "a Triton kernel without its mask is convicted" 1 $?
MASKED=1 "$assay" probe --torch="$python" --device cuda --quiet --torch-module "$here/triton_forgotten_mask.py"
check "the same kernel with its mask passes" 0 $?
echo "h200: Triton part took $((SECONDS - start)) s"

start=$SECONDS
if [ "${3:-}" = --short ]; then
    timeout 60 "$assay" probe --torch="$python" --device cuda --quiet --dtype bfloat16 --dtype float32 linear softmax rms_norm
else
    timeout 420 "$assay" probe --torch="$python" --device cuda --quiet --dtype float32 --dtype bfloat16 --dtype float16
fi
echo "h200: whole table: exit $?, $((SECONDS - start)) s"
start=$SECONDS
timeout 40 "$assay" probe --torch="$python" --device cuda --quiet --timing --dtype bfloat16 --dtype float32 patch_embed
echo "h200: Conv3d against linear: exit $?, $((SECONDS - start)) s"
echo "h200: $failures of 2 checks failed"
exit $((failures != 0))
