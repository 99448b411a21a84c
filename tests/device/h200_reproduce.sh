#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay reproduce on a real GPU, from an unpacked dist/: products of a healthy LoRA job are replayed alone at holes
# and pass, which is told as what it excludes (exit 2), and the path that the job took is told; a Triton kernel whose mask was forgotten is caught under the
# guard and named, and reproduce says that it is no product (exit 2). usage: h200_reproduce.sh [SECONDS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=${ASSAY:-$here/../../dist/bin/assay}
limit=${1:-25}
work=$(mktemp -d)
cd "$work" || exit 2
export HF_HUB_OFFLINE=1 PYTHONWARNINGS=ignore
failed=0

timed() { # WANTED[,OR] NAME COMMAND...
    local wanted=$1 name=$2 since=$EPOCHREALTIME got=0
    shift 2
    echo "== $name"
    "$@" >out 2>err || got=$?
    tail -n 45 out
    tail -n 25 err
    awk -v a="$since" -v b="$EPOCHREALTIME" -v n="$name" -v g="$got" 'BEGIN {printf "-- %s: exit %d, %.1f s\n", n, g, b - a}'
    case ",$wanted," in *",$got,"*) true ;; *) false ;; esac || { echo "FAILED: $name: exit $got, not $wanted"; failed=1; }
}

says() { # TEXT, over the ends of lines
    cat out err | tr -s ' \n' ' ' | grep -qF -- "$1" || { echo "FAILED: '$1' was not said"; failed=1; }
}

# Small, so that each product has its float64 reference in well under a second.
job=(python3 "$here/h200_run.py" 4 --layers 1 --width 256 --length 67 --vocabulary 1003)
timed 0 "a LoRA job by cuBLAS, recorded" "$assay" run --no-facts --record lora -- "${job[@]}"
timed 0,2 "the path that it took" "$assay" report --path lora
says "attention: "
timed 2 "its products alone" "$assay" reproduce lora --time "$limit"
says "no recorded product fails in isolation"
timed 0 "the same by cuBLASLt, recorded" "$assay" run --no-facts --env TORCH_BLAS_PREFER_CUBLASLT=1 \
    --expect yes:cublasLtMatmul --record lt -- "${job[@]}"
timed 2 "its products alone" "$assay" reproduce lt --time "$limit"
says "by the recorded algorithm and by up to 16 others"
timed 1 "a forgotten mask, guarded" "$assay" run --no-facts --guard --record mask -- python3 "$here/forgotten_mask_job.py" 1000
says "kernel add_forgotten_mask: illegal memory access"
timed 2 "the forgotten mask alone" "$assay" reproduce mask --time "$limit"
says "nothing to replay: kernel add_forgotten_mask: illegal memory access"
exit "$failed"
