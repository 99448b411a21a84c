#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: opencl.sh TRIAL: the proof of the guard on a real OpenCL implementation (pocl), whose kernels
# run on host memory. Skipped where there is none.
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
exit $status
