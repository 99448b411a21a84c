// SPDX-License-Identifier: Apache-2.0
/* Whether the regular expression libraries take an expression, before anybody depends on it. */
#ifndef ASSAY_BASE_REGEX_H
#define ASSAY_BASE_REGEX_H

#include <stdbool.h>

#include "base/err.h"

/* vectorscan's syntax, with the flags the log scanner uses. ret_empty: it matches the empty text. */
enum status regex_check_scanner(const char *regex, bool *ret_empty, struct err *err) MUST_USE;

/* PCRE2's syntax; the message ends with the position. */
enum status regex_check(const char *regex, struct err *err) MUST_USE;

#endif
