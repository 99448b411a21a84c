#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: probe_torch.sh ASSAY
# assay probe --torch on two real PyTorch on the CPU. Debian's 1.13: products in bfloat16 are convicted
# (where the processor multiplies bfloat16 itself, AVX512_BF16, only those by another code are), F.linear
# on dense operands is acquitted. PyPI's current one, with transformers beside it
# (oracle_env.sh): all operators are tried, and what is convicted is exactly what adds up gradients in
# 16 bits, which is shown here without assay: 1,024 ones in bfloat16 do not add up to 1,024.
set -euo pipefail
assay=$(realpath "$1")
top=$(realpath "$(dirname "$0")/../..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
checks=0
tried=0
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

check() { # TITLE FILE JQ-EXPRESSION
    checks=$((checks + 1))
    jq -e "$3" "$2" >/dev/null || { echo "FAILED: $1"; failures=$((failures + 1)); }
}

probe() { # PYTHON OUTPUT [OPTION...]
    local python=$1 out=$2
    shift 2
    "$assay" probe --torch="$python" --json --quiet "$@" >"$out" || true
    jq -r '"\(.probes) probes: \(.verdict)"' "$out"
}

# Of an operator, way, format and layout: the words for forward and backward, "ok/inaccurate".
row='def row($o; $w; $d; $l): [.operators[] | select(.op == $o and .way == $w and .dtype == $d and
     (.layout == $l or .layout == "all"))][0] | "\(.forward)/\(.backward)";'

# A kernel that reads four bytes behind its operand, and the same that does not.
cat >"$scratch/kernel.py" <<'P'
import ctypes, os
def inputs(torch):
    return {"x": torch.arange(1000, dtype=torch.float32)}
def run(t):
    x = t["x"]
    ctypes.string_at(x.data_ptr() + 4 * x.numel(), 4 if os.environ.get("PLANT") else 0)
    return x * 2
def reference(t):
    return t["x"] * 2
P
kernel() { # PYTHON
    local got=0
    PLANT=1 "$assay" probe --torch="$1" --torch-module "$scratch/kernel.py" --quiet >"$scratch/out" || got=$?
    checks=$((checks + 2))
    { [ $got = 1 ] && grep -q "reads memory behind operand x, 0 bytes from its edge" "$scratch/out"; } ||
        { echo "FAILED: planted read in $1: exit $got"; cat "$scratch/out"; failures=$((failures + 1)); }
    got=0
    "$assay" probe --torch="$1" --torch-module "$scratch/kernel.py" --quiet >"$scratch/out" || got=$?
    [ $got = 0 ] || { echo "FAILED: clean kernel in $1: exit $got"; failures=$((failures + 1)); }
}

debian=/usr/bin/python3
if $debian -c 'import torch, sys; sys.exit(not torch.__version__.startswith("1.13"))' 2>/dev/null; then
    tried=1
    probe $debian "$scratch/debian.json"
    if grep -qw avx512_bf16 /proc/cpuinfo; then
        check "1.13: backward of matmul in bfloat16 is convicted" "$scratch/debian.json" \
            "$row row(\"linear\"; \"matmul\"; \"bfloat16\"; \"dense\") | endswith(\"inaccurate\")"
    else
        check "1.13: matmul in bfloat16 is convicted" "$scratch/debian.json" \
            "$row row(\"gemm\"; \"matmul\"; \"bfloat16\"; \"dense\") | startswith(\"inaccurate\")"
    fi
    check "1.13: F.linear in bfloat16 is acquitted" "$scratch/debian.json" \
        "$row row(\"linear\"; \"F.linear\"; \"bfloat16\"; \"dense\") | startswith(\"ok\")"
    for dtype in float64 float32; do
        check "1.13: nothing is wrong in $dtype" "$scratch/debian.json" \
            "[.operators[] | select(.dtype == \"$dtype\") | .forward, .backward] | all(IN(\"ok\", \"none\", \"missing\", \"not run\"))"
        check "1.13: every operator was tried in $dtype" "$scratch/debian.json" \
            "[.operators[] | select(.dtype == \"$dtype\" and .forward == \"ok\") | .op] | unique | length == 18"
    done
    kernel $debian
else
    echo "Debian's python3-torch 1.13 is not installed"
fi

if current=$("$top/tests/full/oracle_env.sh"); then
    tried=1
    probe "$current" "$scratch/current.json"
    check "current: every operator was tried" "$scratch/current.json" \
        '[.operators[] | select(.forward == "ok") | .op] | unique | length == 18'
    check "current: nothing is wrong in float64 and float32" "$scratch/current.json" \
        '[.operators[] | select(.dtype == "float64" or .dtype == "float32") | .forward, .backward] |
         all(IN("ok", "none", "missing", "not run"))'
    check "current: forward passes are right in all formats" "$scratch/current.json" \
        '[.operators[].forward] | all(IN("ok", "missing", "not run"))'
    check "current: only gradients that are added up in 16 bits are convicted" "$scratch/current.json" \
        '[.operators[] | select(.backward == "inaccurate") | .op] |
         all(IN("layer_norm", "conv3d", "patch_embed", "causal_conv1d"))'
    checks=$((checks + 1))
    "$current" -c '
import sys, torch
x = torch.randn(1024, 64).bfloat16()
bias = torch.zeros(64, dtype=torch.bfloat16, requires_grad=True)
y = torch.nn.functional.layer_norm(x, [64], torch.ones(64, dtype=torch.bfloat16), bias)
y.backward(torch.ones_like(y))
print("torch", torch.__version__, "bfloat16 LayerNorm: bias gradient of 1,024 ones:", bias.grad[0].item())
sys.exit(bias.grad[0].item() == 1024)' 2>/dev/null || { echo "FAILED: layer_norm adds up well now"; failures=$((failures + 1)); }
    kernel "$current"
else
    echo "the current torch cannot be installed"
fi
[ $tried = 1 ] || exit 77
echo "$checks checks, $failures failed"
exit $((failures != 0))
