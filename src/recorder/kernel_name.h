// SPDX-License-Identifier: Apache-2.0
/* Names of kernels for people. */
#ifndef ASSAY_RECORDER_KERNEL_NAME_H
#define ASSAY_RECORDER_KERNEL_NAME_H

#include "base/arena.h"

/*
 * A mangled C++ name (Itanium C++ ABI, 5.1) as its qualified name and, between <>, the first names of functions and
 * functors among its template arguments, which are what tells kernels of PyTorch apart:
 *   _ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_25bfloat16_copy_kernel_cuda...
 *   at::native::vectorized_elementwise_kernel<bfloat16_copy_kernel_cuda>
 * Any other name is returned as it is. It reads names alone and builds no types: a name of a kilobyte can stand for a
 * type of any length, and a record may come from anywhere.
 */
const char *kernel_name(struct arena *a, const char *name);

#endif
