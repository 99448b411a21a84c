#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --figures: the CPU has every figure; a device that is missing, or that has no memory, is
# "could not tell"; a word that is no device is a mistake of the caller.
. "$(dirname "$0")/lib.sh"
expect cpu 0 "$ASSAY" probe --figures cpu --json
for what in 'launch of a kernel' 'copy to the device' 'allocate and free 2 MiB' 'growth over 1,000 rounds'; do
    says cpu out "$what"
done
says cpu out '"verdict": "fine"'

expect absent 2 "$ASSAY" probe --figures cpu:3
says absent err 'no cpu:3'
expect word 64 "$ASSAY" probe --figures tpu
says word err 'is no device'
expect number 64 "$ASSAY" probe --figures cpu:x

expect no_memory 2 env LD_LIBRARY_PATH="${FAKES:?}" ASSAY_FAKE_HIP=no-memory "$ASSAY" probe --figures hip
says no_memory out 'allocate and free 2 MiB could not be measured'
says no_memory out 'hipErrorOutOfMemory'
finish
