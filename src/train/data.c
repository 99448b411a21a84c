// SPDX-License-Identifier: Apache-2.0
/* Training data: files to samples. Conversations are data_chat.c's, safetensors data_tensors.c's. */
#include "train/data.h"

#include <inttypes.h>
#include <string.h>

#include "base/file_map.h"
#include "base/json_cursor.h"

#include "train/data_inside.h"
#include "train/data_order.h"
#include "train/model.h"
#include "train/vision.h"

enum {
    RECORD_MAX = 256 << 20 /* bytes of one line */
};

struct reader {
    struct arena *arena;
    struct data_writer w;
    struct dataset *d;
};

/* ---- a sample ---- */

enum status data_add(struct arena *a, struct dataset *d, const struct data_options *options,
                     const char *path, size_t line, const int32_t *ids, const int32_t *labels,
                     size_t count, struct err *err)
{
    size_t kept = count < options->length ? count : options->length;
    uint64_t counted = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t label = labels != NULL ? labels[i] : ids[i];
        if (ids[i] < 0) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: id %" PRId32 " is negative, so it is no token; only labels may "
                           "be -100",
                           path, line, ids[i]);
        }
        if ((size_t)ids[i] >= options->vocab) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: id %" PRId32
                           " is beyond the model's vocabulary of %zu; the data "
                           "were made with the tokenizer of another model",
                           path, line, ids[i], options->vocab);
        }
        if (options->vision != NULL && vision_is_picture(options->vision, ids[i])) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: token %" PRId32
                           " stands for a picture, and there is none: pictures are read from "
                           "safetensors files with pixel_values",
                           path, line, ids[i]);
        }
        if (label != LABEL_IGNORED && (label < 0 || (size_t)label >= options->vocab)) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: label %" PRId32 " is neither -100 nor an id below %zu", path,
                           line, label, options->vocab);
        }
        counted += i != 0 && i < kept && label != LABEL_IGNORED;
    }
    d->truncated += kept < count;
    if (counted == 0) {
        d->dropped_line = d->dropped++ == 0 ? line : d->dropped_line;
        return ST_OK;
    }
    if (d->samples.count == DATA_SAMPLES_MAX) {
        return err_set(err, ST_LIMIT, "%s:%zu: more than %d samples", path, line, DATA_SAMPLES_MAX);
    }
    struct sample *s = VEC_PUSH(a, &d->samples);
    s->ids = (const int32_t *)(void *)arena_copy(a, ids, kept * sizeof *ids);
    s->labels = labels == NULL
                    ? s->ids
                    : (const int32_t *)(void *)arena_copy(a, labels, kept * sizeof *labels);
    s->count = kept;
    s->line = line;
    d->tokens += kept;
    d->labels += counted;
    return ST_OK;
}

void data_write_id(struct data_writer *w, int32_t id, bool learned)
{
    *VEC_PUSH(w->scratch, &w->ids) = id;
    *VEC_PUSH(w->scratch, &w->labels) = learned ? id : LABEL_IGNORED;
}

enum status data_write_text(struct data_writer *w, struct str text, unsigned flags, bool learned,
                            struct err *err)
{
    struct tok_ids ids = {0};
    if (w->encoder == NULL) {
        return err_set(
            err, ST_ABSENT,
            "%s:%zu: the record is text and the model's folder has no tokenizer; give data "
            "with input_ids",
            w->path, w->line);
    }
    if (tok_encode(w->encoder, w->scratch, text, flags, &ids, err) != ST_OK) {
        return err_context(err, "%s:%zu", w->path, w->line);
    }
    for (size_t i = 0; i < ids.count; i++) {
        data_write_id(w, (int32_t)ids.items[i], learned);
    }
    return ST_OK;
}

/* ---- records ---- */

/* A text for pre-training: pieces of the full length, each a sample of its own. */
static enum status add_text(struct reader *r, struct str text, struct err *err)
{
    struct data_writer *w = &r->w;
    TRY(data_write_text(w, text, TOK_SPECIALS, true, err));
    int32_t eos = w->options->eos;
    if (eos != DATA_NO_ID && (w->ids.count == 0 || w->ids.items[w->ids.count - 1] != eos)) {
        data_write_id(w, eos, true);
    }
    for (size_t at = 0; at < w->ids.count; at += w->options->length) {
        size_t left = w->ids.count - at;
        size_t n = left < w->options->length ? left : w->options->length;
        TRY(data_add(r->arena, r->d, w->options, w->path, w->line, w->ids.items + at, NULL, n,
                     err));
    }
    return ST_OK;
}

static enum status read_numbers(struct reader *r, const struct tree *list, const char *key,
                                int32_t **ret_numbers, struct err *err)
{
    size_t n = 0;
    if (list->kind != TREE_LIST) {
        return err_set(err, ST_FORMAT, "%s:%zu: '%s' is no list", r->w.path, r->w.line, key);
    }
    int32_t *numbers = arena_array(r->w.scratch, list->count, sizeof *numbers);
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        if (t->kind != TREE_SCALAR || t->value.kind != VALUE_INT || t->value.integer < INT32_MIN ||
            t->value.integer > INT32_MAX) {
            return err_set(err, ST_FORMAT, "%s:%zu: entry %zu of '%s' is no id", r->w.path,
                           r->w.line, n, key);
        }
        numbers[n++] = (int32_t)t->value.integer;
    }
    *ret_numbers = numbers;
    return ST_OK;
}

static enum status add_ids(struct reader *r, const struct tree *record, struct err *err)
{
    const struct tree *ids_list = tree_get(record, "input_ids");
    const struct tree *label_list = tree_get(record, "labels");
    int32_t *ids;
    int32_t *labels = NULL;
    TRY(read_numbers(r, ids_list, "input_ids", &ids, err));
    if (label_list != NULL) {
        TRY(read_numbers(r, label_list, "labels", &labels, err));
        if (label_list->count != ids_list->count) {
            return err_set(err, ST_FORMAT, "%s:%zu: %zu input_ids and %zu labels", r->w.path,
                           r->w.line, ids_list->count, label_list->count);
        }
    }
    return data_add(r->arena, r->d, r->w.options, r->w.path, r->w.line, ids, labels,
                    ids_list->count, err);
}

static enum status add_chat(struct reader *r, const struct tree *record, struct err *err)
{
    struct data_writer *w = &r->w;
    if (w->encoder == NULL) {
        return data_write_text(w, STR(""), 0, false, err);
    }
    TRY(data_write_chat(w, record, err));
    r->d->template_name = w->template_name;
    return data_add(r->arena, r->d, w->options, w->path, w->line, w->ids.items, w->labels.items,
                    w->ids.count, err);
}

static enum status add_record(struct reader *r, struct str text, size_t line, struct err *err)
{
    struct arena_mark mark = arena_mark(r->w.scratch);
    const struct tree *record;
    struct tree_limits limits = {.bytes = RECORD_MAX, .nodes = 50000000, .depth = 64};
    r->w.line = line;
    r->w.ids.items = r->w.labels.items = NULL;
    r->w.ids.count = r->w.labels.count = r->w.ids.capacity = r->w.labels.capacity = 0;
    const char *name = arena_fmt(r->w.scratch, "%s, record at line %zu", r->w.path, line);
    TRY(tree_from_json(r->w.scratch, text, name, limits, &record, err));
    enum status status;
    if (tree_get(record, "input_ids") != NULL) {
        status = add_ids(r, record, err);
    } else if (tree_text(record, "text", NULL) != NULL) {
        status = add_text(r, str_of(tree_text(record, "text", "")), err);
    } else if (data_is_chat(record)) {
        status = add_chat(r, record, err);
    } else {
        status = err_set(err, ST_FORMAT,
                         "%s:%zu: the record has none of 'text', 'messages', 'conversations', "
                         "'instruction', 'input_ids'",
                         r->w.path, line);
    }
    arena_rewind(r->w.scratch, mark);
    return status;
}

/* ---- files ---- */

static size_t count_lines(struct str text, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        n += text.p[i] == '\n';
    }
    return n;
}

/* One JSON list of records. */
static enum status read_list(struct reader *r, struct str text, struct err *err)
{
    struct json_cursor j;
    struct str item;
    size_t line = 1;
    size_t at = 0;
    json_cursor_init(&j, text);
    if (json_cursor_enter(&j, '[')) {
        while (json_cursor_item(&j)) {
            (void)json_cursor_peek(&j);
            line += count_lines(text, at, j.at);
            at = j.at;
            if (!json_cursor_skip(&j, &item)) {
                break;
            }
            TRY(add_record(r, item, line, err));
        }
    }
    if (j.error != NULL || !json_cursor_end(&j)) {
        return err_set(err, ST_FORMAT, "%s:%zu: no JSON: %s", r->w.path,
                       1 + count_lines(text, 0, j.at < text.n ? j.at : text.n),
                       j.error != NULL ? j.error : "something follows the list");
    }
    return ST_OK;
}

static enum status read_lines(struct reader *r, struct str text, struct err *err)
{
    struct str line;
    for (size_t n = 1; str_cut_line(&text, &line); n++) {
        struct str record = str_trim(line);
        if (record.n == 0) {
            continue;
        }
        if (record.p[0] != '{') {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: the line is no JSON object; wanted is JSONL, a JSON list, "
                           "safetensors, or plain text in a file named *.txt",
                           r->w.path, n);
        }
        TRY(add_record(r, record, n, err));
    }
    return ST_OK;
}

static enum status read_text(struct reader *r, struct str text, struct err *err)
{
    if (str_ends(str_of(r->w.path), ".txt")) {
        r->w.line = 1;
        return add_text(r, text, err);
    }
    struct str start = str_trim(str_slice(text, 0, text.n < 4096 ? text.n : 4096));
    if (start.n != 0 && start.p[0] == '[') {
        return read_list(r, text, err);
    }
    return read_lines(r, text, err);
}

static enum status check_some(const char *path, const struct dataset *d, uint64_t samples_before,
                              uint64_t dropped_before, struct err *err)
{
    if (d->samples.count != samples_before) {
        return ST_OK;
    }
    if (d->dropped != dropped_before) {
        return err_set(err, ST_FORMAT,
                       "%s:%zu: no label is left: all %" PRIu64
                       " samples of the file have only ignored "
                       "labels (-100) or a single token",
                       path, d->dropped_line, d->dropped - dropped_before);
    }
    return err_set(err, ST_FORMAT, "%s:1: the file has no sample", path);
}

enum status data_read_bytes(struct arena *a, const char *name, struct str bytes,
                            const struct data_options *options, struct dataset *d, struct err *err)
{
    struct reader r = {
        .arena = a, .d = d, .w = {.options = options, .path = name, .scratch = arena_new(0)}};
    uint64_t samples = d->samples.count;
    uint64_t dropped = d->dropped;
    if (bytes.n == 0) {
        arena_free(r.w.scratch);
        return err_set(err, ST_FORMAT, "%s:1: the file is empty", name);
    }
    if (options->tokenizer != NULL) {
        r.w.encoder = tok_encoder_new(options->tokenizer);
    }
    enum status status = read_text(&r, bytes, err);
    if (r.w.encoder != NULL) {
        tok_encoder_free(r.w.encoder);
    }
    arena_free(r.w.scratch);
    return status == ST_OK ? check_some(name, d, samples, dropped, err) : status;
}

enum status data_read(struct arena *a, const char *path, const struct data_options *options,
                      struct dataset *d, struct err *err)
{
    struct file_map map;
    uint64_t samples = d->samples.count;
    uint64_t dropped = d->dropped;
    if (str_ends(str_of(path), ".safetensors")) {
        TRY(data_read_tensors(a, path, options, d, err));
        return check_some(path, d, samples, dropped, err);
    }
    TRY(file_map_open(path, &map, err));
    enum status status = data_read_bytes(a, path, file_map_str(&map), options, d, err);
    file_map_close(&map);
    return status;
}

/* ---- the set as a whole ---- */

static void move_sample(struct arena *a, struct dataset *to, const struct sample *s)
{
    *VEC_PUSH(a, &to->samples) = *s;
    to->tokens += s->count;
    for (size_t i = 1; i < s->count; i++) {
        to->labels += s->labels[i] != LABEL_IGNORED;
    }
}

enum status data_split(struct arena *a, struct dataset *d, double share, uint64_t seed,
                       struct dataset *ret_eval, struct err *err)
{
    size_t n = d->samples.count;
    if (n < 2) {
        return err_set(err, ST_USAGE, "one sample cannot be split into training and evaluation");
    }
    if (n > DATA_ORDER_MAX) {
        return err_set(err, ST_LIMIT, "more than %d samples", DATA_ORDER_MAX);
    }
    size_t wanted = (size_t)((double)n * share + 0.5);
    wanted = wanted < 1 ? 1 : wanted > n - 1 ? n - 1 : wanted;
    uint32_t *order = arena_array(a, n, sizeof *order);
    bool *taken = arena_array(a, n, sizeof *taken);
    struct dataset train = *d;
    struct dataset eval = {0};
    train.samples.items = NULL;
    train.samples.count = train.samples.capacity = 0;
    train.tokens = train.labels = 0;
    data_order(seed, order, n);
    for (size_t i = 0; i < wanted; i++) {
        taken[order[i]] = true;
    }
    for (size_t i = 0; i < n; i++) {
        move_sample(a, taken[i] ? &eval : &train, &d->samples.items[i]);
    }
    *d = train;
    *ret_eval = eval;
    return ST_OK;
}

uint64_t data_hash(const struct dataset *d)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < d->samples.count; i++) {
        const struct sample *s = &d->samples.items[i];
        h = (h ^ s->count) * 0x100000001b3u;
        for (size_t t = 0; t < s->count; t++) {
            h = (h ^ (uint32_t)s->ids[t]) * 0x100000001b3u;
            h = (h ^ (uint32_t)s->labels[t]) * 0x100000001b3u;
        }
        for (size_t t = 0; t < s->patches * s->patch_values; t++) {
            uint64_t bits;
            memcpy(&bits, &s->pixels[t], sizeof bits);
            h = (h ^ bits) * 0x100000001b3u;
        }
    }
    return h;
}
