#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Convolutions of MIOpen and cuDNN over look-alikes: which library served them, and a fault in one named by its
# shape, with the line that repeats it alone.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
export LD_LIBRARY_PATH=$FAKES # not the other look-alikes, which have the same names
run=("$ASSAY" run --no-facts)
expect "MIOpen, recorded" 0 "${run[@]}" --record good -- "$JOB_CONV" 3
for f in ForwardImmediate BackwardDataImmediate BackwardWeights; do says "MIOpen, $f" err "miopenConvolution$f"; done
says "the losses are those of an unrecorded run" out "step 3 loss"
"$JOB_CONV" 3 >plain
cmp -s plain good/stdout.log || { echo "FAILED: recording changed what the job prints"; FAILED=1; }
"$ASSAY" report good --json >report.json 2>&1 || true
jq -e '[.libraries[] | select(.function == "miopenConvolutionForwardImmediate") | .calls] == [3]' report.json >/dev/null ||
    { echo "FAILED: three calls in the report"; FAILED=1; }

"$ASSAY" report --path good >out 2>&1 || true
says "the path knows it" out "convolution in 3D: a library was given some"
says "by one of its calls" out "forward 2x3x2x28x28 * 8x3x2x14x14 -> 2x8x1x2x2 float32"

ASSAY_FAKE_CONV=over expect "an over-read, not guarded" 0 "${run[@]}" --record lucky -- "$JOB_CONV" 2
for way in abort error700; do
    export ASSAY_FAKE_HIP=$way ASSAY_RECORD_GPU_GUARD=1 ASSAY_FAKE_CONV=over
    expect "an over-read, guarded, $way" $([ $way = abort ] && echo 134 || echo 1) "${run[@]}" --record "$way" -- "$JOB_CONV" 2
    unset ASSAY_FAKE_HIP ASSAY_RECORD_GPU_GUARD ASSAY_FAKE_CONV
    says "$way: the function" err "miopenConvolutionForwardImmediate"
    says "$way: the shape" err "forward 2x3x2x28x28 * 8x3x2x14x14 -> 2x8x1x2x2 float32"
    says "$way: the line of MIOpen's driver" err "MIOpenDriver conv -n 2 -c 3 --in_d 2 -H 28 -W 28 -k 8 --fil_d 2 -y 14 -x 14"
    says "$way: the linear layer" err "torch.nn.functional.linear"
done
expect "it is no product to replay" 2 "$ASSAY" reproduce abort
says "what it is" err "miopenConvolutionForwardImmediate"

# What ROCr tells is a page and nothing else: it is joined to the operand, the block, or neither.
for way in past freed live wild; do
    expect "a fault that only a line tells, $way" 134 "${run[@]}" --record "rocr-$way" -- "$JOB_CONV" 2 $way
    cp "$TMP/err" "$way.err"
done
grep -qE "cause +miopenConvolutionForwardImmediate: the page of the GPU's fault begins [0-9]+ bytes past the end of operand w  \(convolution-reaches-past-operand" past.err ||
    { echo "FAILED: past the weights"; cat past.err; FAILED=1; }
grep -q "MIOpenDriver conv -n 2" past.err || { echo "FAILED: no line of the driver"; FAILED=1; }
grep -q "(gpu-use-after-free" freed.err || { echo "FAILED: freed memory"; cat freed.err; FAILED=1; }
grep -q "(gpu-fault-in-live-memory" live.err || { echo "FAILED: live memory"; cat live.err; FAILED=1; }
! grep -q "the page of the GPU's fault" wild.err || { echo "FAILED: a wild address is joined"; FAILED=1; }

expect "cuDNN, recorded" 0 "${run[@]}" --record cudnn -- "$JOB_CUDNN" good
for f in cudnnConvolutionForward cudnnConvolutionBackwardFilter cudnnBackendExecute; do says "$f" err "$f"; done
expect "cuDNN, a write behind the gradient" 139 "${run[@]}" --record cudnn-over -- "$JOB_CUDNN" over
says "the operand" err "cudnnConvolutionBackwardFilter wrote 0 bytes past the end of operand w"
says "its shape, groups and layout" err "backward to the weights 2x8x6x6 * 8x2x3x3 -> 2x8x3x3 float16, padding 1x1, stride 2x2, dilation 1x1, 4 groups"
finish
