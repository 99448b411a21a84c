#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The fault of gfx1201 on fake libraries of AMD: a tile of 64 columns over an operand of 16. Unguarded it
# passes, in the job and alone; at a hole it fails, and reproduce writes the program that shows it.
. "$(dirname "$0")/../cli/lib.sh"
command -v cc >/dev/null || { echo "no C compiler"; exit 77; }
cd "$TMP"
export EXPECT_SECONDS=200 # a replay is hundreds of children, and a machine may be busy
run=("$ASSAY" run --no-facts)
export ASSAY_FAKE_BLAS=tile64
expect "plain, the job passes" 0 "${run[@]}" --record plain -- "$JOB_LT" 3

# alone FOLDER WORDS: the program of a reproducer, as a stranger uses it.
alone() {
    expect "$1 builds" 0 cc -O1 -Wall -Werror -o alone "$1/reproducer/reproducer.c" -ldl -lm
    expect "$1 fails alone" 1 ./alone
    says "$1 says what is wrong" out "$2"
    [ "$(wc -l <"$1/reproducer/reproducer.c")" -le 100 ] || { echo "FAILED: $1: more than 100 lines"; FAILED=1; }
    ASSAY_FAKE_BLAS="" expect "$1 passes on a library without the fault" 0 ./alone
}
for way in abort error700; do
    export ASSAY_FAKE_HIP=$way
    ASSAY_RECORD_GPU_GUARD=1 expect "$way, guarded" $([ $way = abort ] && echo 134 || echo 1) "${run[@]}" --record $way -- "$JOB_LT" 3
    expect "$way, reproduce" 1 "$ASSAY" reproduce $way
    says "$way: unguarded it passes alone" out "without the guard the same call passes in all"
    says "$way: the passing neighbour fills its tile" out "n=64"
    says "$way: the solution" out "solution 103"
    says "$way: the program was tried" out "fails on its own: yes"
    [ $way = abort ] || says "the operand is found by trying" out "it fails with B alone next to memory that is not mapped"
    says "$way: the control" out "readable memory next to the operands: passes"
    alone $way "FAILED: hipblasLtMatmul"
    expect "$way passes with slack" 0 ./alone --slack
    grep -q "hipblaslt-bench .*--solution_index 103" $way/reproducer/report.md || { echo "FAILED: no line for the bench"; FAILED=1; }
    grep -q "in the run: operand B: 3008 bytes at 0x" $way/reproducer/report.md || { echo "FAILED: no layout"; FAILED=1; }
done
grep -q "Operand B ends at device memory that is not mapped" error700/reproducer/reproducer.c || { echo "FAILED: the operand at the hole"; FAILED=1; }
unset ASSAY_FAKE_HIP

ASSAY_RECORD_GPU_GUARD=1 expect "rocBLAS, guarded" 134 "${run[@]}" --record rocblas -- "$JOB_LT" 3 16 rocblas
expect "rocBLAS, reproduce" 1 "$ASSAY" reproduce rocblas
says "rocBLAS, reproduce" out "fails on its own: yes"
alone rocblas "FAILED: rocblas_gemm_strided_batched_ex"
grep -q "rocblas-bench -f gemm_strided_batched_ex .*--solution_index 103" rocblas/reproducer/report.md || { echo "FAILED: no line for rocblas-bench"; FAILED=1; }

# A width that fills the tile passes, and the answer says what that excludes.
ASSAY_RECORD_GPU_GUARD=1 expect "64 columns, guarded" 0 "${run[@]}" --record whole -- "$JOB_LT" 3 64
expect "64 columns, reproduce" 2 "$ASSAY" reproduce whole
says "64 columns, reproduce" out "by the recorded algorithm and by up to 16 others"

# What only the library's own log still holds is tried as well.
expect "logged" 0 "${run[@]}" --library-logs hipblaslt --record logged -- "$JOB_LT" 2
rm logged/record.*.bin
expect "logged, reproduce" 1 "$ASSAY" reproduce logged
says "logged, reproduce" out "stands in the library's log"
says "logged, the program was tried" out "fails on its own: yes"

# Wrong numbers need no hole.
ASSAY_FAKE_BLAS=splitk-nan expect "wrong numbers, the job" 0 "${run[@]}" --record wrong -- "$JOB_LT" 1
ASSAY_FAKE_BLAS=splitk-nan expect "wrong numbers, reproduce" 1 "$ASSAY" reproduce wrong
ASSAY_FAKE_BLAS=splitk-nan alone wrong "is nan and should be"

# One switch is no control: the calls are still there.
TORCH_BLAS_PREFER_HIPBLASLT=0 expect "one switch" 0 "${run[@]}" --record switch -- "$JOB_LT" 3
expect "one switch, reproduce" 1 "$ASSAY" reproduce switch
says "one switch is not in effect" out "TORCH_BLAS_PREFER_HIPBLASLT=0 did not keep the run away from hipblaslt"
grep -q "did not keep the run away" switch/reproducer/report.md || { echo "FAILED: the switch is not in the report"; FAILED=1; }

# What cannot be believed is not said.
ASSAY_FAKE_HIP=silent expect "a device that never reports" 2 "$ASSAY" reproduce plain
says "a device that never reports" out "no recorded product could be replayed"
ASSAY_FAKE_HIP=no-device expect "no device" 2 "$ASSAY" reproduce plain --json
grep -q "the guard is not proven on" "$TMP/out" || { echo "FAILED: the reason is not told"; FAILED=1; }
finish
