// SPDX-License-Identifier: Apache-2.0
/*
 * What vendor libraries over OpenCL need of the back end: buffers over an address, and the queue.
 */
#ifndef ASSAY_DEVICE_OPENCL_H
#define ASSAY_DEVICE_OPENCL_H

#include "device/device.h"

/* A buffer that holds everything from `address` to the end of the mapping it lies in, and where in it
 * the address is; NULL address gives NULL. The buffer begins at a multiple of 128 bytes, because
 * kernels may use vector types on a buffer's begin: a less aligned one would fault for that reason
 * alone. With a NULL ret_offset it begins at the address itself. */
enum status opencl_buffer(struct device *device, const void *address, void **ret_buffer,
                          size_t *ret_offset, struct err *err) MUST_USE;
void opencl_buffer_release(struct device *device, void *buffer);

/* cl_command_queue. */
void *opencl_queue(struct device *device);

#endif
