// SPDX-License-Identifier: Apache-2.0
/* The header becomes tensors in one pass of strict JSON; then the offsets are held against the file. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json_pull.h"
#include "base/utf8.h"
#include "base/vec.h"

struct entry {
    const char *name;
    struct str dtype; /* as written */
    const struct tensor_type *type;
    uint64_t *shape;
    uint32_t rank;
    uint64_t begin;
    uint64_t end;
};

struct reader {
    struct tensor_file *file;
    struct issues *issues;
    struct json_pull json;
    uint64_t data_start;

    VEC_OF(struct entry) entries;

    VEC_OF(struct tensor_meta) meta;
};

static const char *shown(const struct reader *r, const char *name)
{
    return issue_text(r->file->arena, str_of(name));
}

static enum status malformed(struct reader *r, const char *what, struct err *err)
{
    issue_add(r->issues, SEVERITY_ERROR, "safetensors-header",
              "the header is not what the format says",
              "Byte %zu of the header: %s. No reader can list the tensors of this file.",
              r->json.at, what);
    return err_set(err, ST_FORMAT, "'%s': byte %zu of the header: %s", r->file->map.path,
                   r->json.at, what);
}

static enum status broken_json(struct reader *r, struct err *err)
{
    return malformed(r, r->json.problem != NULL ? r->json.problem : "a value is of the wrong kind",
                     err);
}

/* ---- one entry ---- */

/* A list of unsigned integers; `ret_count` of at most `max`. */
static enum status read_numbers(struct reader *r, uint64_t *numbers, size_t max, size_t *ret_count,
                                struct err *err)
{
    if (json_pull_next(&r->json) != JSON_PULL_LIST) {
        return broken_json(r, err);
    }
    size_t n = 0;
    for (;;) {
        enum json_event e = json_pull_next(&r->json);
        if (e == JSON_PULL_LIST_END) {
            *ret_count = n;
            return ST_OK;
        }
        if (e != JSON_PULL_NUMBER) {
            return broken_json(r, err);
        }
        if (n == max) {
            return malformed(r,
                             max == 2 ? "data_offsets holds more than two numbers"
                                      : "a shape has more than 64 dimensions",
                             err);
        }
        if (str_to_u64(r->json.text, 10, &numbers[n++]) != ST_OK) {
            return malformed(r, "a size or offset is no unsigned 64-bit integer", err);
        }
    }
}

static enum status read_offsets(struct reader *r, struct entry *e, struct err *err)
{
    uint64_t two[2];
    size_t n = 0;
    TRY(read_numbers(r, two, 2, &n, err));
    if (n != 2) {
        return malformed(r, "data_offsets does not hold two numbers", err);
    }
    e->begin = two[0];
    e->end = two[1];
    return ST_OK;
}

static enum status read_shape(struct reader *r, struct entry *e, struct err *err)
{
    uint64_t dims[TENSOR_RANK_MAX];
    size_t n = 0;
    TRY(read_numbers(r, dims, TENSOR_RANK_MAX, &n, err));
    e->rank = (uint32_t)n;
    e->shape = arena_array(r->file->arena, n, sizeof *e->shape);
    if (n != 0) {
        memcpy(e->shape, dims, n * sizeof *dims);
    }
    return ST_OK;
}

static enum status read_dtype(struct reader *r, struct entry *e, struct err *err)
{
    if (json_pull_next(&r->json) != JSON_PULL_STRING) {
        return broken_json(r, err);
    }
    e->dtype = r->json.text;
    e->type = tensor_type_safetensors(e->dtype);
    return ST_OK;
}

enum field {
    FIELD_DTYPE = 0,
    FIELD_SHAPE,
    FIELD_OFFSETS,
    FIELD_COUNT
};

static const struct {
    const char *key;
    enum status (*read)(struct reader *r, struct entry *e, struct err *err);
} fields[FIELD_COUNT] = {
    [FIELD_DTYPE] = {"dtype", read_dtype},
    [FIELD_SHAPE] = {"shape", read_shape},
    [FIELD_OFFSETS] = {"data_offsets", read_offsets},
};

static size_t field_of(struct str key)
{
    size_t f = 0;
    while (f < FIELD_COUNT && !str_is(key, fields[f].key)) {
        f++;
    }
    return f;
}

static enum status read_entry(struct reader *r, struct str name, struct err *err)
{
    if (memchr(name.p, '\0', name.n) != NULL) {
        return malformed(r, "a tensor's name holds a NUL byte", err);
    }
    struct entry entry = {.name = str_dup(r->file->arena, name)};
    bool seen[FIELD_COUNT] = {0};
    if (json_pull_next(&r->json) != JSON_PULL_OBJECT) {
        return broken_json(r, err);
    }
    for (;;) {
        enum json_event e = json_pull_next(&r->json);
        if (e == JSON_PULL_OBJECT_END) {
            break;
        }
        if (e != JSON_PULL_KEY) {
            return broken_json(r, err);
        }
        size_t f = field_of(r->json.text);
        if (f == FIELD_COUNT) { /* the reference reader ignores fields it does not know */
            if (!json_pull_skip(&r->json, json_pull_next(&r->json))) {
                return broken_json(r, err);
            }
            continue;
        }
        if (seen[f]) {
            return malformed(r, "a tensor has the same field twice", err);
        }
        seen[f] = true;
        TRY(fields[f].read(r, &entry, err));
    }
    if (!seen[FIELD_DTYPE] || !seen[FIELD_SHAPE] || !seen[FIELD_OFFSETS]) {
        return malformed(r, "a tensor lacks dtype, shape or data_offsets", err);
    }
    if (entry.type == NULL) {
        return malformed(r,
                         arena_fmt(r->file->arena, "tensor '%s' has the unknown type '%s'",
                                   shown(r, entry.name), issue_text(r->file->arena, entry.dtype)),
                         err);
    }
    if (r->entries.count == TENSOR_COUNT_MAX) {
        return malformed(r, "more than 4,000,000 tensors are listed", err);
    }
    *VEC_PUSH(r->file->arena, &r->entries) = entry;
    return ST_OK;
}

/* __metadata__: text to text, or null. */
static enum status read_meta(struct reader *r, struct err *err)
{
    enum json_event e = json_pull_next(&r->json);
    if (e == JSON_PULL_NULL) {
        return ST_OK;
    }
    if (e != JSON_PULL_OBJECT) {
        return broken_json(r, err);
    }
    while ((e = json_pull_next(&r->json)) != JSON_PULL_OBJECT_END) {
        if (e != JSON_PULL_KEY) {
            return broken_json(r, err);
        }
        struct tensor_meta meta = {.key = str_dup(r->file->arena, r->json.text)};
        e = json_pull_next(&r->json);
        if (e != JSON_PULL_STRING) {
            return e == JSON_PULL_ERROR ? broken_json(r, err)
                                        : malformed(r, "a value of __metadata__ is no text", err);
        }
        meta.value = str_dup(r->file->arena, r->json.text);
        *VEC_PUSH(r->file->arena, &r->meta) = meta;
    }
    return ST_OK;
}

static enum status read_members(struct reader *r, struct err *err)
{
    bool meta_seen = false;
    enum json_event e = json_pull_next(&r->json);
    if (e != JSON_PULL_OBJECT) {
        return e == JSON_PULL_ERROR ? broken_json(r, err) : malformed(r, "it is no object", err);
    }
    while ((e = json_pull_next(&r->json)) != JSON_PULL_OBJECT_END) {
        if (e != JSON_PULL_KEY) {
            return broken_json(r, err);
        }
        struct str key = r->json.text;
        if (!str_is(key, "__metadata__")) {
            TRY(read_entry(r, key, err));
            continue;
        }
        if (meta_seen) {
            return malformed(r, "__metadata__ stands there twice", err);
        }
        meta_seen = true;
        TRY(read_meta(r, err));
    }
    return json_pull_next(&r->json) == JSON_PULL_END ? ST_OK : broken_json(r, err);
}

/* ---- offsets ---- */

static int by_offsets(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* Each tensor begins where the one before ended. */
static void check_place(struct reader *r, const struct entry *e, uint64_t expected,
                        const char *before)
{
    if (e->begin > expected) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-hole",
                  "bytes between tensors belong to none",
                  "Tensor '%s' begins at %" PRIu64 ", but what is before it (%s) ends at %" PRIu64
                  ": %" PRIu64 " bytes belong to no tensor.",
                  shown(r, e->name), e->begin, before, expected, e->begin - expected);
    } else if (e->begin < expected) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-overlap", "tensors overlap",
                  "Tensor '%s' begins at %" PRIu64 ", inside of %s, which ends at %" PRIu64 ".",
                  shown(r, e->name), e->begin, before, expected);
    }
    if (e->end < e->begin) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-offsets",
                  "a tensor ends before it begins",
                  "Tensor '%s' has the data_offsets [%" PRIu64 ", %" PRIu64 "].", shown(r, e->name),
                  e->begin, e->end);
    }
}

static bool check_size(struct reader *r, const struct entry *e, struct tensor *t)
{
    const char *shape = tensor_shape_text(r->file->arena, e->shape, e->rank);
    if (!tensor_measure(t)) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-shape",
                  "a shape does not fit its type, or overflows",
                  "Tensor '%s' of type %s and shape %s has no size in whole bytes below 2^64.",
                  shown(r, e->name), t->type->name, shape);
        return false;
    }
    if (e->end < e->begin || e->end - e->begin != t->bytes) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-size",
                  "a tensor's bytes do not match its shape",
                  "Tensor '%s' of type %s and shape %s takes %" PRIu64
                  " bytes, but its data_offsets are [%" PRIu64 ", %" PRIu64 "].",
                  shown(r, e->name), t->type->name, shape, t->bytes, e->begin, e->end);
        return false;
    }
    return true;
}

static void check_file_end(struct reader *r, uint64_t data_end)
{
    uint64_t there = r->file->map.n - r->data_start;
    if (data_end > there) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-truncated", "the file is cut off",
                  "Its tensors need %" PRIu64 " bytes behind the header, the file has %" PRIu64
                  ": %" PRIu64 " are missing at its end.",
                  data_end, there, data_end - there);
        issue_remedy(r->issues, "Download or copy the file again and compare its checksum.");
    } else if (data_end < there) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-trailing",
                  "bytes follow behind the last tensor",
                  "The last tensor ends %" PRIu64
                  " bytes before the end of the file; the reference reader refuses such a file.",
                  there - data_end);
    }
}

/* Entries to tensors; what cannot be read is listed with present = false. */
static void place_tensors(struct reader *r)
{
    struct tensor_file *f = r->file;
    f->tensors = arena_array(f->arena, r->entries.count, sizeof *f->tensors);
    f->count = r->entries.count;
    if (r->entries.count > 1) {
        qsort(r->entries.items, r->entries.count, sizeof *r->entries.items, by_offsets);
    }
    uint64_t expected = 0;
    uint64_t furthest = 0;
    const char *before = "the header";
    for (size_t i = 0; i < r->entries.count; i++) {
        const struct entry *e = &r->entries.items[i];
        struct tensor *t = &f->tensors[i];
        *t = (struct tensor){.name = e->name, .type = e->type, .shape = e->shape, .rank = e->rank};
        check_place(r, e, expected, before);
        bool sound = check_size(r, e, t);
        if (__builtin_add_overflow(r->data_start, e->begin, &t->offset)) {
            t->offset = UINT64_MAX;
        }
        t->present = sound;
        expected = e->end;
        furthest = e->end > furthest ? e->end : furthest;
        if (i < ISSUE_MAX) { /* text that only issues show */
            before = arena_fmt(f->arena, "tensor '%s'", shown(r, e->name));
        }
    }
    check_file_end(r, furthest);
}

/* ---- the file ---- */

static enum status header_size(struct reader *r, uint64_t *ret_n, struct err *err)
{
    static const char title[] = "the file is no whole safetensors file";
    const char *path = r->file->map.path;
    struct str bytes = file_map_str(&r->file->map);
    if (bytes.n < 8) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-truncated", title,
                  "It has %zu bytes; the size of the header alone takes 8.", bytes.n);
        return err_set(err, ST_FORMAT, "'%s' has only %zu bytes", path, bytes.n);
    }
    uint64_t n = bytes_le64(bytes.p);
    if (n > SAFETENSORS_HEADER_MAX) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-header-size", title,
                  "Its first 8 bytes, the size of the header, say %" PRIu64
                  "; readers refuse more than %d%s.",
                  n, SAFETENSORS_HEADER_MAX,
                  bytes_be(bytes.p, 8) <= bytes.n - 8
                      ? ", and read from the other end they fit: a big-endian machine wrote it"
                      : "");
        return err_set(err, ST_FORMAT, "'%s': header of %" PRIu64 " bytes", path, n);
    }
    if (n > bytes.n - 8) {
        issue_add(r->issues, SEVERITY_ERROR, "safetensors-truncated", title,
                  "The header should have %" PRIu64 " bytes, but the file ends after %zu of them.",
                  n, bytes.n - 8);
        return err_set(err, ST_FORMAT, "'%s' ends inside its header", path);
    }
    *ret_n = n;
    return ST_OK;
}

static enum status read_safetensors(struct tensor_file *f, struct issues *issues, struct err *err)
{
    struct reader r = {.file = f, .issues = issues};
    uint64_t n = 0;
    TRY(header_size(&r, &n, err));
    TRY(file_map_populate(&f->map, 0, 8 + n, err));
    struct str header = {.p = (const char *)f->map.p + 8, .n = (size_t)n};
    r.data_start = 8 + n;
    f->data_start = r.data_start;
    json_pull_init(&r.json, header, f->arena);
    size_t whole = utf8_valid_prefix(header);
    if (whole != header.n) {
        r.json.at = whole;
        return malformed(&r, "it is not UTF-8", err);
    }
    TRY(read_members(&r, err));
    if (header.n != 0 && header.p[0] != '{') {
        issue_add(issues, SEVERITY_WARNING, "safetensors-header-start",
                  "the header does not begin with '{'",
                  "The format asks for it; some readers refuse white space in front.");
    }
    f->meta = r.meta.items;
    f->meta_count = r.meta.count;
    place_tensors(&r);
    tensor_file_index(f, issues);
    return ST_OK;
}

/* There is no magic number: a plausible header size, then JSON; or the name says so. */
static bool is_safetensors(struct str bytes, const char *path)
{
    if (str_ends(str_of(path), ".safetensors")) {
        return true;
    }
    return bytes.n > 8 && bytes_le64(bytes.p) <= SAFETENSORS_HEADER_MAX && bytes.p[8] == '{';
}

const struct tensor_format tensor_format_safetensors = {
    .name = "safetensors",
    .matches = is_safetensors,
    .read = read_safetensors,
};
