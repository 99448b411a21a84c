// SPDX-License-Identifier: Apache-2.0
/* Metadata of distributed checkpoints: what it lists must have places and as many dimensions. */
#include "model/dcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct issues issues;
    issues_init(&issues, a, "fuzz");
    struct dcp_metadata m;
    struct err err;
    struct str bytes = {.p = (const char *)data, .n = size};
    if (dcp_read(a, bytes, &issues, &m, &err) == ST_OK) {
        volatile uint64_t sum = 0;
        for (size_t i = 0; i < m.tensor_count; i++) {
            for (size_t k = 0; k < m.tensors[i].chunk_count; k++) {
                for (uint32_t d = 0; d < m.tensors[i].rank; d++) {
                    sum += m.tensors[i].chunks[k].sizes[d] + m.tensors[i].chunks[k].offsets[d];
                }
            }
        }
        for (size_t i = 0; i < m.item_count; i++) {
            sum += m.items[i].path.n + m.items[i].name.n;
        }
    }
    arena_free(a);
    return 0;
}
