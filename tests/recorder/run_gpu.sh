#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder's hooks of CUDA and HIP over fake run-times: calls and names recorded, look-ups by name
# served, and a kernel that reads one element too far caught by the guard and named.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)
for platform in cuda hip; do
    [ "$platform" = cuda ] && job=$JOB_CUDA malloc=cudaMalloc driver=cuLaunchKernel ||
        job=$JOB_HIP malloc=hipMalloc driver=hipModuleLaunchKernel
    expect "$platform, recorded" 0 "${run[@]}" --record "$platform-good" -- "$job" good direct
    says "$platform: allocations are counted" err "$malloc"
    expect "$platform, by name" 0 "${run[@]}" --record "$platform-name" -- "$job" good lookup
    says "$platform: look-ups by name are recorded" err "$driver"
    hows="direct lookup entry"
    [ "$platform" = hip ] || hows="$hows chevron"
    for how in $hows; do
        expect "$platform, launches, $how" 0 "${run[@]}" --record "$platform-$how" -- "$job" good "$how"
        "$ASSAY" report --path "$platform-$how" --json >report.json 2>&1 || true
        jq -e '[.kernels[] | select(.kernel == "add") | .launches] == [10]' report.json >/dev/null ||
            { echo "FAILED: $platform, $how: not ten launches of one kernel"; jq -c .kernels report.json; FAILED=1; }
        "$ASSAY" report "$platform-$how" --json >report.json 2>&1 || true
        [ "$(jq '[.libraries[] | select(.function | test("Launch")) | .calls] | add' report.json)" = 10 ] ||
            { echo "FAILED: $platform, $how: a launch is told twice or not at all"; jq -c '.libraries[]' report.json; FAILED=1; }
    done
    expect "$platform, over-read, not guarded" 0 "${run[@]}" --record "$platform-lucky" -- "$job" over direct
    export ASSAY_RECORD_GPU_GUARD=1
    expect "$platform, guarded" 0 "${run[@]}" --record "$platform-guarded" -- "$job" good direct
    expect "$platform, guarded, two streams" 0 "${run[@]}" --record "$platform-streams" -- "$job" good lookup 2
    for how in $hows; do
        expect "$platform, over-read, guarded, $how" 1 "${run[@]}" --record "$platform-over-$how" -- "$job" over "$how"
        says "$platform, $how: the kernel is named" err "kernel add_over: illegal memory access"
        grep '^cause' err | head -n 1 | grep -q "kernel add_over: illegal memory access" ||
            { echo "FAILED: $platform, $how: what names the kernel does not stand first"; grep '^cause' err; FAILED=1; }
        says "$platform, $how: the step" out "GPU error 700 at step 0"
    done
    if [ "$platform" = cuda ]; then
        says "the tensor is named" err "argument 0: tensor of 4000 bytes"
    fi
    expect "$platform, a kernel of the program's own is not replayed" 2 "$ASSAY" reproduce "$platform-over-direct"
    says "$platform, it is named" err "nothing to replay: kernel add_over: illegal memory access"
    unset ASSAY_RECORD_GPU_GUARD
done
finish
