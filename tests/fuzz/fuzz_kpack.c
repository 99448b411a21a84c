// SPDX-License-Identifier: Apache-2.0
/* kpack archives and the MessagePack under them. */
#include <stdlib.h>

#include "facts/kpack.h"
#include "facts/msgpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *ctx, struct str target, enum gpu_code_form form, uint64_t bytes)
{
    (void)form;
    *(uint64_t *)ctx += target.n + bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)64 << 20);
    struct str bytes = {.p = (const char *)data, .n = size};
    uint64_t sum = 0;
    struct gpu_code_sink sink = {.found = ignore, .ctx = &sum, .scratch = a};
    kpack_read_archive(bytes, NULL, &sink);
    kpack_read_archive(bytes, "lib/librand.so", &sink);
    struct msgpack m = {.data = bytes};
    while (msgpack_skip(&m)) {
        if (m.at > size) {
            abort();
        }
    }
    m = (struct msgpack){.data = bytes};
    struct msgpack value;
    (void)msgpack_find(&m, "toc", &value);
    struct msgpack_item item;
    while (msgpack_next(&m, &item)) {
        sum += item.count + item.bytes.n;
    }
    arena_free(a);
    return 0;
}
