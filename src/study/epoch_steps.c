// SPDX-License-Identifier: Apache-2.0
#include "study/epoch_steps.h"

#include <math.h>
#include <string.h>

#include "diagnosis/line_text.h"

struct epoch_steps epoch_steps_begin(void)
{
    return (struct epoch_steps){.base = 0, .last = -1, .epoch = NAN, .named = NAN};
}

/* "Epoch 3/10", "epoch: 3", "Epoch [3/10]", "Epoch #3"; NaN without. */
static double epoch_in_text(struct str line)
{
    size_t at = str_find(line, "poch", 0);
    if (at == SIZE_MAX || at == 0) {
        return NAN;
    }
    at += strlen("poch");
    for (int i = 0; i < 4 && at < line.n && strchr(" :=[(#'\"", line.p[at]) != NULL; i++) {
        at++;
    }
    size_t length;
    double v = metric_number(str_slice(line, at, line.n), &length);
    return length != 0 && v >= 0 && v < 1e9 ? v : NAN;
}

static double epoch_of(struct str line, const struct metric_line *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->items[i].name, "epoch") == 0) {
            return m->items[i].value;
        }
    }
    return epoch_in_text(line);
}

void epoch_steps_line(struct epoch_steps *e, struct str line, struct metric_line *line_metrics)
{
    struct metric_line *m = line_metrics;
    double epoch = epoch_of(line, m);
    e->named = isnan(epoch) ? e->named : epoch;
    if (m->step < 0 || m->step > INT64_MAX / 4) {
        return;
    }
    /* An earlier epoch at a later step: several ranks speak, and no step of theirs is the run's. */
    e->mixed = e->mixed || (e->named < e->epoch && m->step > e->last);
    if (e->mixed) {
        return;
    }
    bool next = e->named > e->epoch && e->base < INT64_MAX / 4;
    if (m->step == e->last && next) { /* one line an epoch, at its last step */
        e->base += e->last > 0 ? e->last : 1;
    } else if (m->step < e->last) {
        e->base = next ? e->base + e->last + 1 - m->step : 0;
    }
    e->last = m->step;
    e->epoch = e->named;
    m->step += e->base;
}
