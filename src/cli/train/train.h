// SPDX-License-Identifier: Apache-2.0
/*
 * assay train is a dispatcher over what can be done with a model: each way is a row of the table in
 * cmd_train.c, chosen by an option, with a file of its own. All start from the same job: the options read
 * and checked.
 */
#ifndef ASSAY_CLI_TRAIN_TRAIN_H
#define ASSAY_CLI_TRAIN_TRAIN_H

#include "cli/command.h"
#include "train/config.h"
#include "train/loop.h"
#include "train/plan.h"

enum {
    TRAIN_SETTINGS_MAX = 32
};

struct train_job {
    struct cli *cli;
    struct arena *arena; /* may grow to the machine's memory */
    const char *model_dir;
    struct model_config config;
    struct model_options model;
    struct train_options options; /* steps 0: from `epochs` */
    struct data_options data;
    const struct tokenizer *tokenizer; /* NULL: the folder has none */
    double epochs;
    double eval_share;
    uint64_t eval_every, save_every, keep;
    uint64_t length;
    bool pack;
    size_t longest;     /* tokens of the longest sample; 0 before data were read: `length` */
    const char *output; /* absolute; NULL: nothing is kept */
    struct save_setting settings[TRAIN_SETTINGS_MAX];
    size_t setting_count;
};

struct train_mode {
    const char *name; /* option without dashes; NULL: the way without one */
    int (*run)(struct train_job *job);
};

/* Reads and checks all options. */
enum status train_job_init(struct cli *cli, struct train_job *ret_job, struct err *err) MUST_USE;
void train_job_done(struct train_job *job);

/* The settings that a resumed run must share, from the options. */
void train_job_settings(struct train_job *job);

/* Reads --data and --eval into sets; `ret_eval` stays empty without either. */
enum status train_job_data(struct train_job *job, struct dataset *ret_train,
                           struct dataset *ret_eval, struct err *err) MUST_USE;

/* ST_USAGE becomes 64, ST_FORMAT and the rest 2. */
int train_exit(enum status status);

/* A path of the user's from the root on; NULL stays. */
const char *train_absolute(struct train_job *job, const char *path);

/* Memory that the job will take. */
void train_plan_of(const struct train_job *job, struct plan *ret_plan);

int train_run(struct train_job *job);
int train_plan(struct train_job *job);
int train_convert(struct train_job *job);
int train_shrink(struct train_job *job);
int train_generate(struct train_job *job);
int train_oracle(struct train_job *job);

#endif
