// SPDX-License-Identifier: Apache-2.0
/*
 * What the stages of qualify share. The stages run in the order of the table in cmd_qualify.c; a stage is a
 * function of a file qualify_<what>.c. What another command can do is asked of that command: as a child
 * process with a deadline, whose record (--json) is read back, so that a crash in it is a result.
 */
#ifndef ASSAY_CLI_QUALIFY_QUALIFY_H
#define ASSAY_CLI_QUALIFY_QUALIFY_H

#include "cli/command.h"
#include "cli/fleet/launcher.h"
#include "cli/qualify/stage_training.h"
#include "diagnosis/judge.h"
#include "facts/facts.h"
#include "knowledge/knowledge.h"
#include "report/report.h"

enum stage_state {
    STAGE_RAN = 0,
    STAGE_NOT_RUN,   /* it was asked for and could not be tried: never a pass */
    STAGE_NOT_ASKED, /* the user left it out */
};

struct stage_result {
    enum stage_state state;
    const char *reason;           /* of NOT_RUN and NOT_ASKED */
    const char *needs;            /* what it would take to run it; NULL */
    const char *measured;         /* what the stage says of itself beside its findings; NULL */
    struct finding_list findings; /* of a stage that ran */
    struct health health;
};

/* A number that can be compared with that of an earlier qualification. */
struct qualify_figure {
    const char *name, *unit;
    double value; /* more is better */
};

/* Limits of a figure from a plan; NAN: none. */
struct qualify_limit {
    const char *name;
    double least, most;
};

/* A switch of the environment, or an expectation, and what became of it. */
struct qualify_switch {
    const char *name, *value, *result, *evidence;
};

/* Who served how many calls of which run. */
struct qualify_path {
    const char *run, *library, *function, *build_id, *path;
    int64_t calls;
};

struct qualify {
    struct cli *cli;
    const struct knowledge *k;
    struct facts *facts;
    bool full;           /* --level full */
    bool other_machine;  /* --root */
    const char *device;  /* "cpu" or "cuda" (HIP as well): what is qualified */
    bool device_named;   /* by the user */
    const char *backend; /* "cuda", "hip": of the first GPU that stage device saw; NULL: none */
    const char *python;  /* interpreter with the user's PyTorch; NULL: none was named */
    const char *model;   /* folder that training starts from; NULL: none is known */
    const char *folder;  /* results and run folders; absolute */
    bool keep;           /* the folder stays */
    struct training_result training;
    bool fleet;                        /* --fleet */
    struct launcher launcher;          /* with fleet */
    struct qualify_meeting *meeting;   /* of the ranks; NULL before stage fleet */
    const struct stage_result *stages; /* those before `stages_done` are complete */
    size_t stages_done;
    bool command_ran;
    double command_began; /* CLOCK_REALTIME, seconds */
    VEC_OF(struct qualify_figure) figures;
    VEC_OF(struct qualify_limit) limits;
    VEC_OF(struct qualify_switch) switches;
    VEC_OF(struct qualify_path) paths;
    struct text_list runs;         /* run folders that were kept */
    struct stage_result *evidence; /* result of that stage, which the command may complete */
    struct text_list notes;
};

/* ---- stages ---- */

void qualify_host(struct qualify *q, struct stage_result *s);
void qualify_stack(struct qualify *q, struct stage_result *s);
void qualify_device(struct qualify *q, struct stage_result *s);
void qualify_operators(struct qualify *q, struct stage_result *s);
void qualify_torch(struct qualify *q, struct stage_result *s);
void qualify_evidence(struct qualify *q, struct stage_result *s);
void qualify_linear_attention(struct qualify *q, struct stage_result *s);
void qualify_tokenizer(struct qualify *q, struct stage_result *s);
void qualify_training(struct qualify *q, struct stage_result *s);
void qualify_command(struct qualify *q, struct stage_result *s);
void qualify_checkpoint(struct qualify *q, struct stage_result *s);
void qualify_resume(struct qualify *q, struct stage_result *s);

/* ---- the ranks of one job (qualify_fleet.c) ---- */

void qualify_collectives(struct qualify *q, struct stage_result *s);
void qualify_fleet(struct qualify *q, struct stage_result *s);

/* Reads what the launcher says, where --fleet is given. */
enum status qualify_fleet_start(struct qualify *q, struct err *err) MUST_USE;

/* Another rank of this machine does what concerns the machine. */
bool qualify_fleet_follows(const struct qualify *q);

/* A rank other than 0 waits for the verdict: its exit status. */
int qualify_fleet_wait(struct qualify *q);

/* Rank 0, after it told the verdict. */
void qualify_fleet_release(struct qualify *q, int status);

/* ---- the model that training starts from (qualify_model.c) ---- */

/* --model, else the first folder of the command that holds a config.json and a tokenizer; NULL: none. */
const char *qualify_find_model(struct cli *cli);

/* Adds what is wrong with its weights; false when no model is known. */
bool qualify_model_weights(struct qualify *q, struct stage_result *s);

/* ---- helpers (qualify_child.c) ---- */

/* Runs "assay WORDS... --json" and reads its record. *ret_exit is its exit status, -1 when it was stopped at the
 * limit. ST_UNSUPPORTED: it left no record, and err has its last words. */
enum status qualify_child(struct qualify *q, const char *what, const struct text_list *words,
                          double limit_s, struct report *ret_report, int *ret_exit,
                          struct err *err) MUST_USE;

/* The stage was asked for and could not be tried. */
void qualify_not_run(struct stage_result *s, const char *reason, const char *needs);

/* --only, or the stages of a plan, name it: then it is asked for whatever it needs. */
bool qualify_names_stage(const struct qualify *q, const char *stage);

/* No PyTorch was named. On a machine that is judged by its CPU, `stage` is then not asked for, unless
 * --only names it; where there is a GPU, it is: nobody trains there without a framework. */
void qualify_no_python(struct qualify *q, const char *stage, struct stage_result *s);

/* Adds the findings of a record that speak of something; those that are OK say nothing. */
void qualify_take(struct qualify *q, const struct report *r, struct finding_list *to);

/* Points for a stage that is sound or not: lost when the findings hold a fault. */
void qualify_judge(struct qualify *q, const char *id, int weight, struct stage_result *s);

const struct report_table *qualify_table(const struct report *r, const char *key);
/* The cell of a row, or one that is null. */
struct value qualify_cell(const struct report_table *t, size_t row, const char *column);
/* The same as a text; "" where it is none. */
const char *qualify_text(const struct report_table *t, size_t row, const char *column);

/* ---- the path that ran (qualify_evidence.c) ---- */

/* Adds who served the run in `folder`, whose record is `r`; what libraries said of themselves in its stdout
 * counts, too. Returns the number of calls. */
int64_t qualify_add_paths(struct qualify *q, const char *name, const char *folder,
                          const struct report *r);

/* Words for "assay run": --expect for what switches of the environment and the user expect. */
void qualify_add_expectations(struct qualify *q, struct text_list *words);

/* What became of the switches that are set and of expectations, by the run in `folder`. */
void qualify_judge_switches(struct qualify *q, const char *name, const char *folder,
                            const struct report *r, struct finding_list *findings);

/* ---- an earlier qualification, and what is kept ---- */

/* Compares with the files of --baseline: findings where it got worse. *ret_table gets the changes. */
enum status qualify_baseline(struct qualify *q, const struct report *now,
                             struct finding_list *findings, struct report_table *ret_table,
                             struct err *err) MUST_USE;

/* Adds what the file of --plan says to the options, the operands and the limits. ST_FORMAT names line and key. */
enum status qualify_plan(struct qualify *q, struct err *err) MUST_USE;
/* A figure beyond its limit costs points too: score and verdict agree. */
void qualify_judge_limits(struct qualify *q, struct finding_list *findings, struct health *health);

/* Names of stages as --only and --skip (`option`) take them. */
enum status qualify_check_stages(const char *option, const char *list, struct err *err) MUST_USE;

/* Compares figures with what the file of --history knows of this machine, and adds them to it. */
enum status qualify_history(struct qualify *q, struct finding_list *findings,
                            struct report_table *ret_table, struct err *err) MUST_USE;
/* Before anything is run: can that file be used? */
enum status qualify_history_check(struct qualify *q, struct err *err) MUST_USE;

/* The folder of --save, or a temporary one. */
enum status qualify_open_folder(struct qualify *q, struct err *err) MUST_USE;
void qualify_close_folder(struct qualify *q);

/* qualification.json and report.html. */
enum status qualify_save(struct qualify *q, const struct report *r, int status,
                         struct err *err) MUST_USE;

#endif
