#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --device: the matrix libraries of a device. CLBlast on PoCL where both are installed; hipBLASLt and
# rocBLAS as look-alikes, sound, with planted faults, with a guard that cannot be believed, without a device.
. "$(dirname "$0")/lib.sh"
printf '65 33 40 dtype=bf16 transpose=nn alpha=1 beta=0 lda=65 ldb=40 ldc=65\n' >"$TMP/shapes"
hip=(env "LD_LIBRARY_PATH=${FAKES:?}")
try=("$ASSAY" probe --device hip --shapes "$TMP/shapes")
expect "sound look-alikes" 0 "${hip[@]}" "${try[@]}"
says "sound look-alikes" out "0 of 2 libraries at fault"
for plant in tile64 ktail; do
    expect "$plant" 1 "${hip[@]}" "ASSAY_FAKE_BLAS=$plant" "${try[@]}" --library "$FAKES/libhipblaslt.so"
    says "$plant" out "hipblaslt"
    says "$plant" out "outside operand"
done
printf '32 16 48 dtype=float8_e4m3fn\n16 16 16 dtype=float8_e5m2fnuz\n' >"$TMP/eight"
expect "8-bit products" 0 "${hip[@]}" "$ASSAY" probe --device hip --shapes "$TMP/eight" --library "$FAKES/libhipblaslt.so"
expect "a scale that is ignored" 1 "${hip[@]}" ASSAY_FAKE_BLAS=no-scale "$ASSAY" probe --device hip --shapes "$TMP/eight" \
    --library "$FAKES/libhipblaslt.so"
says "a scale that is ignored" out "less accurate than rounding allows"
says "a scale that is ignored" out "solution 103"
for _ in $(seq 500); do echo '16 16 16 dtype=bf16'; done >"$TMP/many"
expect "a limit of time" 2 "${hip[@]}" "$ASSAY" probe --device hip --library "$FAKES/libhipblaslt.so" --shapes "$TMP/many" --time-limit 1
says "a limit of time" out "stopped by the time limit of 1 s after"
# NVIDIA's, whose faults are errors and whose list of algorithms is long.
cuda=(env "LD_LIBRARY_PATH=$FAKES/cuda:$FAKES" ASSAY_FAKE_HIP=error700)
printf '9 16 40 dtype=bf16 transpose=nn\n16 16 16 dtype=float8_e4m3fn\n' >"$TMP/nvidia"
expect "a sound look-alike of cuBLASLt" 0 "${cuda[@]}" "$ASSAY" probe --device cuda --shapes "$TMP/nvidia"
says "a sound look-alike of cuBLASLt" out "13.1.0"
says "a sound look-alike of cuBLASLt" out "0 of 1 libraries at fault"
expect "tile64 of cuBLASLt" 1 "${cuda[@]}" ASSAY_FAKE_BLAS=tile64 "$ASSAY" probe --device cuda --dtype bf16 --shapes "$TMP/shapes"
says "tile64 of cuBLASLt" out "outside operand B"
says "tile64 of cuBLASLt" out "algo 3 tile"
expect "a limit of time on cuda" 2 "${cuda[@]}" "$ASSAY" probe --device cuda --shapes "$TMP/many" --time-limit 1
says "a limit of time on cuda" out "stopped by the time limit of 1 s after"
expect "a fault that is never reported" 2 "${hip[@]}" ASSAY_FAKE_HIP=silent "${try[@]}"
says "a fault that is never reported" out "the guard is not proven on this device"
expect "no device" 2 "${hip[@]}" ASSAY_FAKE_HIP=no-device "${try[@]}"
says "no device" out "could not tell about rocblas"
expect "a library of another kind" 64 "${try[@]}" --library libopenblas.so.0
says "a library of another kind" err "no matrix library of hip is called so"
expect "no such device" 64 "$ASSAY" probe --device vulkan
expect "a device for --why" 64 "$ASSAY" probe --why --device hip
says "a device for --why" err "--device has no meaning with --why"

"$ASSAY" probe --why >"$TMP/why" 2>/dev/null || true
if grep -q "one element too far on opencl:0 .*passed" "$TMP/why" && grep -qi "clblast" "$TMP/why"; then
    sed -i 's/bf16/float32/' "$TMP/shapes"
    expect "CLBlast on OpenCL" 0 "$ASSAY" probe --device opencl --shapes "$TMP/shapes" --json
    says "CLBlast on OpenCL" out '"family": "clblast"'
    says "CLBlast on OpenCL" out '"verdict": "clean"'
fi
finish
