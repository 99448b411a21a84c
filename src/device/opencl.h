// SPDX-License-Identifier: Apache-2.0
/*
 * What vendor libraries over OpenCL need of the back end: buffers over an address, and the queue.
 */
#ifndef ASSAY_DEVICE_OPENCL_H
#define ASSAY_DEVICE_OPENCL_H

#include "device/device.h"

/* A buffer from `address` to the end of the mapping it lies in; NULL address gives NULL. */
enum status opencl_buffer(struct device *device, const void *address, void **ret_buffer,
                          struct err *err) MUST_USE;
void opencl_buffer_release(struct device *device, void *buffer);

/* cl_command_queue. */
void *opencl_queue(struct device *device);

#endif
