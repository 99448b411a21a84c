// SPDX-License-Identifier: Apache-2.0
/* What a snapshot and a way back read: LZ4 lists of apt, paragraphs of dpkg, lock files, environment files. */
#include <stdint.h>

#include "snapshot/dpkg.h"
#include "snapshot/lz4.h"
#include "snapshot/rollback.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void paragraphs(struct str text)
{
    struct dpkg_paragraph p;
    struct str name;
    while (dpkg_next(&text, &p)) {
        while (dpkg_next_dependency(&p.depends, &name)) {
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct str text = {.p = (const char *)data, .n = size};
    struct str unpacked;
    struct stack s;
    if (lz4_unpack(a, text, "list.lz4", 1 << 20, &unpacked, NULL) == ST_OK) {
        paragraphs(unpacked);
    }
    paragraphs(text);
    if (stack_read(a, text, "stack.lock", &s, NULL) == ST_OK) {
        struct stack none = {.source = "none"};
        struct stack_diff d;
        struct finding_list findings = {0};
        struct fs nowhere = {.prefix = "/nonexistent"};
        struct rollback r;
        struct strbuf out;
        strbuf_init(&out, a, 64 << 20);
        stack_write(&s, &out);
        stack_diff_make(a, &none, &s, &d);
        stack_diff_findings(a, &d, &findings);
        rollback_make(a, &nowhere, &none, &s, &d, true, &r);
        strbuf_clear(&out);
        rollback_script(a, &r, &out);
        strbuf_clear(&out);
        (void)!rollback_env_file(a, &r, text, &out, NULL);
    }
    arena_free(a);
    return 0;
}
