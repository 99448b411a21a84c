// SPDX-License-Identifier: Apache-2.0
/*
 * Facts as JSON. Written form (docs/schema): {"schema_version": 1, "facts": {KEY: {"state", "value",
 * "source", "reason"}}}. Read are this form and the flat one {KEY: value}, in which null means
 * "looked for and absent".
 */
#ifndef ASSAY_FACTS_FACTS_JSON_H
#define ASSAY_FACTS_FACTS_JSON_H

#include "base/str.h"

#include "facts/facts.h"

/* Something a caller knows of a key. Its type: "string", "version", "int", "bool", "list", or NULL
 * for any; its unit: "bytes", "MHz", or NULL or "" for none. */
typedef const char *(*facts_type_of)(void *ctx, const char *key);
typedef const char *(*facts_unit_of)(void *ctx, const char *key);

/* unit_of may be NULL: no units are written. */
void facts_write_json(const struct facts *f, struct arena *scratch, facts_unit_of unit_of,
                      void *ctx, struct strbuf *out);

/*
 * Adds the facts of a JSON text. `name` is used in messages and as the source of facts that carry
 * none. type_of may be NULL. Ceilings: 64 MiB, 200,000 facts, lists of 100,000 scalars.
 */
enum status facts_read_json(struct facts *f, struct str text, const char *name,
                            facts_type_of type_of, void *ctx, struct err *err) MUST_USE;

#endif
