// SPDX-License-Identifier: Apache-2.0
/* Offload bundles plain and compressed, offload binaries, NVIDIA fat binaries. */
#include "facts/amdgpu_target.h"
#include "facts/ccob.h"
#include "facts/gpu_targets.h"
#include "facts/nv_fatbin.h"
#include "facts/offload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *ctx, struct str target, enum gpu_code_form form, uint64_t bytes)
{
    (void)form;
    *(uint64_t *)ctx += target.n + bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    struct str bytes = {.p = (const char *)data, .n = size};
    uint64_t sum = 0;
    struct gpu_code_sink sink = {.found = ignore, .ctx = &sum, .scratch = a};
    offload_read_bundles(bytes, &sink);
    offload_read_binaries(bytes, &sink);
    nv_fatbin_read(bytes, &sink);
    struct ccob c;
    struct str plain;
    struct err err;
    if (ccob_parse(bytes, &c, &err) == ST_OK) {
        (void)!ccob_inflate(a, bytes, &c, 1 << 20, &plain, &err);
    }
    size_t from = 0;
    while (amdgpu_target_in_name(a, bytes, &from) != NULL) {
        sum++;
    }
    arena_free(a);
    return 0;
}
