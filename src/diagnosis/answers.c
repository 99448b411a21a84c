// SPDX-License-Identifier: Apache-2.0
/* A question and its answer in two lines become the event that one line would be; see answers.h. */
#include "diagnosis/answers.h"

#include <string.h>

enum {
    LINES_BETWEEN = 12 /* warnings of the runtime stand between question and answer */
};

static const struct pattern *pattern_of(const struct knowledge *k, const char *id)
{
    for (size_t i = 0; i < k->patterns_count; i++) {
        if (strcmp(k->patterns[i].id, id) == 0) {
            return &k->patterns[i];
        }
    }
    return NULL;
}

static void count_one(struct log_facts *lf, const char *id)
{
    struct event_count *c = map_get(lf->counts, str_of(id));
    if (c == NULL) {
        c = arena_alloc(lf->arena, sizeof *c);
        map_put(lf->counts, str_of(id), c);
    }
    c->count++;
}

void answers_join(struct log_facts *lf, const struct knowledge *k)
{
    const struct pattern *said = pattern_of(k, "torch-cuda-unavailable");
    const struct event *asked = NULL;
    for (size_t i = 0; said != NULL && i < lf->events.count; i++) {
        struct event *e = &lf->events.items[i];
        if (strcmp(e->pattern->id, "asked-gpu-available") == 0) {
            asked = e;
        } else if (strcmp(e->pattern->id, "answer-no-gpu") == 0 && asked != NULL) {
            bool near = e->file == asked->file && e->line > asked->line &&
                        e->line - asked->line <= LINES_BETWEEN;
            asked = NULL; /* one answer to a question */
            if (near) {
                e->pattern = said;
                count_one(lf, said->id);
            }
        }
    }
}
