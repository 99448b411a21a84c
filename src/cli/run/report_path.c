// SPDX-License-Identifier: Apache-2.0
/* See report_path.h. */
#include "cli/run/report_path.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/run/logs.h"
#include "cli/run/path_kernels.h"
#include "cli/run/story.h"
#include "cli/session.h"
#include "recorder/kernel_name.h"

enum {
    KERNELS_SHOWN = 40,
    NAME_SHOWN = 100, /* bytes of a kernel's name in a table */
    PRODUCTS_SHOWN = 200,
    EVIDENCE_SHOWN = 4
};

struct path {
    struct cli *cli;
    struct kernel_paths table;
    struct run_story story;
    struct path_kernels kernels;
    struct library_log log;
    size_t cut;
    struct finding_list answers;
    struct text_list notes;
};

/* --- answers ----------------------------------------------------------------------------------- */

static struct finding *answer(struct path *p, const char *id, enum severity severity,
                              const char *title, const char *claim)
{
    struct finding *f = VEC_PUSH(p->cli->arena, &p->answers);
    *f = (struct finding){
        .id = id, .severity = severity, .confidence = 1, .title = title, .claim = claim};
    return f;
}

/* The kernels that the answer stands on. */
static void add_kernels(struct path *p, struct finding *f, const char *feature)
{
    for (size_t i = 0; i < p->kernels.count && f->evidence.count < EVIDENCE_SHOWN; i++) {
        const struct path_kernel *k = &p->kernels.items[i];
        if (k->path != NULL && k->launches > 0 && strcmp(k->path->feature, feature) == 0) {
            *VEC_PUSH(p->cli->arena, &f->evidence) = (struct evidence){
                .source = "records",
                .text = arena_fmt(p->cli->arena, "%" PRIu64 " launches of %.*s", k->launches,
                                  NAME_SHOWN, kernel_name(p->cli->arena, k->name))};
        }
    }
}

/* A feature whose kernels are there, or the sentence of their absence, or that neither can be told. */
static void tell(struct path *p, const char *id, const char *feature, const char *title,
                 const char *absent, const char *absent_claim)
{
    struct arena *a = p->cli->arena;
    const char *ways = path_kernels_ways(a, &p->kernels, feature);
    const char *why = path_kernels_doubt(a, &p->kernels);
    if (ways != NULL) {
        add_kernels(p,
                    answer(p, id, SEVERITY_OK, arena_fmt(a, "%s: %s", title, ways),
                           "Kernels of that name were launched."),
                    feature);
    } else if (why != NULL) {
        answer(p, id, SEVERITY_UNKNOWN, arena_fmt(a, "%s: cannot be told", title), why);
    } else {
        answer(p, id, SEVERITY_OK, arena_fmt(a, "%s: %s", title, absent), absent_claim);
    }
}

/* Whether a short convolution went another way than its own kernel. */
static void tell_short_convolution(struct path *p)
{
    struct path_kernels *k = &p->kernels;
    uint64_t back = path_kernels_launches(k, "short convolution", "fall-back");
    uint64_t all = path_kernels_launches(k, "short convolution", "");
    tell(p, "path-short-convolution", "short convolution", "short convolution",
         "no kernel of one was launched",
         "Neither causal-conv1d's nor Triton's, nor a depthwise convolution of PyTorch.");
    struct finding *f = &p->answers.items[p->answers.count - 1];
    if (back > 0 && back == all) {
        f->severity = SEVERITY_NOTE;
        f->claim =
            "Only convolutions in groups of PyTorch or cuDNN were launched: a model with short "
            "convolutions fell back to them (causal-conv1d is missing, or was not bound to the "
            "model's modules); in a model without, they are another layer.";
    } else if (back > 0) {
        f->claim =
            "Some of them took the fall-back: another layer, or a shape that the short kernel "
            "does not take.";
    }
}

static bool log_has_3d(const struct path *p, const char **ret_text)
{
    for (size_t i = 0; i < p->log.products.count; i++) {
        const struct library_log_product *q = &p->log.products.items[i];
        if (strcmp(q->library, "miopen") == 0 && str_starts(str_of(q->text), "3D ")) {
            *ret_text = q->text;
            return true;
        }
    }
    return false;
}

/* Whether a convolution in 3D, such as the patch embedding of a vision tower, is really gone. */
static void tell_3d(struct path *p)
{
    struct arena *a = p->cli->arena;
    const char *logged = NULL;
    uint64_t launches = path_kernels_launches(&p->kernels, "convolution in 3D", "");
    const char *others = path_kernels_ways(a, &p->kernels, "convolution");
    if (launches == 0 && p->kernels.convolutions_3d > 0) {
        struct finding *f = answer(
            p, "path-conv3d", SEVERITY_OK, "convolution in 3D: a library was given some",
            arena_fmt(a, "The record holds %" PRIu64 " calls of convolutions of three dimensions.",
                      p->kernels.convolutions_3d));
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "record",
                                                       .text = p->kernels.convolution_3d};
        return;
    }
    if (launches == 0 && log_has_3d(p, &logged)) {
        struct finding *f = answer(p, "path-conv3d", SEVERITY_OK,
                                   "convolution in 3D: MIOpen was given some",
                                   "MIOpen's own log lists convolutions of three dimensions.");
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "library log", .text = logged};
        return;
    }
    if (launches == 0 && others != NULL && path_kernels_doubt(a, &p->kernels) == NULL) {
        struct finding *f = answer(p, "path-conv3d", SEVERITY_UNKNOWN,
                                   "convolution in 3D: cannot be told",
                                   arena_fmt(a,
                                             "No kernel has it in its name, and kernels of "
                                             "convolutions were launched whose name does not tell "
                                             "their dimensions (%s).",
                                             others));
        add_kernels(p, f, "convolution");
        *VEC_PUSH(a, &f->remedy) =
            "assay run --library-logs miopen,cudnn -- COMMAND: MIOpen's log tells the dimensions";
        return;
    }
    tell(p, "path-conv3d", "convolution in 3D", "convolution in 3D", "none was launched",
         "No kernel of a convolution in three dimensions was launched, and none of a convolution "
         "that might be one.");
    if (path_kernels_launches(&p->kernels, "convolution in 3D", "MIOpen, naive") > 0) {
        struct finding *f = &p->answers.items[p->answers.count - 1];
        f->severity = SEVERITY_NOTE;
        f->claim =
            "MIOpen found no tuned kernel and took its naive one, which is slower by orders of "
            "magnitude: a patch embedding is the same as a product of matrices (nn.Linear).";
    }
}

static void answer_all(struct path *p)
{
    tell(p, "path-attention", "attention", "attention", "no fused kernel was launched",
         path_kernels_launches(&p->kernels, "softmax", "") > 0
             ? "Kernels of a softmax were launched: attention without a fused kernel (eager), or a "
               "loss."
             : "No kernel of a softmax was launched either: no attention ran on the GPU.");
    tell(p, "path-linear-attention", "linear attention", "linear attention",
         "no kernel of FLA or Mamba was launched",
         "A model that has linear attention ran it in plain operators of the framework.");
    tell_short_convolution(p);
    tell_3d(p);
}

/* --- tables ------------------------------------------------------------------------------------ */

static struct report_table kernels_table(struct path *p)
{
    static const struct report_column columns[] = {{"launches", "launches", 0},
                                                   {"feature", "part", 0},
                                                   {"path", "way", 0},
                                                   {"kernel", NULL, 0},
                                                   {"shown", "kernel", 0}};
    struct arena *a = p->cli->arena;
    struct value *cells = arena_array(a, p->kernels.count * ARRAY_LEN(columns) + 1, sizeof *cells);
    size_t rows = 0;
    for (size_t i = 0; i < p->kernels.count && rows < KERNELS_SHOWN; i++) {
        const struct path_kernel *k = &p->kernels.items[i];
        if (k->launches == 0) {
            continue; /* looked up only */
        }
        struct value *row = &cells[rows++ * ARRAY_LEN(columns)];
        row[0] = value_int((int64_t)k->launches);
        if (k->path != NULL) {
            row[1] = value_string(k->path->feature);
            row[2] = value_string(k->path->path);
        }
        row[3] = value_string(k->name);
        const char *name = kernel_name(a, k->name);
        row[4] = value_string(strlen(name) > NAME_SHOWN ? arena_fmt(a, "%.*s…", NAME_SHOWN, name)
                                                        : name);
    }
    return (struct report_table){.key = "kernels",
                                 .heading = "kernels that were launched:",
                                 .columns = columns,
                                 .column_count = ARRAY_LEN(columns),
                                 .cells = cells,
                                 .row_count = rows};
}

static int by_calls(const void *px, const void *py)
{
    const struct library_log_product *x = *(const struct library_log_product *const *)px;
    const struct library_log_product *y = *(const struct library_log_product *const *)py;
    if (x->calls != y->calls) {
        return x->calls < y->calls ? 1 : -1;
    }
    int order = strcmp(x->library, y->library);
    return order != 0 ? order : strcmp(x->text, y->text);
}

static struct report_table products_table(struct path *p)
{
    static const struct report_column columns[] = {
        {"library", "library", 0},   {"function", "function", 0}, {"product", "product", 0},
        {"solution", "solution", 0}, {"chosen", "chosen", 0},     {"calls", "calls", 0},
        {"bench", NULL, 0},
    };
    struct arena *a = p->cli->arena;
    size_t count = p->log.products.count;
    const struct library_log_product **sorted = arena_array(a, count + 1, sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &p->log.products.items[i];
    }
    if (count > 1) {
        qsort(sorted, count, sizeof *sorted, by_calls);
    }
    size_t shown = count < PRODUCTS_SHOWN ? count : PRODUCTS_SHOWN;
    struct value *cells = arena_array(a, shown * ARRAY_LEN(columns) + 1, sizeof *cells);
    for (size_t i = 0; i < shown; i++) {
        const struct library_log_product *q = sorted[i];
        struct value *row = &cells[i * ARRAY_LEN(columns)];
        const char *chosen = q->kernel != NULL ? q->kernel : q->algorithm;
        row[0] = value_string(q->library);
        row[1] = value_string(q->function);
        row[2] = value_string(q->text);
        if (q->solution >= 0) {
            row[3] = value_int(q->solution);
        }
        if (chosen != NULL) {
            row[4] = value_string(chosen);
        }
        row[5] = value_int((int64_t)q->calls);
        if (q->bench != NULL) {
            row[6] = value_string(q->bench);
        }
    }
    return (struct report_table){.key = "logged",
                                 .heading = "products by the libraries' own logs:",
                                 .columns = columns,
                                 .column_count = ARRAY_LEN(columns),
                                 .cells = cells,
                                 .row_count = shown};
}

static void add_notes(struct path *p)
{
    struct arena *a = p->cli->arena;
    for (size_t i = 0; i < p->story.notes.count; i++) {
        *VEC_PUSH(a, &p->notes) = p->story.notes.items[i];
    }
    if (p->cut > 0) {
        *VEC_PUSH(a, &p->notes) = arena_fmt(
            a, "%zu logs of libraries were longer than what is kept: their middle is not counted",
            p->cut);
    }
    if (p->log.dropped > 0) {
        *VEC_PUSH(a, &p->notes) = arena_fmt(
            a, "%" PRIu64 " calls of further products in the logs of libraries are not listed",
            p->log.dropped);
    }
    if (p->log.products.count == 0) {
        *VEC_PUSH(a,
                  &p->notes) = "no log of a library is in the run folder: run --library-logs all "
                               "keeps them, with solutions and lines for the vendors' benches";
    }
}

/* --- the whole --------------------------------------------------------------------------------- */

enum status report_path_make(struct cli *cli, const char *folder, struct report *ret_report,
                             int *ret_status, struct err *err)
{
    struct arena *a = cli->arena;
    struct path *p = arena_alloc(a, sizeof *p);
    char full[PATH_MAX];
    p->cli = cli;
    if (realpath(folder, full) == NULL) {
        return err_set(err, ST_ABSENT, "there is no run folder %s", folder);
    }
    const struct fs fs = {.prefix = ""};
    if (!fs_exists(&fs, a, arena_fmt(a, "%s/run.json", full))) {
        return err_set(err, ST_ABSENT, "%s is no run folder: 'assay run' makes one", folder);
    }
    TRY(path_kernels_table(cli, &p->table, err));
    TRY(run_story_load(a, full, &p->story, err));
    TRY(path_kernels_read(a, full, &p->table, &p->kernels, &p->notes, err));
    TRY(run_logs_read(a, full, &p->log, &p->cut, err));
    answer_all(p);
    p->notes.count = 0; /* the story has the same of records that cannot be read */
    add_notes(p);
    struct report r = {.command = "report", .schema_version = 1, .notes = p->notes};
    r.lists[r.list_count++] = (struct report_list){.key = "answers", .findings = &p->answers};
    const struct report_table tables[] = {kernels_table(p), products_table(p), p->story.libraries};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        if (tables[i].row_count > 0) {
            r.tables[r.table_count++] = tables[i];
        }
    }
    r.numbers[r.number_count++] = (struct report_number){"calls", (int64_t)p->story.calls};
    r.numbers[r.number_count++] = (struct report_number){"launches", (int64_t)p->kernels.launches};
    bool nothing = p->story.calls == 0 && p->log.products.count == 0;
    *ret_status = session_exit(&p->answers);
    r.outcome = *ret_status == EXIT_FINE ? SEVERITY_OK : SEVERITY_UNKNOWN;
    r.verdict = nothing
                    ? "path: no call of a hooked library and no log of one is on record"
                    : arena_fmt(a,
                                "path: %" PRIu64 " calls and %" PRIu64 " launches on record, %zu "
                                "products in logs of libraries",
                                p->story.calls, p->kernels.launches, p->log.products.count);
    *ret_report = r;
    return ST_OK;
}
