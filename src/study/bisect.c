// SPDX-License-Identifier: Apache-2.0
/* See bisect.h. */
#include "study/bisect.h"

#include <math.h>

#include "study/stats.h"

void bisect_begin(struct arena *a, size_t count, uint64_t repeats, struct bisect *ret_bisect)
{
    *ret_bisect = (struct bisect){
        .positions = arena_array(a, count, sizeof(struct bisect_position)),
        .count = count,
        .repeats = repeats,
        .high = count - 1};
}

static bool settled(const struct bisect *b, size_t i)
{
    bool end = i == 0 || i == b->count - 1; /* there the rate of failures is measured */
    return (!end && b->positions[i].failed > 0) || b->positions[i].trials >= b->repeats;
}

bool bisect_fails(const struct bisect *b, size_t position)
{
    return b->positions[position].failed > 0;
}

enum bisect_state bisect_next(struct bisect *b, size_t *ret_position)
{
    size_t ends[2] = {b->count - 1, 0};
    for (int i = 0; i < 2; i++) {
        if (!settled(b, ends[i])) {
            *ret_position = ends[i];
            return BISECT_GOING;
        }
    }
    if (bisect_fails(b, 0) == bisect_fails(b, b->count - 1)) {
        return BISECT_ENDS_ALIKE;
    }
    while (b->high - b->low > 1) {
        size_t middle = b->low + (b->high - b->low) / 2;
        if (!settled(b, middle)) {
            *ret_position = middle;
            return BISECT_GOING;
        }
        if (bisect_fails(b, middle) == bisect_fails(b, 0)) {
            b->low = middle;
        } else {
            b->high = middle;
        }
    }
    return BISECT_FOUND;
}

void bisect_take(struct bisect *b, size_t position, bool failed)
{
    b->positions[position].trials++;
    b->positions[position].failed += failed;
}

double bisect_risk(const struct bisect *b)
{
    const struct bisect_position *end = &b->positions[b->count - 1];
    double low = 0;
    double high = 1;
    double clean = 0;
    end = end->failed == 0 ? &b->positions[0] : end;
    for (size_t i = 1; i + 1 < b->count; i++) {
        clean += b->positions[i].trials > 0 && b->positions[i].failed == 0;
    }
    if (end->trials > 0) {
        stats_wilson(end->failed, end->trials, 0.95, &low, &high);
    }
    double risk = clean * pow(1 - low, (double)b->repeats);
    return risk < 1 ? risk : 1;
}
