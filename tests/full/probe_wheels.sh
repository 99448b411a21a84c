#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The BLAS inside Python wheels, on trial under the names that they have there: numpy's OpenBLAS (prefix scipy_,
# suffix 64_), scipy-openblas32 (prefix only), MKL (both widths of integers in one library) and BLIS inside an
# extension module (symbols of its own behind Python's). 300 MB are downloaded.
. "$(dirname "$0")/../cli/lib.sh"
python3 -m pip --version >/dev/null 2>&1 || { echo "pip is not installed"; exit 77; }
cd "$TMP"
# wheel NAME PATTERN: downloads it and prints the file in it; nothing when it cannot be had.
wheel() {
    python3 -m pip download -q --no-deps --only-binary :all: -d "$1" "$1" >/dev/null 2>&1 || return 0
    python3 -m zipfile -e "$1"/*.whl "$1/root" && find "$PWD/$1/root" -name "$2" | sort | head -n 1
}
tried=0
# sound NAME LIBRARY FAMILY SYMBOL: acquitted by the quick plan, through this entry point among others.
sound() {
    [ -n "$2" ] || { echo "not downloaded: $1"; return 0; }
    tried=$((tried + 1))
    "$ASSAY" probe --library "$2" --json >"$TMP/out" 2>"$TMP/err" || true
    python3 - "$TMP/out" "$3" <<'P' || { echo "FAILED $1: $(head -c 3000 "$TMP/out" "$TMP/err")"; FAILED=1; }
import json, sys
report = json.load(open(sys.argv[1]))
row = report["libraries"][0]
assert row["family"] == sys.argv[2] and row["probes"] > 30000 and row["skipped"] == 0, row
# OpenBLAS from 0.3.30 on until its fix of August 2026 sets no strides in column-major strided batches.
batches = [f for f in report["findings"] if "gemm_batch_strided, column-major batch" in f["claim"]]
# Its kernels for AVX-512 (SkylakeX) stray where C spans more than 2^31 bytes (docs/probe.md): a warning.
wide = [f for f in report["findings"] if f["severity"] == "warning" and "span more than 2^31 bytes" in f["claim"]]
known = batches + wide
assert len(known) == len(report["findings"]), report["findings"]
assert (row["verdict"] == "clean") == (not known) and (not known or row["family"] == "openblas"), row
P
    # The entry point is found under its name there: no other is left when this is all that is asked for.
    strings=$(nm -D "$2" 2>/dev/null || true)
    grep -q " T $4$" <<<"$strings" || { echo "FAILED $1: no $4"; FAILED=1; }
}
sound "numpy's OpenBLAS" "$(wheel numpy 'libscipy_openblas64_*.so')" openblas scipy_cblas_sgemm64_
sound "scipy-openblas32" "$(wheel scipy-openblas32 'libscipy_openblas*.so')" openblas scipy_cblas_sgemm
mkl=$(wheel mkl 'libmkl_rt.so.*')
sound "MKL" "$mkl" mkl cblas_sgemm_64
if [ -n "$mkl" ]; then
    expect "a part of MKL" 2 "$ASSAY" probe --library "$(ls "${mkl%/*}"/libmkl_intel_lp64.so.*)"
    says "a part of MKL" out "name the libmkl_rt.so beside it"
fi
# The module needs its interpreter's library, which an interpreter linked statically does not bring.
blis=$(wheel blis 'cy.cpython-*.so')
minor=$(python3 -c 'import sys; print(sys.version_info[1])')
if [ -n "$blis" ]; then # an extension module: opens where the loader finds its libpython
    got=0
    "$ASSAY" probe --library "$blis" >"$TMP/out" 2>"$TMP/err" || got=$?
    case $got in
    0) says "BLIS in a module" out "clean" ;;
    1) says "BLIS in a module, with the kernels of AVX2" out "BLIS_ARCH_TYPE: kernels faulty: haswell" ;;
    2) says "BLIS in a module" out "needs libpython3.$minor.so.1.0" ;;
    *) echo "FAILED BLIS in a module: exit $got"; cat "$TMP/out"; FAILED=1 ;;
    esac
fi
[ "$tried" != 0 ] || { echo "none of the wheels could be downloaded"; exit 77; }
finish
