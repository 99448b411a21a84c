// SPDX-License-Identifier: Apache-2.0
/* What maths libraries log of themselves. */
#include <stdint.h>

#include "recorder/fault_join.h"
#include "recorder/library_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    struct library_log log;
    uint64_t calls = 0;
    library_log_start(a, &log);
    library_log_read(&log, (struct str){.p = (const char *)data, .n = size});
    for (size_t i = 0; i < log.products.count; i++) {
        const struct library_log_product *p = &log.products.items[i];
        calls += p->calls;
        if (p->is_gemm && (p->gemm.m < 0 || p->gemm.n < 0 || p->gemm.k < 0 || p->gemm.batch == 0)) {
            __builtin_trap(); /* sizes that nobody told are no product */
        }
        fault_operand_bytes(&p->gemm, 'A');
    }
    if (calls < log.products.count) {
        __builtin_trap();
    }
    arena_free(a);
    return 0;
}
