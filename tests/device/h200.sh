#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: h200.sh [--library PATH-OF-libcublasLt] [--seconds N]
# The device layer on a real NVIDIA GPU: the proof of the guard, planted accesses of 1, 4, 16 and 64
# bytes past both sides, and cuBLASLt over its algorithms under guard. Needs gcc and a driver, no
# CUDA toolkit; cuBLASLt is found in Python's site-packages. Prints what it measured; the status is
# 0 when everything planted was caught and nothing else was found.
set -uo pipefail
library= seconds=60
while [ $# -gt 0 ]; do
    case $1 in
    --library) library=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    *) sed -n 3,7p "$0"; exit 64 ;;
    esac
done
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The layer needs none of the third-party libraries of the program.
if ! gcc -std=gnu17 -O2 -D_GNU_SOURCE -I"$top/src" -o "$work/trial" "$top"/tests/device/trial{,_gemm}.c \
    "$top"/src/device/*.c "$top"/src/base/{arc4random,arena,dtype,err,fs,str}.c -ldl -lm -lpthread; then
    echo "h200: the trial program does not build"
    exit 2
fi
if [ -z "$library" ]; then
    # pip's layout: ask Python where it is, without importing anything heavy.
    library=$(python3 - <<'PY' 2>/dev/null
import glob, site, sys
roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
for root in roots:
    for pattern in ("nvidia/cu13/lib/libcublasLt.so.*", "nvidia/cublas/lib/libcublasLt.so.*"):
        found = sorted(glob.glob(f"{root}/{pattern}"))
        if found:
            print(found[-1])
            sys.exit()
PY
    )
fi
echo "h200: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | head -1)"
echo "h200: cuBLASLt ${library:-found by the loader}"
bad=0
"$work/trial" cuda prove || bad=1
"$work/trial" cuda planted || bad=1
# The rate with the heuristic's short list, then every algorithm and configuration.
"$work/trial" cuda gemm cublaslt "$seconds" 8 ${library:+"$library"} || bad=1
"$work/trial" cuda gemm cublaslt "$seconds" 4096 ${library:+"$library"} || bad=1
exit $bad
