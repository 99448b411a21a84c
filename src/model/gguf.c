// SPDX-License-Identifier: Apache-2.0
/*
 * The reader: one pass of a cursor over the header, every size checked before it is followed, then the
 * place of each tensor. A header that breaks off or lies gives no tensor list; what is wrong with
 * single tensors is reported and the rest is listed.
 */
#include "model/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "base/vec.h"

enum {
    READ_AHEAD = 1 << 20 /* bytes brought into memory at once */
};

struct info {
    const char *name;
    const struct tensor_type *type;
    uint64_t *shape;
    uint32_t rank;
    uint64_t offset; /* behind the start of the data */
};

struct reader {
    struct tensor_file *file;
    struct issues *issues;
    struct err *err;
    struct str bytes;
    uint64_t at;
    uint64_t populated;
    struct gguf *own;

    VEC_OF(struct gguf_value) values;

    VEC_OF(struct info) infos;
};

static const char *shown(const struct reader *r, struct str text)
{
    return issue_text(r->file->arena, text);
}

static enum status malformed(struct reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static enum status malformed(struct reader *r, const char *fmt, ...)
{
    struct strbuf what;
    va_list ap;
    strbuf_init(&what, r->file->arena, 1000);
    va_start(ap, fmt);
    strbuf_vfmt(&what, fmt, ap);
    va_end(ap);
    issue_add(r->issues, SEVERITY_ERROR, "gguf-header", "the header is not what the format says",
              "At byte %" PRIu64 ": %s. No reader can list the tensors of this file.", r->at,
              what.p);
    return err_set(r->err, ST_FORMAT, "'%s': byte %" PRIu64 " of the header: %s", r->file->map.path,
                   r->at, what.p);
}

/* ---- cursor ---- */

static enum status need(struct reader *r, uint64_t n)
{
    if (!bytes_has(r->bytes, r->at, n)) {
        issue_add(r->issues, SEVERITY_ERROR, "gguf-truncated", "the file ends inside its header",
                  "At byte %" PRIu64 " %" PRIu64 " more bytes should follow, the file has %zu.",
                  r->at, n, r->bytes.n);
        issue_remedy(r->issues, "Download or copy the file again and compare its checksum.");
        return err_set(r->err, ST_FORMAT, "'%s' ends inside its header", r->file->map.path);
    }
    uint64_t end = r->at + n;
    if (end > r->populated) {
        uint64_t to = r->bytes.n - end < READ_AHEAD ? r->bytes.n : end + READ_AHEAD;
        TRY(file_map_populate(&r->file->map, r->populated, to - r->populated, r->err));
        r->populated = to;
    }
    return ST_OK;
}

static enum status take(struct reader *r, uint64_t n, const char **ret_p)
{
    TRY(need(r, n));
    *ret_p = r->bytes.p + r->at;
    r->at += n;
    return ST_OK;
}

static enum status take_u32(struct reader *r, uint32_t *ret_value)
{
    const char *p;
    TRY(take(r, 4, &p));
    *ret_value = bytes_le32(p);
    return ST_OK;
}

static enum status take_u64(struct reader *r, uint64_t *ret_value)
{
    const char *p;
    TRY(take(r, 8, &p));
    *ret_value = bytes_le64(p);
    return ST_OK;
}

/* A string of at most `max` bytes, copied: the header outlives the map. */
static enum status take_string(struct reader *r, uint64_t max, const char *what,
                               struct str *ret_text)
{
    uint64_t n;
    const char *p;
    TRY(take_u64(r, &n));
    if (n > max) {
        return malformed(r, "%s of %" PRIu64 " bytes; at most %" PRIu64 " are taken", what, n, max);
    }
    TRY(take(r, n, &p));
    *ret_text = (struct str){.p = arena_copy(r->file->arena, p, (size_t)n), .n = (size_t)n};
    return ST_OK;
}

/* A name: UTF-8 without NUL. */
static enum status take_name(struct reader *r, uint64_t max, const char *what, struct str *ret_text)
{
    struct str name;
    TRY(take_string(r, max, what, &name));
    if (memchr(name.p, '\0', name.n) != NULL || utf8_valid_prefix(name) != name.n) {
        return malformed(r, "%s '%s' is not UTF-8 text without NUL", what, shown(r, name));
    }
    *ret_text = name;
    return ST_OK;
}

/* ---- keys and values ---- */

static unsigned size_of(enum gguf_kind kind)
{
    static const unsigned char sizes[GGUF_KIND_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return sizes[kind];
}

static enum status take_kind(struct reader *r, enum gguf_kind *ret_kind)
{
    uint32_t number;
    TRY(take_u32(r, &number));
    if (number >= GGUF_KIND_COUNT) {
        return malformed(r, "%" PRIu32 " is no kind of value", number);
    }
    *ret_kind = (enum gguf_kind)number;
    return ST_OK;
}

static enum status take_strings(struct reader *r, struct gguf_value *v)
{
    /* Every string takes 8 bytes at least: a count beyond the file is refused before memory is. */
    if (v->count > (r->bytes.n - r->at) / 8) {
        return malformed(r, "'%s' should hold %" PRIu64 " strings, more than the file has room for",
                         shown(r, str_of(v->key)), v->count);
    }
    struct str *strings = arena_array(r->file->arena, (size_t)v->count, sizeof *strings);
    for (uint64_t i = 0; i < v->count; i++) {
        TRY(take_string(r, GGUF_STRING_MAX, "a string", &strings[i]));
    }
    v->strings = strings;
    return ST_OK;
}

static enum status take_numbers(struct reader *r, struct gguf_value *v)
{
    const char *p;
    uint64_t n = v->count * size_of(v->element);
    TRY(take(r, n, &p));
    for (uint64_t i = 0; v->element == GGUF_BOOL && i < n; i++) {
        if (p[i] != 0 && p[i] != 1) {
            return malformed(r, "the truth value '%s' is neither 0 nor 1",
                             shown(r, str_of(v->key)));
        }
    }
    v->bytes = (struct str){.p = arena_copy(r->file->arena, p, (size_t)n), .n = (size_t)n};
    return ST_OK;
}

static enum status take_value(struct reader *r, struct gguf_value *v)
{
    TRY(take_kind(r, &v->kind));
    v->element = v->kind;
    v->count = 1;
    if (v->kind == GGUF_ARRAY) {
        TRY(take_kind(r, &v->element));
        TRY(take_u64(r, &v->count));
        if (v->element == GGUF_ARRAY) {
            return malformed(r, "'%s' is an array of arrays, which no reader takes",
                             shown(r, str_of(v->key)));
        }
        if (v->count > GGUF_ARRAY_MAX) {
            return malformed(r, "'%s' has %" PRIu64 " elements; at most %d are taken",
                             shown(r, str_of(v->key)), v->count, GGUF_ARRAY_MAX);
        }
    }
    return v->element == GGUF_STRING ? take_strings(r, v) : take_numbers(r, v);
}

static enum status read_keys(struct reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_value v = {0};
        struct str key;
        TRY(take_name(r, GGUF_KEY_BYTES_MAX, "a key", &key));
        v.key = key.p;
        TRY(take_value(r, &v));
        *VEC_PUSH(r->file->arena, &r->values) = v;
    }
    struct gguf *g = r->own;
    g->values = r->values.items;
    g->count = r->values.count;
    for (size_t i = 0; i < g->count; i++) {
        struct str key = str_of(g->values[i].key);
        if (map_get(g->by_key, key) != NULL) {
            issue_add(r->issues, SEVERITY_ERROR, "gguf-key-twice", "a key stands there twice",
                      "'%s' is given more than once; readers differ in which one they take.",
                      shown(r, key));
            continue;
        }
        map_put(g->by_key, key, &g->values[i]);
    }
    return ST_OK;
}

static enum status find_alignment(struct reader *r)
{
    const struct gguf_value *v = gguf_find(r->own, "general.alignment");
    int64_t alignment = 32;
    if (v != NULL && (v->kind != GGUF_U32 || !gguf_integer_at(v, 0, &alignment) || alignment == 0 ||
                      (alignment & (alignment - 1)) != 0)) {
        return malformed(r, "general.alignment is no power of two of kind u32");
    }
    r->own->alignment = (uint32_t)alignment;
    return ST_OK;
}

/* ---- tensors ---- */

static enum status read_info(struct reader *r)
{
    struct info info = {0};
    struct str name;
    uint32_t number;
    TRY(take_name(r, TENSOR_NAME_MAX, "a tensor's name", &name));
    info.name = name.p;
    if (name.n > GGUF_NAME_MAX) {
        issue_add(r->issues, SEVERITY_ERROR, "gguf-name", "a tensor's name is too long",
                  "'%s' has %zu bytes; the reference reader takes at most %d.", shown(r, name),
                  name.n, GGUF_NAME_MAX);
    }
    TRY(take_u32(r, &info.rank));
    if (info.rank > GGUF_RANK_MAX) {
        return malformed(r, "tensor '%s' has %" PRIu32 " dimensions; at most %d are allowed",
                         shown(r, name), info.rank, GGUF_RANK_MAX);
    }
    info.shape = arena_array(r->file->arena, info.rank, sizeof *info.shape);
    for (uint32_t i = info.rank; i-- > 0;) {
        TRY(take_u64(r, &info.shape[i]));
    }
    TRY(take_u32(r, &number));
    info.type = tensor_type_ggml(number);
    if (info.type == NULL) {
        return malformed(r, "tensor '%s' is of type %" PRIu32 ", which is unknown or was removed",
                         shown(r, name), number);
    }
    TRY(take_u64(r, &info.offset));
    *VEC_PUSH(r->file->arena, &r->infos) = info;
    return ST_OK;
}

/* Blocks lie along the last dimension, so each row is whole blocks. */
static bool check_shape(struct reader *r, const struct info *info, struct tensor *t)
{
    uint64_t row = info->rank != 0 ? info->shape[info->rank - 1] : 1;
    bool sound = row % info->type->per_block == 0 && tensor_measure(t) && t->elements <= INT64_MAX;
    if (!sound) {
        issue_add(
            r->issues, SEVERITY_ERROR, "gguf-shape", "a shape does not fit its type, or overflows",
            "Tensor '%s' of type %s and shape %s is no whole number of blocks of %" PRIu32
            " elements a row, or has no size below 2^63.",
            shown(r, str_of(info->name)), info->type->name,
            tensor_shape_text(r->file->arena, info->shape, info->rank), info->type->per_block);
    }
    return sound;
}

static bool padded(uint64_t n, uint64_t alignment, uint64_t *ret_n)
{
    if (__builtin_add_overflow(n, alignment - 1, ret_n)) {
        return false;
    }
    *ret_n -= *ret_n % alignment;
    return true;
}

static void check_end(struct reader *r, uint64_t furthest)
{
    uint64_t there = r->bytes.n > r->file->data_start ? r->bytes.n - r->file->data_start : 0;
    uint64_t with_padding;
    if (furthest > there) {
        issue_add(r->issues, SEVERITY_ERROR, "gguf-truncated", "the file is cut off",
                  "Its tensors need %" PRIu64 " bytes behind the header, the file has %" PRIu64
                  ": %" PRIu64 " are missing at its end.",
                  furthest, there, furthest - there);
        issue_remedy(r->issues, "Download or copy the file again and compare its checksum.");
    } else if (padded(furthest, r->own->alignment, &with_padding) && there > with_padding) {
        issue_add(r->issues, SEVERITY_WARNING, "gguf-trailing",
                  "bytes follow behind the last tensor",
                  "The last tensor ends %" PRIu64
                  " bytes before the end of the file, more than its padding.",
                  there - furthest);
    }
}

static void place_tensors(struct reader *r)
{
    struct tensor_file *f = r->file;
    f->tensors = arena_array(f->arena, r->infos.count, sizeof *f->tensors);
    f->count = r->infos.count;
    uint64_t expected = 0;
    uint64_t furthest = 0;
    bool known = true; /* a tensor of no size leaves the place of the next one unknown */
    for (size_t i = 0; i < r->infos.count; i++) {
        const struct info *info = &r->infos.items[i];
        struct tensor *t = &f->tensors[i];
        *t = (struct tensor){
            .name = info->name, .type = info->type, .shape = info->shape, .rank = info->rank};
        t->present = check_shape(r, info, t);
        if (known && info->offset != expected) {
            issue_add(r->issues, SEVERITY_ERROR, "gguf-offset",
                      "a tensor is not where the one before it ends",
                      "Tensor '%s' begins at %" PRIu64 " of the data; the tensors in front of it, "
                      "padded to %" PRIu32 ", end at %" PRIu64 ".",
                      shown(r, str_of(info->name)), info->offset, r->own->alignment, expected);
        }
        uint64_t end = UINT64_MAX;
        if (__builtin_add_overflow(f->data_start, info->offset, &t->offset)) {
            t->offset = UINT64_MAX;
        } else if (t->present && !__builtin_add_overflow(info->offset, t->bytes, &end)) {
            furthest = end > furthest ? end : furthest;
        }
        known = t->present && end != UINT64_MAX && padded(end, r->own->alignment, &expected);
    }
    check_end(r, furthest);
}

/* ---- the file ---- */

static enum status refuse(struct reader *r, const char *what)
{
    issue_add(r->issues, SEVERITY_UNKNOWN, "gguf-version", "this form of GGUF is not read",
              "It is %s; versions 2 and 3, little-endian, are read.", what);
    return err_set(r->err, ST_UNSUPPORTED, "'%s' is %s", r->file->map.path, what);
}

static enum status read_version(struct reader *r)
{
    uint32_t version;
    const char *magic;
    TRY(take(r, 4, &magic));
    if (memcmp(magic, "GGUF", 4) != 0) {
        return malformed(r, "the file does not begin with \"GGUF\"");
    }
    TRY(take_u32(r, &version));
    if ((version & 0xffff) == 0 && version != 0) {
        return refuse(r, "a big-endian GGUF file");
    }
    if (version < 2 || version > 3) {
        return refuse(r, arena_fmt(r->file->arena, "a GGUF file of version %" PRIu32, version));
    }
    r->own->version = version;
    return ST_OK;
}

static enum status read_header(struct reader *r)
{
    uint64_t tensors;
    uint64_t keys;
    TRY(read_version(r));
    TRY(take_u64(r, &tensors));
    TRY(take_u64(r, &keys));
    if (tensors > TENSOR_COUNT_MAX || keys > GGUF_KEYS_MAX) {
        return malformed(r, "%" PRIu64 " tensors and %" PRIu64 " keys are more than are taken",
                         tensors, keys);
    }
    TRY(read_keys(r, keys));
    TRY(find_alignment(r));
    for (uint64_t i = 0; i < tensors; i++) {
        TRY(read_info(r));
    }
    if (!padded(r->at, r->own->alignment, &r->file->data_start)) {
        return malformed(r, "the alignment is absurd");
    }
    return ST_OK;
}

/* Keys as text, for tables: arrays by their size. */
static void list_meta(struct reader *r)
{
    struct tensor_file *f = r->file;
    const struct gguf *g = r->own;
    f->meta = arena_array(f->arena, g->count, sizeof *f->meta);
    f->meta_count = g->count;
    for (size_t i = 0; i < g->count; i++) {
        const struct gguf_value *v = &g->values[i];
        int64_t integer = 0;
        double real = 0;
        const char *text;
        if (v->kind == GGUF_ARRAY) {
            text = arena_fmt(f->arena, "%" PRIu64 " of %s", v->count, gguf_kind_name(v->element));
        } else if (v->kind == GGUF_STRING) {
            text = str_dup(f->arena, v->strings[0]);
        } else if (v->kind == GGUF_BOOL) {
            text = v->bytes.p[0] != 0 ? "true" : "false";
        } else if (gguf_integer_at(v, 0, &integer)) {
            text = arena_fmt(f->arena, "%" PRId64, integer);
        } else {
            (void)gguf_real_at(v, 0, &real);
            text = arena_fmt(f->arena, "%.9g", real);
        }
        f->meta[i] = (struct tensor_meta){.key = v->key, .value = text};
    }
}

static enum status read_gguf(struct tensor_file *f, struct issues *issues, struct err *err)
{
    struct reader r = {.file = f, .issues = issues, .err = err, .bytes = file_map_str(&f->map)};
    r.own = arena_alloc(f->arena, sizeof *r.own);
    r.own->by_key = map_new(f->arena);
    TRY(read_header(&r));
    f->own = r.own;
    list_meta(&r);
    place_tensors(&r);
    tensor_file_index(f, issues);
    gguf_check(f, issues);
    return ST_OK;
}

static bool is_gguf(struct str bytes, const char *path)
{
    return str_starts(bytes, "GGUF") || str_ends(str_of(path), ".gguf");
}

const struct tensor_format tensor_format_gguf = {
    .name = "GGUF", .matches = is_gguf, .read = read_gguf};

bool gguf_is_file(const char *path)
{
    struct file_map map;
    struct err ignored;
    if (file_map_open(path, &map, &ignored) != ST_OK) {
        return false;
    }
    bool is = map.n >= 4 && file_map_populate(&map, 0, 4, &ignored) == ST_OK &&
              memcmp(map.p, "GGUF", 4) == 0;
    file_map_close(&map);
    return is;
}

enum status gguf_open(struct arena *a, const char *path, struct tensor_file **ret_file,
                      const struct gguf **ret_gguf, struct err *err)
{
    struct issues issues;
    struct tensor_file *f;
    issues_init(&issues, a, path);
    TRY(tensor_file_open(a, path, &issues, &f, err));
    for (size_t i = 0; i < issues.list.count; i++) {
        const struct finding *found = &issues.list.items[i];
        if (found->severity == SEVERITY_ERROR) {
            tensor_file_close(f);
            return err_set(err, ST_FORMAT, "%s: %s: %s", path, found->title, found->claim);
        }
    }
    if (gguf_of(f) == NULL) {
        tensor_file_close(f);
        return err_set(err, ST_FORMAT, "%s is no GGUF file", path);
    }
    *ret_file = f;
    *ret_gguf = gguf_of(f);
    return ST_OK;
}
