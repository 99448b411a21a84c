#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe: bad input, and real libraries where they are installed.
. "$(dirname "$0")/lib.sh"
printf '2 2 1 transpose=nn beta=1\n4 15 3\n' >"$TMP/shapes"
printf '4 16\n' >"$TMP/two"
printf '1099511627776 1099511627776 4\n' >"$TMP/absurd"

expect "no such library" 2 "$ASSAY" probe --shapes "$TMP/shapes" --library "$TMP/none.so"
says "no such library" out "cannot open shared object"
expect "library without a product" 2 "$ASSAY" probe --shapes "$TMP/shapes" --library libm.so.6
says "library without a product" out "no matrix product"
expect "unreadable shapes" 2 "$ASSAY" probe --shapes "$TMP/nowhere"
expect "two sizes" 64 "$ASSAY" probe --shapes "$TMP/two"
says "two sizes" err "two:1: a line needs three sizes"
expect "absurd sizes" 2 "$ASSAY" probe --shapes "$TMP/absurd"
says "absurd sizes" err "half of the memory"
expect "no such dtype" 64 "$ASSAY" probe --dtype complex9
expect "bad deadline" 64 "$ASSAY" probe --deadline 0

[ -z "${SANITIZED:-}" ] || finish
dir=/usr/lib/x86_64-linux-gnu
open=$dir/openblas-pthread/libopenblas.so.0
blis=$(find $dir/blis-* -name libblis.so.4 2>/dev/null | sort | head -n 1)
if [ -e "$open" ]; then
    expect "a sound library is acquitted" 0 "$ASSAY" probe --shapes "$TMP/shapes" --dtype f32 --library "$open"
    says "a sound library is acquitted" out "clean"
    ASSAY_TEST_NO_GUARD=1 expect "without a guard nothing is believed" 2 "$ASSAY" probe --shapes "$TMP/shapes" \
        --dtype f32 --library "$open"
    says "without a guard nothing is believed" out "could not tell"
fi
# OpenBLAS's AVX-512 kernels (0.3.21 and 0.3.26 at least) stray with offsets past 2^31 bytes: a fault, and a
# warning, for hardly any training has such operands. A version without the fault is clean.
if [ -e "$open" ] && grep -qw avx512f /proc/cpuinfo; then
    echo "1 4 1 transpose=nt lda=1 ldb=4 ldc=1073741823 dtype=f32" >"$TMP/far"
    got=0
    OPENBLAS_CORETYPE=SkylakeX "$ASSAY" probe -q --shapes "$TMP/far" --dtype f32 --library "$open" >"$TMP/out" || got=$?
    case $got in
    0) says "far operands, sound library" out "clean" ;;
    *) says "far operands, fault" out "gemm-strays"; says "far operands, a warning" out "warning   openblas" ;;
    esac
fi
if [ -n "$blis" ] && grep -qw avx2 /proc/cpuinfo; then
    export BLIS_ARCH_TYPE=3 # the kernels of AVX2 processors, wherever this runs
    expect "BLIS 0.9.0 is convicted" 1 "$ASSAY" probe --shapes "$TMP/shapes" --dtype f32 --library "$blis"
    says "BLIS 0.9.0 is convicted" out "gemm-reads-past-operand"
fi
expect "an option of another way of trying" 64 "$ASSAY" probe --timing
says "an option of another way of trying" err "--timing has no meaning without --torch"
expect "a library for PyTorch" 64 "$ASSAY" probe --torch --library /x.so
finish
