// SPDX-License-Identifier: Apache-2.0
/* torch files of every form: what is listed as present must lie inside of the input. */
#include <stdlib.h>

#include "model/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)1 << 30);
    struct issues issues;
    issues_init(&issues, a, "fuzz");
    struct torch_file f;
    struct err err;
    struct str bytes = {.p = (const char *)data, .n = size};
    if (torch_looks_like(bytes) && torch_read(a, bytes, &issues, &f, &err) == ST_OK) {
        for (size_t i = 0; i < f.count; i++) {
            const struct tensor *t = &f.tensors[i];
            if (t->present && (t->offset > size || t->bytes > size - t->offset)) {
                abort();
            }
            if (torch_find(&f, t->name) == NULL) {
                abort();
            }
        }
        double number;
        (void)torch_number(&f, f.pickle.root, &number);
        struct file_map map = file_map_of_bytes("fuzz", f.bytes);
        for (size_t i = 0; i < torch_sum_count(&f); i++) {
            (void)!torch_check_sum(&f, &map, 0, i, &err);
        }
    }
    arena_free(a);
    return 0;
}
