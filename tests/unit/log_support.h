// SPDX-License-Identifier: Apache-2.0
/* Logs from text in tests, with a handful of patterns made by hand. */
#ifndef ASSAY_TESTS_LOG_SUPPORT_H
#define ASSAY_TESTS_LOG_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnosis/log_read.h"
#include "unit.h"

/* Of a test, made anew for each by setup and teardown. */
static struct arena *arena;

static inline int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static struct pattern log_patterns[] = {
    {.id = "fault",
     .regex = "Memory access fault by GPU node-\\d+",
     .capture = "node-(?<node>\\d+) .*on address (?<address>0x[0-9a-f]+)",
     .logs = LOG_TRAIN,
     .kind = PATTERN_FAULT},
    {.id = "watchdog",
     .regex = "Watchdog caught collective operation timeout",
     .logs = LOG_TRAIN,
     .kind = PATTERN_CONSEQUENCE},
    {.id = "ecc",
     .regex = "[1-9]\\d* uncorrectable hardware errors? detected",
     .logs = LOG_KERNEL,
     .kind = PATTERN_FAULT},
    {.id = "ecc-clear",
     .regex = "\\bno uncorrectable hardware errors? detected",
     .logs = LOG_ANY,
     .kind = PATTERN_CLEAR},
    {.id = "ecc-any",
     .regex = "uncorrectable hardware errors?",
     .logs = LOG_ANY,
     .kind = PATTERN_SYMPTOM},
    {.id = "killed", .regex = "^Killed\\s*$", .logs = LOG_TRAIN, .kind = PATTERN_CONSEQUENCE},
    {.id = "port", .regex = "(?i)address already in use", .logs = LOG_TRAIN, .kind = PATTERN_FAULT},
    {.id = "negated", .regex = "version[^a-z]{1,12}skew", .logs = LOG_TRAIN, .kind = PATTERN_FAULT},
};

static const struct knowledge log_knowledge = {.patterns = log_patterns,
                                               .patterns_count = ARRAY_LEN(log_patterns)};

static inline struct log_reader *log_reader_for_test(struct arena *a)
{
    struct log_reader *r;
    struct err err;
    assert_int_equal(log_reader_new(a, &log_knowledge, NULL, &r, &err), ST_OK);
    return r;
}

static inline void log_add(struct log_reader *r, const char *name, struct str text)
{
    struct err err;
    assert_int_equal(log_reader_add_bytes(r, name, text, 100000, false, &err), ST_OK);
}

/* What one log says. */
static inline const struct log_facts *log_of(struct arena *a, const char *text)
{
    struct log_reader *r = log_reader_for_test(a);
    log_add(r, "train.log", str_of(text));
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    return lf;
}

static inline const struct series *series_of(const struct log_facts *lf, const char *name)
{
    const struct series *s = map_get(lf->series, str_of(name));
    assert_non_null(s);
    return s;
}

static inline void assert_capture(const struct event *e, const char *name, const char *value)
{
    const char *have = event_capture(e, name);
    if (have == NULL || strcmp(have, value) != 0) {
        fail_msg("capture %s is '%s', expected '%s'", name, have != NULL ? have : "(none)", value);
    }
}

static inline const struct event *event_of_id(const struct log_facts *lf, const char *id,
                                              int64_t at)
{
    const struct event *e = log_facts_event(lf, id, at);
    if (e == NULL) {
        fail_msg("no event %s number %d", id, (int)at);
    }
    return e;
}

#endif
