// SPDX-License-Identifier: Apache-2.0
/* The knowledge compiled into the program. Linked apart from the rest of the library, because the
 * tool that makes the block is linked from that rest. */
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
