// SPDX-License-Identifier: Apache-2.0
/* Stages over the training that is compiled in: its course, its checkpoint, its resumption. */
#include "base/vec.h"

#include "cli/qualify/qualify.h"

enum {
    TRAINING_WEIGHT = 40,
    RESUME_WEIGHT = 20
};

static void take(struct qualify *q, const struct finding_list *from, struct stage_result *s)
{
    for (size_t i = 0; i < from->count; i++) {
        *VEC_PUSH(q->cli->arena, &s->findings) = from->items[i];
    }
}

void qualify_training(struct qualify *q, struct stage_result *s)
{
    struct training_result *t = &q->training;
    if (q->other_machine) {
        qualify_not_run(s, "only this machine can train, and --root names another",
                        "run assay qualify on that machine");
        return;
    }
    stage_training(q->cli, t);
    if (t->why != NULL) {
        *VEC_PUSH(q->cli->arena,
                  &s->findings) = (struct finding){.id = "training-not-tried",
                                                   .severity = SEVERITY_UNKNOWN,
                                                   .title = "The short training could not be tried",
                                                   .claim = t->why};
        qualify_judge(q, "training", TRAINING_WEIGHT, s);
        return;
    }
    take(q, &t->course, s);
    s->measured = arena_fmt(q->cli->arena, "on the CPU, %s", t->summary);
    *VEC_PUSH(q->cli->arena, &q->figures) = (struct qualify_figure){
        .name = "training", .unit = "tokens/s", .value = t->tokens_per_second};
    qualify_judge(q, "training", TRAINING_WEIGHT, s);
}

void qualify_resume(struct qualify *q, struct stage_result *s)
{
    if (!q->training.resumed) {
        qualify_not_run(s, "the short training left no checkpoint to resume from",
                        "the stage training must have run to its end here");
        return;
    }
    take(q, &q->training.resumption, s);
    s->measured = "from update 50 on, the same losses and weights as without a stop";
    qualify_judge(q, "resume", RESUME_WEIGHT, s);
}
