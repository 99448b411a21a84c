// SPDX-License-Identifier: Apache-2.0
/* The derived numbers that conditions may ask for: series(NAME).FIELD and run.FIELD. The fields are
 * listed in docs/knowledge.md, "Derived names". */
#ifndef ASSAY_DIAGNOSIS_SERIES_FIELD_H
#define ASSAY_DIAGNOSIS_SERIES_FIELD_H

#include "base/value.h"

#include "diagnosis/events.h"

/* False when the field has no value: an empty or missing series (only .count is 0 then), an unknown
 * field name. */
bool series_field(struct arena *scratch, const struct series *s, const char *field,
                  struct value *ret_value);

bool run_field(const struct run_summary *r, const char *field, struct value *ret_value);

#endif
