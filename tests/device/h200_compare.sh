#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Contrasts and comparisons on a real GPU: a forgotten mask that only the guard sees; two BLAS paths of one
# LoRA training, three runs each, judged by the noise of the first.
# usage: h200_compare.sh [ASSAY]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=${1:-$here/../../dist/bin/assay}
assay=$(realpath "$assay")
work=$(mktemp -d)
cd "$work"
sed 's/^repeats: .*/repeats: 4/' "$here/../../examples/plans/memory-cache.yaml" >memory-cache.yaml
echo "== cache off, guard on, with a kernel whose mask was forgotten"
"$assay" matrix -q memory-cache.yaml -- python3 "$here/forgotten_mask_job.py" 1000
echo "exit $?"
cat >blas.yaml <<'END'
name: cuBLAS and cuBLASLt
repeats: 3
routes:
  base:
    expect: ["yes:cublas"]
  lt:
    about: PyTorch told to prefer cuBLASLt
    environment: {TORCH_BLAS_PREFER_CUBLASLT: "1"}
    expect: ["yes:cublasLtMatmul"]
END
echo "== two BLAS paths"
"$assay" matrix -q blas.yaml -- python3 "$here/h200_run.py" 101
echo "exit $?"
"$assay" compare --plot blas.trials/base/0? --against blas.trials/lt/0?
echo "exit $?"
