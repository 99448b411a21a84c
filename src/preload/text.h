// SPDX-License-Identifier: Apache-2.0
/* Text into a fixed buffer without stdio: for signal handlers and the first moments of a process. */
#ifndef ASSAY_PRELOAD_TEXT_H
#define ASSAY_PRELOAD_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    char *p;
    size_t size; /* of the buffer, the closing NUL included */
    size_t n;
};

/* What does not fit is cut off. */
static inline void text_add(struct text *t, const char *z)
{
    size_t left = t->size - t->n - 1;
    size_t n = strlen(z);
    n = n < left ? n : left;
    memcpy(t->p + t->n, z, n);
    t->n += n;
    t->p[t->n] = '\0';
}

static inline void text_number(struct text *t, uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    text_add(t, digits + at);
}

#endif
