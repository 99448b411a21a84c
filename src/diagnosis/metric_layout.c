// SPDX-License-Identifier: Apache-2.0
/* See metric_layout.h. */
#include "diagnosis/metric_layout.h"

#include <string.h>

struct metric_place {
    const char *name;
    double scale;
    uint16_t at;
    bool step;
};

struct metric_layout {
    bool fixed; /* false: lines of this shape are read anew each time */
    size_t body_at;
    size_t count;
    struct metric_place places[METRICS_MAX];
};

struct metric_layout *metric_layout_new(struct arena *a, const struct metric_line *line,
                                        size_t body_at)
{
    struct metric_layout *out = arena_alloc(a, sizeof *out);
    out->fixed = !line->special && !line->final;
    out->body_at = body_at;
    out->count = line->count;
    for (size_t i = 0; i < line->count; i++) {
        const struct metric *m = &line->items[i];
        out->places[i] = (struct metric_place){.name = arena_strdup(a, m->name),
                                               .scale = m->scale,
                                               .at = m->at,
                                               .step = strcmp(m->name, "step") == 0};
    }
    return out;
}

bool metric_layout_read(const struct metric_layout *layout, struct str body, size_t body_at,
                        struct metric_line *ret_line)
{
    if (!layout->fixed || layout->body_at != body_at) {
        return false;
    }
    struct metric_line *out = ret_line;
    out->count = layout->count;
    out->final = false;
    out->special = false;
    out->step = -1;
    out->total = -1;
    for (size_t i = 0; i < layout->count; i++) {
        const struct metric_place *place = &layout->places[i];
        size_t length;
        double v = metric_number(str_slice(body, place->at, body.n), &length);
        out->items[i] = (struct metric){
            .name = place->name, .value = v * place->scale, .scale = place->scale, .at = place->at};
        if (place->step && v >= 0) {
            out->step = (int64_t)v;
        }
    }
    return true;
}
