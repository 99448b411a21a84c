// SPDX-License-Identifier: Apache-2.0
/*
 * A finding: what a check concluded. The one record that every producer makes and every report
 * renders. Texts are final (already in the reader's language, already filled in).
 */
#ifndef ASSAY_BASE_FINDING_H
#define ASSAY_BASE_FINDING_H

#include <stddef.h>

#include "base/vec.h"

enum severity {
    SEVERITY_OK = 0,  /* checked, nothing wrong; listed only where the list is of checks */
    SEVERITY_NOTE,    /* worth knowing */
    SEVERITY_WARNING, /* will cost speed, or will break something that was not asked for yet */
    SEVERITY_ERROR,   /* breaks training on this machine */
    SEVERITY_UNKNOWN, /* could not tell: unreadable, denied, not guarded, skipped */
    SEVERITY_COUNT
};

struct evidence {
    const char *source; /* file, fact key or command it was read from */
    long line;          /* 1-based line in that file; 0 when it has none */
    const char *text;   /* the line, or "key = value" */
};

struct evidence_list {
    struct evidence *items;
    size_t count;
    size_t capacity;
};

struct text_list {
    const char **items;
    size_t count;
    size_t capacity;
};

struct finding {
    const char *id;    /* stable, kebab-case: rule id of doctor, class of diagnose */
    const char *layer; /* for causes: layer of the taxonomy; else NULL */
    enum severity severity;
    const char *title; /* one line */
    const char *claim; /* one paragraph: what and why */
    struct evidence_list evidence;
    struct text_list remedy; /* commands to copy or one sentence each, in order */
    struct text_list links;
    double confidence; /* 0..1 */
};

struct finding_list {
    struct finding *items;
    size_t count;
    size_t capacity;
};

/* "ok", "note", "warning", "error", "unknown". */
const char *severity_name(enum severity s);

#endif
