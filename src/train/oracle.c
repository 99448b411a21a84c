// SPDX-License-Identifier: Apache-2.0
#include "train/oracle.h"

#include <math.h>
#include <string.h>

#include "model/tensor_file.h"
#include "train/config.h"
#include "train/data_batch.h"

enum {
    ROWS_MAX = 4096, /* of logits in a dump */
    TOKENS_MAX = 1 << 22
};

/* A dump, and which of its token places are tokens: padding is left out. */
struct dump {
    struct arena *arena; /* own */
    struct tensor_file *file;
    struct map *by_name; /* names as this program has them, to struct tensor */
    size_t places;       /* batch * length as stored */
    size_t *token;       /* [tokens]: place of each token */
    size_t tokens;
};

/* PEFT's wrappers: "base_model.model." in front of activations, ".default" in adapter names. */
static const char *plain_name(struct arena *a, const char *name)
{
    struct str s = str_of(name);
    if (str_starts(s, "act.base_model.model.")) {
        name = arena_fmt(a, "act.%s", name + strlen("act.base_model.model."));
    }
    const char *cut = strstr(name, ".default.weight");
    if (cut != NULL && str_starts(s, "grad.")) {
        name = arena_fmt(a, "%.*s.weight", (int)(cut - name), name);
    }
    return name;
}

static enum status integers(const struct dump *d, const char *name, const struct tensor **ret,
                            struct err *err)
{
    const struct tensor *t = tensor_find(d->file, name);
    if (t != NULL && (!t->present || t->type->values != VALUES_PLAIN || t->elements > TOKENS_MAX ||
                      dtype_info(t->type->dtype)->is_float)) {
        return err_set(err, ST_FORMAT, "%s: '%s' is no table of integers", d->file->map.path, name);
    }
    *ret = t;
    return ST_OK;
}

static enum status find_tokens(struct dump *d, const struct train_batch *batch, struct err *err)
{
    const struct tensor *ids = NULL;
    const struct tensor *mask = NULL;
    TRY(integers(d, "input_ids", &ids, err));
    TRY(integers(d, "attention_mask", &mask, err));
    d->places = ids != NULL ? (size_t)ids->elements : batch != NULL ? batch->tokens : 0;
    if (d->places == 0) {
        return err_set(err, ST_FORMAT, "%s: no input_ids in the dump, and no data was given",
                       d->file->map.path);
    }
    if (mask != NULL && mask->elements != d->places) {
        return err_set(err, ST_FORMAT, "%s: attention_mask and input_ids have different shapes",
                       d->file->map.path);
    }
    double *keep = arena_array(d->arena, d->places, sizeof *keep);
    d->token = arena_array(d->arena, d->places, sizeof *d->token);
    if (mask != NULL) {
        TRY(tensor_values(d->file, mask, 0, d->places, keep, err));
    }
    for (size_t i = 0; i < d->places; i++) {
        if (mask == NULL || keep[i] != 0) {
            d->token[d->tokens++] = i;
        }
    }
    if (d->tokens == 0) {
        return err_set(err, ST_FORMAT, "%s: attention_mask leaves no token", d->file->map.path);
    }
    return ST_OK;
}

/* Close it in any case. */
static enum status dump_open(struct dump *d, const char *path, const struct train_batch *batch,
                             struct err *err)
{
    struct issues issues;
    struct arena *a = arena_new(0);
    *d = (struct dump){.arena = a, .by_name = map_new(a)};
    issues_init(&issues, a, path);
    TRY(tensor_file_open(a, path, &issues, &d->file, err));
    for (size_t i = 0; i < d->file->count; i++) {
        const struct tensor *t = &d->file->tensors[i];
        if (!t->present) {
            return err_set(err, ST_FORMAT,
                           "%s: the bytes of '%s' are not all there: the file was cut off", path,
                           issue_text(a, str_of(t->name)));
        }
        map_put(d->by_name, str_of(plain_name(a, t->name)), (void *)(uintptr_t)t);
    }
    return find_tokens(d, batch, err);
}

static void dump_close(struct dump *d)
{
    tensor_file_close(d->file);
    arena_free(d->arena);
}

/* The precision that the dump's arithmetic had: the coarsest of its activations, else gradients. */
static enum status dump_precision(const struct dump *d, enum precision *ret, struct err *err)
{
    enum precision p = PRECISION_F64;
    for (size_t i = 0; i < d->file->count; i++) {
        const struct tensor *t = &d->file->tensors[i];
        if (!str_starts(str_of(t->name), "act.") && !str_starts(str_of(t->name), "grad.")) {
            continue;
        }
        if (t->type->values != VALUES_PLAIN ||
            (t->type->dtype != DTYPE_BF16 && t->type->dtype != DTYPE_F32 &&
             t->type->dtype != DTYPE_F64)) {
            return err_set(
                err, ST_UNSUPPORTED,
                "%s: '%s' is of type %s; dumps in float64, float32 and bfloat16 are judged",
                d->file->map.path, issue_text(d->arena, str_of(t->name)), t->type->name);
        }
        enum precision its = t->type->dtype == DTYPE_BF16  ? PRECISION_BF16
                             : t->type->dtype == DTYPE_F32 ? PRECISION_F32
                                                           : PRECISION_F64;
        p = its > p ? its : p;
    }
    *ret = p;
    return ST_OK;
}

/* The dump says in its metadata what its parameters are stored as; else as its activations. */
static bool weights_rounded(const struct dump *d, enum precision p)
{
    for (size_t i = 0; i < d->file->meta_count; i++) {
        if (strcmp(d->file->meta[i].key, "weights") == 0) {
            return strstr(d->file->meta[i].value, "bfloat16") != NULL;
        }
    }
    return p == PRECISION_BF16;
}

/* Values of a dump's tensor in the shape of ours: rows of padding are left out. NULL with a reason in
 * *ret_why when the shapes do not go together. */
static enum status dump_values(const struct dump *d, const struct tensor *t,
                               const struct captured *c, const double **ret, const char **ret_why,
                               struct err *err)
{
    size_t tokens = d->tokens != 0 ? d->tokens : 1; /* never 0: find_tokens() */
    bool by_token = (c->kind == CAPTURE_FORWARD || c->kind == CAPTURE_BACKWARD) &&
                    !str_starts(str_of(c->name), "act.model.visual."); /* those are by patch */
    size_t expected = by_token ? c->count / tokens * d->places : c->count;
    if (!t->present || t->elements != expected) {
        *ret_why = arena_fmt(
            d->arena, "it is %s in the dump, and %s here",
            t->present ? tensor_shape_text(d->arena, t->shape, t->rank) : "cut off",
            by_token ? arena_fmt(d->arena, "%zu tokens of %zu", tokens, c->count / tokens)
                     : arena_fmt(d->arena, "%zu values", c->count));
        return ST_OK;
    }
    double *all = arena_array(d->arena, expected, sizeof *all);
    TRY(tensor_values(d->file, t, 0, expected, all, err));
    if (by_token) {
        size_t width = c->count / tokens;
        for (size_t i = 0; i < tokens; i++) { /* token[i] >= i: never overwrites what is ahead */
            memmove(all + i * width, all + d->token[i] * width, width * sizeof *all);
        }
    }
    *ret = all;
    return ST_OK;
}

static double rms(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = y != NULL ? x[i] - y[i] : x[i];
        sum += d * d;
    }
    return sqrt(sum / (double)(n != 0 ? n : 1));
}

/* Relative to what float64 says; where that is nothing at all, the error itself. */
static double relative(const struct captured *exact, const double *values)
{
    double size = rms(exact->values, NULL, exact->count);
    double off = rms(values, exact->values, exact->count);
    return size > 0 ? off / size : off;
}

static double unit_roundoff(enum precision p)
{
    return p == PRECISION_BF16 ? 0x1p-8
                               : 0x1p-24; /* frameworks keep float32 inside float64 models */
}

/* In bfloat16 the stores make the error, and every stack makes them: sound ones (eager, fused attention,
 * autocast) stay below 1.6 times ours. In float32 the order of sums does, and ours is kinder than a GPU's. */
static double default_factor(enum precision p)
{
    return p == PRECISION_BF16 ? 3 : 32;
}

/* The error of a float32 log_softmax is the same in kind here and there: ours has the eight running sums of
 * PyTorch's AVX2 code, whose gradients' errors are 1.02 times ours; its AVX-512 code has sixteen, and half. */
#define LOSS_FACTOR 2

/* What rounding does to each tensor of the step, in the order of the list. */
struct own_errors {
    double *plain;      /* sums over the vocabulary in double */
    double *float_loss; /* those of the loss as frameworks make them (loss.c) */
};

static const char *dump_key(struct arena *a, const struct captured *c)
{
    return c->kind == CAPTURE_LOGITS ? "logits" : arena_strdup(a, c->name);
}

static enum status compare(struct arena *a, const struct oracle_options *o, struct dump *d,
                           const struct capture *exact, const struct own_errors *own,
                           struct oracle_report *r, struct err *err)
{
    struct map *used = map_new(a);
    double factor = o->factor > 0 ? o->factor : default_factor(r->precision);
    for (size_t i = 0; i < exact->list.count; i++) {
        const struct captured *e = &exact->list.items[i];
        const char *key = dump_key(a, e);
        const struct tensor *t = map_get(d->by_name, str_of(key));
        if (t == NULL) {
            continue;
        }
        struct arena_mark mark = arena_mark(d->arena);
        struct oracle_row row = {.name = e->name, .kind = e->kind, .error = NAN};
        const double *values = NULL;
        const char *why = NULL;
        map_put(used, str_of(key), r);
        TRY(dump_values(d, t, e, &values, &why, err));
        double u = unit_roundoff(r->precision);
        row.expected = fmax(own->plain[i], own->float_loss[i]);
        /* One number can be right by chance here, and is a float32 sum of many terms there. */
        bool summed = e->kind == CAPTURE_LOSS && r->precision != PRECISION_BF16;
        double least = summed ? 16 * u : 2 * u;
        /* The error of few values is a chancier figure than that of many. */
        double chance = 1 + 4 / sqrt((double)e->count);
        double most = fmax(own->plain[i] * factor, own->float_loss[i] * LOSS_FACTOR);
        row.limit = fmax(most * chance, least);
        if (values != NULL) {
            row.error = relative(e, values);
        }
        row.why = why != NULL ? arena_strdup(a, why) : NULL;
        row.wrong = !(row.error <= row.limit);
        r->wrong += row.wrong;
        if (e->kind == CAPTURE_LOSS && values != NULL) {
            r->dump_loss = values[0];
        }
        arena_rewind(d->arena, mark);
        *VEC_PUSH(a, &r->rows) = row;
    }
    for (size_t i = 0; i < map_count(d->by_name); i++) {
        const char *name = map_key(d->by_name, i);
        bool tensor = str_starts(str_of(name), "act.") || str_starts(str_of(name), "grad.");
        if (tensor && map_get(used, str_of(name)) == NULL && r->strange++ == 0) {
            r->strange_example = arena_strdup(a, name);
        }
    }
    return ST_OK;
}

/* Gradients of parameters are the end of backward: the last layer's are first. The first wrong row is
 * looked for along the step. */
static void order_rows(struct oracle_report *r)
{
    size_t from = 0;
    while (from < r->rows.count && r->rows.items[from].kind != CAPTURE_GRADIENT) {
        from++;
    }
    for (size_t i = from, j = r->rows.count; i + 1 < j; i++) {
        j--;
        struct oracle_row swap = r->rows.items[i];
        r->rows.items[i] = r->rows.items[j];
        r->rows.items[j] = swap;
    }

    static const enum capture_kind order[] = {CAPTURE_FORWARD, CAPTURE_LOGITS, CAPTURE_LOSS,
                                              CAPTURE_BACKWARD, CAPTURE_GRADIENT};

    r->first = SIZE_MAX;
    for (size_t k = 0; k < ARRAY_LEN(order) && r->first == SIZE_MAX; k++) {
        for (size_t i = 0; i < r->rows.count && r->first == SIZE_MAX; i++) {
            const struct oracle_row *row = &r->rows.items[i];
            r->first = row->kind == order[k] && row->wrong ? i : r->first;
        }
    }
}

static enum status dump_rows(const struct dump *d, struct capture_rows *ret, struct err *err)
{
    const struct tensor *t = NULL;
    TRY(integers(d, "logits.rows", &t, err));
    if (t == NULL || tensor_find(d->file, "logits") == NULL) {
        return ST_OK;
    }
    size_t n = (size_t)t->elements;
    size_t *at = arena_array(d->arena, n, sizeof *at);
    double *places = arena_array(d->arena, n, sizeof *places);
    if (n > ROWS_MAX) {
        return err_set(err, ST_LIMIT, "%s: logits of more than %d positions", d->file->map.path,
                       ROWS_MAX);
    }
    TRY(tensor_values(d->file, t, 0, n, places, err));
    for (size_t i = 0; i < n; i++) {
        size_t token = 0;
        while (token < d->tokens && (double)d->token[token] != places[i]) {
            token++;
        }
        if (token == d->tokens) {
            return err_set(err, ST_FORMAT, "%s: logits.rows names place %g, which holds no token",
                           d->file->map.path, places[i]);
        }
        at[i] = token;
    }
    *ret = (struct capture_rows){.at = at, .count = n};
    return ST_OK;
}

/* The dump's own batch. */
static enum status dump_batch(struct arena *a, const struct oracle_options *o, const struct dump *d,
                              struct train_batch *ret, struct err *err)
{
    struct dataset data = {0};
    struct model_config config;
    TRY(config_read(a, o->folder, &config, err));
    const struct data_options options = {
        .vocab = INT32_MAX, .length = TOKENS_MAX, .eos = DATA_NO_ID, .vision = config.vision};
    TRY(data_read_tensors(a, d->file->map.path, &options, &data, err));
    const struct sample **samples = arena_array(a, data.samples.count, sizeof *samples);
    for (size_t i = 0; i < data.samples.count; i++) {
        samples[i] = &data.samples.items[i];
    }
    if (data.samples.count == 0) {
        return err_set(err, ST_FORMAT, "%s: no sample of the dump has a label", d->file->map.path);
    }
    batch_of_samples(a, samples, data.samples.count, ret);
    return ST_OK;
}

/* Takes the step once more, and keeps of each tensor its error alone. */
static enum status own_step(struct arena *a, const struct oracle_options *o,
                            const struct model_options *options, bool rounded,
                            const struct train_batch *batch, const struct capture_rows *rows,
                            const struct capture *exact, double **ret_errors, struct err *err)
{
    struct arena *temporary = arena_new(0);
    struct capture own;
    double *errors = arena_array(a, exact->list.count, sizeof *errors);
    enum status s = capture_step(temporary, o->folder, options, rounded, batch, rows, &own, err);
    for (size_t i = 0; s == ST_OK && i < exact->list.count; i++) {
        errors[i] = relative(&exact->list.items[i], own.list.items[i].values);
    }
    arena_free(temporary);
    *ret_errors = errors;
    return s;
}

static enum status judge(struct arena *a, const struct oracle_options *o, struct dump *d,
                         const struct train_batch *batch, struct oracle_report *r, struct err *err)
{
    struct capture exact;
    struct own_errors own;
    struct capture_rows rows = {0};
    struct model_options options = o->model;
    if (d->tokens != batch->tokens) {
        return err_set(err, ST_FORMAT, "%s: it holds %zu tokens, and the batch has %zu",
                       d->file->map.path, d->tokens, batch->tokens);
    }
    TRY(dump_rows(d, &rows, err));
    TRY(dump_precision(d, &r->precision, err));
    bool rounded = weights_rounded(d, r->precision);
    options.precision = PRECISION_F64;
    TRY(capture_step(a, o->folder, &options, rounded, batch, &rows, &exact, err));
    options.precision = r->precision == PRECISION_BF16 ? PRECISION_BF16 : PRECISION_F32;
    options.float_loss = true;
    TRY(own_step(a, o, &options, rounded, batch, &rows, &exact, &own.float_loss, err));
    own.plain = own.float_loss;
    if (options.precision == PRECISION_F32) {
        options.float_loss = false;
        TRY(own_step(a, o, &options, rounded, batch, &rows, &exact, &own.plain, err));
    }
    r->loss = exact.loss;
    r->labels = exact.labels;
    r->tensors = exact.list.count;
    TRY(compare(a, o, d, &exact, &own, r, err));
    order_rows(r);
    if (r->rows.count == 0) {
        return err_set(err, ST_FORMAT,
                       "%s: no tensor of the dump has a name of this step: nothing was compared",
                       d->file->map.path);
    }
    return ST_OK;
}

static enum status write_own(struct arena *a, const struct oracle_options *o,
                             const struct train_batch *batch, struct oracle_report *r,
                             struct err *err)
{
    struct capture c;
    size_t last = batch->tokens - 1;
    const struct capture_rows rows = {.at = &last, .count = 1};
    TRY(capture_step(a, o->folder, &o->model, false, batch, &rows, &c, err));
    r->loss = c.loss;
    r->labels = c.labels;
    r->tensors = c.list.count;
    return capture_write(&c, o->out, o->model.precision, &rows, err);
}

enum status oracle_run(struct arena *a, const struct oracle_options *o,
                       struct oracle_report *ret_report, struct err *err)
{
    struct oracle_report r = {.dump_loss = NAN, .first = SIZE_MAX};
    struct train_batch own_batch = {0};
    const struct train_batch *batch = o->batch;
    struct dump d = {0};
    enum status s = ST_OK;
    if (o->against == NULL && batch == NULL) {
        return err_set(err, ST_USAGE, "the oracle needs data, or a dump that holds its batch");
    }
    if (o->against != NULL) {
        s = dump_open(&d, o->against, batch, err);
        if (s == ST_OK && batch == NULL) {
            s = dump_batch(a, o, &d, &own_batch, err);
            batch = &own_batch;
        }
        if (s == ST_OK) {
            s = judge(a, o, &d, batch, &r, err);
        }
    }
    if (s == ST_OK && o->out != NULL) {
        s = write_own(a, o, batch, &r, err);
    }
    dump_close(&d);
    *ret_report = r;
    return s;
}

const char *oracle_place(struct arena *a, const struct oracle_row *row)
{
    static const char *const suffixes[] = {".output", ".grad_output", ".mixed", ".product"};
    static const char *const words[] = {"output", "gradient of the output", "attention",
                                        "silu(gate) * up"};
    struct str name = str_of(row->name);
    if (row->kind == CAPTURE_GRADIENT) {
        return arena_fmt(a, "gradient of %s", row->name + strlen("grad."));
    }
    for (size_t i = 0; row->kind >= CAPTURE_FORWARD && i < ARRAY_LEN(suffixes); i++) {
        if (str_ends(name, suffixes[i])) {
            size_t n = name.n - strlen("act.") - strlen(suffixes[i]);
            return arena_fmt(a, "%s of %.*s", words[i], (int)n, row->name + strlen("act."));
        }
    }
    return row->name;
}
