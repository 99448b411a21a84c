// SPDX-License-Identifier: Apache-2.0
/* Looking things up in what the logs said. */
#include "diagnosis/events.h"

#include <string.h>

uint64_t log_facts_count(const struct log_facts *lf, const char *id)
{
    const struct event_count *c = lf->counts != NULL ? map_get(lf->counts, str_of(id)) : NULL;
    return c != NULL ? c->count : 0;
}

const struct event *log_facts_event(const struct log_facts *lf, const char *id, int64_t index)
{
    int64_t seen = 0;
    size_t n = lf->events.count;
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &lf->events.items[index < 0 ? n - 1 - i : i];
        if (strcmp(e->pattern->id, id) == 0 && seen++ == (index < 0 ? -1 - index : index)) {
            return e;
        }
    }
    return NULL;
}

const char *event_capture(const struct event *e, const char *name)
{
    for (size_t i = 0; e != NULL && i < e->capture_count; i++) {
        if (strcmp(e->captures[i].name, name) == 0) {
            return e->captures[i].value;
        }
    }
    return NULL;
}
