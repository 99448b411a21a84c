#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --why: devices, libraries and the proof of the guard; an AMD machine in miniature from
# the look-alikes of tests/fake, sound, with faults that never report, and without a device.
. "$(dirname "$0")/lib.sh"
fakes=${FAKES:?}

# A sanitizer's own handlers and a foreign run-time library do not matter here: children end by
# signals on purpose. OpenCL, where it is installed, is asked as well.
expect sound 0 env LD_LIBRARY_PATH="$fakes" "$ASSAY" probe --why
says sound out 'Fake Radeon'
says sound out 'gfx1201'
says sound out 'the guard sees one element too far on cpu:0'
says sound out 'the guard sees one element too far on hip:0'
says sound out 'the library starts on hip:0'

expect silent 2 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=silent "$ASSAY" probe --why
says silent out 'no guarded result on hip:0 means anything'
says silent out 'writes only'

expect no_device 0 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=no-device "$ASSAY" probe --why --json
says no_device out 'hipErrorInvalidDevice'
says no_device out '"state": "broken"'

expect too_old 0 env LD_LIBRARY_PATH="$fakes" ASSAY_FAKE_HIP=old-version "$ASSAY" probe --why
says too_old out 'the library has no virtual memory in its final form'
says too_old out 'registered host memory'
finish
