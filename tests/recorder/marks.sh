#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run --marks over the fake run-times: the last call that completed on each stream is told after a fault, a hang and a
# kill; nothing is told, and nothing breaks, where the driver has no such thing or refuses it.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)
export LD_LIBRARY_PATH=${JOB_CUDA%/*}

# told NAME TEXT: the report says it, over the ends of its lines.
told() {
    tr -s ' \n' ' ' <err >flat
    says "$1" flat "$2"
}
for platform in cuda hip; do
    [ "$platform" = cuda ] && job=$JOB_CUDA set=cudaMemsetAsync || { job=$JOB_HIP; set=hipMemsetAsync; }
    expect "$platform, healthy" 0 "${run[@]}" --marks 1 --record "$platform-good" -- "$job" good direct 2
    if grep -q gpu-progress err; then echo "FAILED: $platform: progress of a healthy run"; FAILED=1; fi

    # Five kernels in flight: without marks one of five, with marks the one.
    export ASSAY_RECORD_GPU_GUARD=1
    expect "$platform, a fault without marks" 1 "${run[@]}" --record "$platform-five" -- "$job" good direct 1 first second add_over third
    told "$platform, a fault without marks" "illegal memory access in one of the last 5 kernels"
    for how in direct lookup; do
        expect "$platform, a fault, $how" 1 "${run[@]}" --marks 1 --record "$platform-fault-$how" -- "$job" good "$how" 1 first second add_over third
        told "$platform, $how: the kernel at fault" "kernel add_over: illegal memory access"
        told "$platform, $how: how far it came" "stream 0x0: 7 calls, the last that completed is number 5 (kernel second); next: 6 kernel add_over, 7 kernel third"
    done
    expect "$platform, a mark behind every third" 1 "${run[@]}" --marks 3 --record "$platform-three" -- "$job" good direct 1 first second add_over third
    told "$platform, a mark behind every third" "the last that completed is number 3 (kernel add); one of these is next: 4 kernel first, 5 kernel second, 6 kernel add_over"
    told "$platform, those that are done are not suspected" "one of the last 4 kernels"
    unset ASSAY_RECORD_GPU_GUARD

    expect "$platform, a hang" 124 "${run[@]}" --marks 1 --hang 1 --kill-hung --record "$platform-hang" -- "$job" good direct 1 first hang second
    told "$platform, a hang" "stream 0x0: 6 calls, the last that completed is number 4 (kernel first); next: 5 kernel hang, 6 kernel second"
    FAKE_GPU=late expect "$platform, late" 124 "${run[@]}" --marks 1 --hang 1 --kill-hung --record "$platform-late" -- "$job" good direct 1 first hang
    told "$platform, what completed after the last call" "the last that completed is number 4 (kernel first); next: 5 kernel hang"
    expect "$platform, fills are calls" 124 "${run[@]}" --marks 2 --timeout 1 --record "$platform-two" -- "$job" good direct 3 hang
    told "$platform, fills are calls" "number 2 ($set of 4000 bytes); one of these is next: 3 kernel add, 4 kernel hang"

    FAKE_GPU=refuse expect "$platform, refused" 0 "${run[@]}" --marks 1 --record "$platform-refused" -- "$job" good direct
    told "$platform, refused" "the driver refused them with error 801"
    FAKE_GPU=early expect "$platform, before there is a context" 124 "${run[@]}" --marks 1 --timeout 1 --record "$platform-early" -- "$job" good direct 1 hang
    told "$platform, before there is a context" "the last that completed is number 2 (kernel add); next: 3 kernel hang"
    FAKE_GPU=capturing expect "$platform, captured" 124 "${run[@]}" --marks 1 --timeout 1 --record "$platform-captured" -- "$job" good direct 1 hang
    told "$platform, captured streams get no mark" "none of them known to have completed"
done
expect "a driver without it" 0 env LD_LIBRARY_PATH="$FAKES" "${run[@]}" --marks 1 --record none -- "$JOB_LT" 2 64
told "a driver without it" "the driver has no function that writes from a stream"
expect "no number" 64 "${run[@]}" --marks often -- true
finish
