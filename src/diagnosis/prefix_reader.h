// SPDX-License-Identifier: Apache-2.0
/*
 * What the readers of prefixes share; for prefix.c and prefix_names.c alone. A reader advances the view
 * and returns true, or leaves everything as it was.
 */
#ifndef ASSAY_DIAGNOSIS_PREFIX_READER_H
#define ASSAY_DIAGNOSIS_PREFIX_READER_H

#include "diagnosis/prefix.h"

enum {
    MAX_TAG = 160
};

struct reader {
    struct str s; /* not read yet */
    int year;
    bool dated; /* what the digits are decided whether there is a prefix */
    struct prefix *out;
};

static inline int digits(struct str s, size_t at, size_t width, int *ret_value)
{
    int v = 0;
    size_t n = 0;
    while (n < width && at + n < s.n && s.p[at + n] >= '0' && s.p[at + n] <= '9') {
        v = v * 10 + (s.p[at + n] - '0');
        n++;
    }
    *ret_value = v;
    return (int)n;
}

static inline char char_at(struct str s, size_t at)
{
    return at < s.n ? s.p[at] : '\0';
}

static inline void advance(struct reader *r, size_t n)
{
    r->s = str_slice(r->s, n, r->s.n);
}

/* One space goes with the prefix; more is the line's own indentation. */
static inline void advance_space(struct reader *r, size_t n)
{
    advance(r, n + (char_at(r->s, n) == ' '));
}

/* Whether the text belongs to a traceback or carries a prefix of its own. */
bool prefix_is_traceback(struct str s);

/* "(RayTrainWorker pid=123, ip=10.0.0.1) ", "(Process) " */
bool prefix_read_worker(struct reader *r);

/* "> " of a quotation in a mail or an issue. */
bool prefix_read_quote(struct reader *r);

/* "trainer-1  | " of docker compose: a service with its number, or a name given to the container. */
bool prefix_read_service(struct reader *r);

/* "worker-0: " and "10.0.0.4: " of pdsh, which starts the ranks of DeepSpeed on several hosts. */
bool prefix_read_host(struct reader *r);

/* "kernel: NVRM: …" as it is pasted without the time before it. */
bool prefix_read_kernel_tag(struct reader *r);

#endif
