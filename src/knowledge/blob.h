// SPDX-License-Identifier: Apache-2.0
/*
 * Knowledge as one block of bytes, made at build time (tools/mkknowledge.c) and read at start
 * without parsing. Texts are offsets into a pool of NUL-terminated strings; conditions are stored
 * as their compiled node arrays. The block is our own, yet every offset and count is checked.
 */
#ifndef ASSAY_KNOWLEDGE_BLOB_H
#define ASSAY_KNOWLEDGE_BLOB_H

#include "knowledge/knowledge.h"

/* The block of a knowledge that was read without problems. */
struct str knowledge_blob_write(struct arena *a, const struct knowledge *k) MUST_USE;

/* Reads it back; texts stay in `blob`, which must outlive the result. */
enum status knowledge_blob_read(struct arena *a, struct str blob, const char *language,
                                const struct knowledge **ret_knowledge, struct err *err) MUST_USE;

#endif
