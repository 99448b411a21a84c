// SPDX-License-Identifier: Apache-2.0
/*
 * The few kernels of our own, each in the language of every back end.
 */
#ifndef ASSAY_DEVICE_KERNELS_H
#define ASSAY_DEVICE_KERNELS_H

#include "device/device.h"

/* One work item: to[write_index] = from[read_index]; elements of 4 bytes, indices signed.
 * Arguments: pointer from, i64 read_index, pointer to, i64 write_index. */
extern const struct kernel_text kernel_copy_one;

/* One work item: reads (write = 0) or overwrites (write = 1) `count` bytes from base + first, one
 * after another; the exclusive or of what it read goes to sink[0].
 * Arguments: pointer base, i64 first, i64 count, i32 write, pointer sink (4 bytes). */
extern const struct kernel_text kernel_touch;

/* One work item: does nothing. No arguments. */
extern const struct kernel_text kernel_nothing;

#endif
