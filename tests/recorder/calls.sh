#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every hook hands on what it was given, and is counted: GPU functions whose libraries are not here, by look-alikes
# that know their arguments.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
expect "plain" 0 "$JOB_CALLS"
for options in "" "--marks 1"; do
    rm -rf calls
    expect "recorded $options" 0 "$ASSAY" run --no-facts $options --record calls -- "$JOB_CALLS"
    cat out
    "$ASSAY" report calls --json >report.json 2>&1 || true
    # The table of hooks is the list: what it has of GPU libraries and is not called here is named.
    sed -nE 's/^HOOK\([A-Z0-9_]+, "([A-Za-z0-9_]+)", "(cuda|cuda-driver|hip|cublas|hipblas|rocblas|miopen|cudnn|nccl)"\)/\1/p' \
        "$SOURCE/src/preload/hooks.def" | sort >hooks
    jq -r '.libraries[] | select(.calls == 1) | .function' report.json | sort >called
    comm -23 hooks called >missing
    # Called elsewhere (run_gpu.sh, marks.sh, reproduce_hip.sh), or no calls of their own: look-ups.
    printf '%s\n' >elsewhere cuGetProcAddress cuGetProcAddress_v2 hipGetProcAddress hipGetDriverEntryPoint cuModuleGetFunction cudaDeviceSynchronize cudaEventSynchronize cudaFreeAsync cudaGraphLaunch \
        cudaMalloc cudaMallocAsync cudaMemcpy cudaMemcpyAsync cudaMemset cudaMemsetAsync cudaStreamSynchronize \
        hipDeviceSynchronize hipEventSynchronize hipFreeAsync hipGraphLaunch hipMalloc hipMallocAsync hipMemcpy \
        hipMemcpyAsync hipMemcpyWithStream hipMemset hipMemsetAsync hipModuleGetFunction hipStreamSynchronize \
        rocblas_gemm_strided_batched_ex
    sort -o elsewhere elsewhere
    comm -23 missing elsewhere >lost
    [ ! -s lost ] || { echo "FAILED: not recorded once: $(tr '\n' ' ' <lost)"; FAILED=1; }
done
finish
