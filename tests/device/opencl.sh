#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: opencl.sh TRIAL: the proof of the guard, planted faults and CLBlast's matrix products on a real
# OpenCL implementation (pocl), whose kernels run on host memory. Skipped where there is none.
set -uo pipefail
out=$("$1" opencl prove)
status=$?
echo "$out"
case $out in
*"cannot load libOpenCL"* | *"finds no OpenCL platform"* | *"OpenCL has 0 devices"*)
    echo "skipped: no OpenCL here (packages pocl-opencl-icd, ocl-icd-libopencl1)"
    exit 77
    ;;
esac
[ $status -eq 0 ] || exit $status
out=$("$1" opencl planted) || { echo "$out"; exit 1; }
# Operands of a guarded product end anywhere: CLBlast may use vector types only where it may.
out=$("$1" opencl gemm clblast 20 2>&1)
status=$?
echo "$out" | tail -n 15
case $out in
*"cannot load libclblast"*) echo "no CLBlast here (package libclblast1): its products are not tried" ;;
*) exit $status ;;
esac
