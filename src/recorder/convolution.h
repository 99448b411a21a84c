// SPDX-License-Identifier: Apache-2.0
/*
 * Recorded convolutions in words: for people, and as the line of MIOpen's driver that repeats one.
 *
 * Source of the line: MIOpen src/driver_arguments.cpp; its data types are part of the verb.
 */
#ifndef ASSAY_RECORDER_CONVOLUTION_H
#define ASSAY_RECORDER_CONVOLUTION_H

#include "base/arena.h"

#include "recorder/record_format.h"

/* "forward 2x3x14x14 * 8x3x3x3 -> 2x8x12x12 bfloat16, padding 0x0, stride 1x1, dilation 1x1". */
const char *convolution_text(struct arena *a, const struct record_convolution *c);

/* "MIOpenDriver convbfp16 -n 2 -c 3 ...": NULL where its sizes were not told, or it is not MIOpen's. */
const char *convolution_driver_line(struct arena *a, const struct record_convolution *c);

#endif
