#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Contrasts of a fine-tuning that dies, as plans of assay matrix over real frameworks on the CPU. BLIS is
# guilty and is named; of a sound multimodal LLaMA-Factory job (text alone, Conv3d as a product, eager
# attention, a larger model) nothing is blamed; a Conv3d with a wrong backward is, though no trial dies.
. "$(dirname "$0")/../cli/lib.sh"
jobs=$SOURCE/tests/full/jobs
cd "$TMP"
export EXPECT_SECONDS=900
parts=0

# holds NAME FILTER: what jq finds true in the last matrix's JSON.
holds() {
    jq -e "$2" "$TMP/out" >/dev/null || { echo "FAILED: $1: $2"; jq -c '.routes[], .findings[]' "$TMP/out"; FAILED=1; }
}
never_fixed() {
    ! grep -i "is fixed\|\"fixed\"\|was fixed" "$TMP/out" || { echo "FAILED: a matrix says 'fixed'"; FAILED=1; }
}

if /usr/bin/python3 -c 'import torch' 2>/dev/null && apt-get download libblis4-openmp libopenblas0-pthread >/dev/null 2>&1; then
    parts=1
    for d in ./*.deb; do dpkg -x "$d" root; done
    cp "$jobs/debian_job.py" "$jobs/blas.yaml" .
    expect "OpenBLAS against BLIS" 1 "$ASSAY" matrix blas.yaml
    says "the class" out "blis fails: 4 of 4 failed: 100 % (51 % to 100 %) (gemm-reads-past-operand x4)"
    says "the guilty library" out "blis-openmp/libblas.so.3"
    says "the contrast" out "openblas fails less often than the base: 0 of 4 against 4 of 4 (p = 0.029)"
    says "what it rules out" out "The job, PyTorch and the shapes are not at fault."
    says "the bound" out "openblas: 0 of 4 failed: failure rate below 53 % at 95 %"
    says "threads are ruled out" out "A race between the threads of BLIS is ruled out"
    says "the verdict" out "8 of 24 trials failed; the fault leaves with openblas, avx, even, unguarded; it stays with threads"
    never_fixed
    expect "the same for a script" 1 "$ASSAY" matrix blas.yaml --json
    holds "every change is proven" 'all(.routes[]; .change_in_effect == "proven") and .resumed == 24'
    # A library path that brings no other library changes nothing, and that is said.
    sed -i 's/^repeats: 4/repeats: 1/; s,openblas-pthread\],nowhere],' blas.yaml
    expect "a route that still runs BLIS" 1 "$ASSAY" matrix blas.yaml --trials void
    says "it is void" out "openblas: the change is not proven to be in effect"
else
    echo "python3-torch, or the packages of BLIS and OpenBLAS, cannot be had: that contrast is left out"
fi

if python=$("$SOURCE/tests/full/llamafactory_env.sh"); then
    parts=$((parts + 1))
    PATH=$(dirname "$python"):$PATH
    export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
    mkdir "$TMP/job" # the job has a folder "out" of its own
    cd "$TMP/job"
    "$python" "$jobs/pictures_job.py" >job.out 2>&1 || { cat job.out; exit 1; }
    cp "$jobs/train_pictures.py" "$jobs/pictures.yaml" "$jobs/planted.yaml" .
    expect "nothing is wrong" 0 "$ASSAY" matrix pictures.yaml
    says "the bound" out "no failure observed: 0 of 10 failed: failure rate below 26 % at 95 %"
    says "Conv3d is ruled out" out "linear: the losses agree over"
    says "attention is ruled out" out "eager: the losses agree over"
    never_fixed
    expect "the same for a script" 0 "$ASSAY" matrix pictures.yaml --json
    holds "the losses" '[.routes[] | .losses] == [null, "other inputs", "same", "same", "other inputs"]'
    expect "a wrong backward" 1 "$ASSAY" matrix planted.yaml
    says "it is blamed" out "planted trains otherwise than the base, without failing"
    says "the verdict" out "trains otherwise than the base: planted"
    never_fixed
    expect "the same for a script" 1 "$ASSAY" matrix planted.yaml --json
    holds "the other way clears itself" '[.routes[] | .losses] == [null, "same", "different"]
        and any(.findings[]; .id == "contrast-losses-differ" and (.claim | test("linear and the base agree")))'
else
    echo "LLaMA-Factory cannot be had: its contrasts are left out"
fi
[ "$parts" -gt 0 ] || exit 77
finish
