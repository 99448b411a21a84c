// SPDX-License-Identifier: Apache-2.0
/* The little that the readers of GPU code share. */
#include "facts/gpu_code.h"

void gpu_code_unreadable(struct gpu_code_sink *sink, const struct err *err)
{
    if (sink->unreadable++ == 0) {
        sink->first_problem = *err;
    }
}

const char *gpu_code_form_name(enum gpu_code_form form)
{
    switch (form) {
    case GPU_CODE_OBJECT: return "code object";
    case GPU_CODE_BUNDLE: return "bundle";
    case GPU_CODE_COMPRESSED: return "compressed bundle";
    case GPU_CODE_OFFLOAD_BINARY: return "offload binary";
    case GPU_CODE_KPACK: return "kpack";
    case GPU_CODE_CUBIN: return "cubin";
    case GPU_CODE_PTX: return "ptx";
    default: return "unknown";
    }
}
