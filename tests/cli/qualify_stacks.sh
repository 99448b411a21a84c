#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# qualify over libraries that are bad on purpose: a BLAS that reads, writes or computes wrong, no BLAS at all where
# programs look for one, and GPUs that answer, answer silently, or not.
. "$(dirname "$0")/lib.sh"
fakes=${FAKES:?}
cd "$TMP"

blas() { # NAME EXIT FINDING
    mkdir -p "$1" && cp "$fakes/libblas_$1.so" "$1/libblas.so.3"
    expect "BLAS: $1" "$2" env LD_LIBRARY_PATH="$TMP/$1" "$ASSAY" qualify --only operators
    says "BLAS: $1" out "$3"
    says "the file is named" out "$TMP/$1/libblas.so.3"
}
blas read 1 "(gemm-reads-past-operand)"
says "not qualified" out "not qualified: "
says "the stage failed" out "stage operators        failed"
blas write 1 "(gemm-writes-past-operand)"
blas wrong 1 "(gemm-inaccurate)"

# An AMD machine in miniature.
expect "a GPU that answers" 0 env LD_LIBRARY_PATH="$fakes" "$ASSAY" qualify --only device
says "it is what is qualified" out "device: cuda"
says "both guards" out "hip:0 ("
expect "the GPU that was asked for" 0 env LD_LIBRARY_PATH="$fakes" "$ASSAY" qualify --only device --device cuda
expect "faults that never report" 2 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=silent "$ASSAY" qualify --only device
says "faults that never report" out "no guarded result on hip:0 means anything"
says "no pass" out "stage device           could not tell"
expect "only the CPU was asked for" 0 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=silent "$ASSAY" qualify --only device --device cpu
if [ ! -e /dev/nvidiactl ]; then
    expect "no device behind the library" 1 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=no-device "$ASSAY" qualify --only device,training --device cuda
    says "no device behind the library" out "hipErrorInvalidDevice"
    says "no training" out "not run: training"
fi
finish
