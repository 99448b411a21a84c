// SPDX-License-Identifier: Apache-2.0
/* The knowledge compiled into the program. Linked apart from the rest of the library, because the
 * tool that makes the block is linked from that rest. */
#include <string.h>

#include "knowledge/blob.h"

/* From the assembly file that mkknowledge writes. */
extern const char knowledge_block[];
extern const char knowledge_block_end[];

enum status knowledge_builtin(struct arena *a, const char *language,
                              const struct knowledge **ret_knowledge, struct err *err)
{
    struct str blob = {.p = knowledge_block, .n = (size_t)(knowledge_block_end - knowledge_block)};
    return knowledge_blob_read(a, blob, language, ret_knowledge, err);
}

const struct knowledge *knowledge_with_builtin_scanner(struct arena *a, const struct knowledge *k)
{
    const struct knowledge *builtin;
    if (knowledge_builtin(a, NULL, &builtin, NULL) != ST_OK) {
        return k;
    }
    struct knowledge *both = arena_alloc(a, sizeof *both);
    *both = *k;
    memcpy(both->scanner_db, builtin->scanner_db, sizeof both->scanner_db);
    return both;
}
