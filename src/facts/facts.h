// SPDX-License-Identifier: Apache-2.0
/*
 * The fact store: what was read on a machine, each with its state and where it came from. Keys are
 * those of knowledge/fact_keys.tsv ("gpu[0].gfx", "env.HSA_XNACK", "lib.rocblas.covers_gpu").
 *
 * A fact nobody looked at is not in the store; that is a different answer from ABSENT.
 */
#ifndef ASSAY_FACTS_FACTS_H
#define ASSAY_FACTS_FACTS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/value.h"

enum fact_state {
    FACT_KNOWN = 0,
    FACT_ABSENT,         /* looked for, not there */
    FACT_DENIED,         /* there, this user may not read it */
    FACT_UNREADABLE,     /* there, reading failed or the content made no sense */
    FACT_NOT_APPLICABLE, /* has no meaning on this machine */
    FACT_STATE_COUNT
};

struct fact {
    const char *key;
    enum fact_state state;
    struct value value; /* VALUE_NULL unless KNOWN */
    const char *source; /* path, system call or file that was read; never NULL */
    const char *reason; /* for states other than KNOWN: one sentence or NULL */
};

struct facts;

struct facts *facts_new(struct arena *arena) MUST_USE;
struct arena *facts_arena(const struct facts *f);

/* Setters copy key, source and value. A later set replaces an earlier one. */
void facts_set(struct facts *f, const char *key, struct value value, const char *source);
void facts_set_state(struct facts *f, const char *key, enum fact_state state, const char *source,
                     const char *reason);
/* The state that belongs to a failed read: ST_ABSENT, ST_DENIED or else UNREADABLE. */
void facts_set_error(struct facts *f, const char *key, const char *source, const struct err *err);

void facts_bool(struct facts *f, const char *key, bool b, const char *source);
void facts_int(struct facts *f, const char *key, int64_t i, const char *source);
void facts_string(struct facts *f, const char *key, const char *s, const char *source);
void facts_strings(struct facts *f, const char *key, const char *const *items, size_t count,
                   const char *source);

/* NULL when nobody looked. */
const struct fact *facts_get(const struct facts *f, const char *key);

/* Shorthands for collectors and tests: the value when KNOWN and of that type, else the fallback. */
const char *facts_get_string(const struct facts *f, const char *key, const char *fallback);
int64_t facts_get_int(const struct facts *f, const char *key, int64_t fallback);
bool facts_get_bool(const struct facts *f, const char *key, bool fallback);

/* All facts, sorted by key, numbers inside [] in numeric order. */
const struct fact *const *facts_sorted(const struct facts *f, struct arena *arena,
                                       size_t *ret_count) MUST_USE;

const char *fact_state_name(enum fact_state s);

#endif
