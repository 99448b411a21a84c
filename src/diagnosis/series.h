// SPDX-License-Identifier: Apache-2.0
/*
 * Metric series over the logs, one per name and rank, with exact numbers in bounded memory: values
 * beyond SERIES_KEPT are thinned out, the statistics see every one of them.
 */
#ifndef ASSAY_DIAGNOSIS_SERIES_H
#define ASSAY_DIAGNOSIS_SERIES_H

#include "diagnosis/events.h"

enum {
    SERIES_KEPT = 65536,
    SERIES_MAX = 512
};

struct series_set;

struct series_set *series_set_new(struct arena *a) MUST_USE RETURNS_NONNULL;

void series_add(struct series_set *s, const char *name, int rank, double value, uint64_t line);

/* The same for a place where metrics of one name come again and again: it remembers their series. */
struct series_place {
    struct growing *series; /* NULL: not known yet */
    int rank;
};

void series_add_at(struct series_set *s, struct series_place *place, const char *name, int rank,
                   double value, uint64_t line);

/* name -> struct series, the rank that says most. May be called again after more values. */
struct map *series_finish(struct series_set *s, struct arena *a);

#endif
