// SPDX-License-Identifier: Apache-2.0
/* ELF headers, sections, symbols, versions and literals, and the GPU code inside. */
#include <stdlib.h>

#include "facts/cxx_symbols.h"
#include "facts/elf.h"
#include "facts/gpu_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SYMBOLS_WITH_VERSION = 500
};

static bool count_version(void *ctx, struct str library, struct str version, bool weak)
{
    (void)weak;
    *(size_t *)ctx += library.n + version.n;
    return true;
}

static bool ask_symbol(void *ctx, struct str name, bool defined, bool weak)
{
    (void)weak;
    const struct elf *e = ctx;
    /* A symbol that the table lists as defined need not be in a damaged hash table; asking for it
     * must only not crash. */
    (void)(elf_defines_symbol(e, name) && defined);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fs nowhere = {.prefix = "/nonexistent"};
    struct arena *a = arena_new((size_t)256 << 20);
    struct str file = {.p = (const char *)data, .n = size};
    struct elf e;
    struct err err;
    if (elf_open(a, file, "input", &e, &err) == ST_OK) {
        size_t n = 0;
        struct str bytes;
        struct elf_symbol s;
        for (size_t i = 0; i < e.symbol_count && i < SYMBOLS_WITH_VERSION; i++) {
            n += elf_symbol_at(&e, i, &s);
        }
        elf_each_symbol(&e, ask_symbol, &e);
        elf_each_needed_version(&e, count_version, &n);
        (void)elf_needs_version(a, &e, "GLIBC_");
        (void)elf_defines_version(a, &e, "SAMPLE_");
        (void)elf_has_version(&e, STR("SAMPLE_1"));
        (void)elf_has_literal(&e, "SAMPLE_SWITCH");
        (void)cxx_string_abi_of(&e);
        (void)!elf_section(&e, ".rodata", &bytes);
    }
    struct gpu_targets t;
    gpu_targets_of_bytes(&nowhere, a, "/input", file, &t);
    for (size_t i = 0; i + 1 < t.count; i++) {
        if (t.items[i].name == t.items[i + 1].name) {
            abort(); /* each name once */
        }
    }
    arena_free(a);
    return 0;
}
