// SPDX-License-Identifier: Apache-2.0
/*
 * Weight files of a model folder: what is on disk against what the index and the safetensors
 * headers promise. Headers are scanned for their numbers; the tensors are never read.
 * Source: safetensors reader (u64 header size, JSON, data without holes).
 */
#include <string.h>

#include "base/bytes.h"
#include "base/json_scan.h"
#include "base/tree.h"

#include "facts/job_parts.h"

enum {
    MAX_HEADER = 100000000,
    MAX_FILES = 4096,
    MAX_INDEX = 64 << 20,
    MAX_HEAD = 120
};

static const uint64_t MAX_OFFSET = 1ull << 56; /* so that sums over all files cannot wrap */

struct weights {
    uint64_t present;
    uint64_t expected; /* by the headers */
    bool headers_known;
    uint64_t smallest;
    const char *smallest_path;
    size_t files;
};

/* A sharded or single weight file, not an optimizer's. */
static bool is_weight_file(struct str name)
{
    return str_ends(name, ".safetensors") ||
           (str_ends(name, ".bin") &&
            (str_starts(name, "pytorch_model") || str_starts(name, "model")));
}

/* JSON header of a safetensors file; false when the file is too short or lies. */
static bool header_of(const struct fs_map *map, struct str *ret_header)
{
    if (map->n < 8) {
        return false;
    }
    uint64_t n = bytes_le64((const char *)map->p);
    if (n > MAX_HEADER || n > map->n - 8) {
        return false;
    }
    *ret_header = (struct str){.p = (const char *)map->p + 8, .n = (size_t)n};
    return true;
}

/* The pair of "data_offsets", or the first number of "shape". */
static bool number_after(struct str tensor, const char *key, unsigned index, uint64_t *ret_number)
{
    size_t at = str_find(tensor, key, 0);
    at = at != SIZE_MAX ? str_find_char(tensor, '[', at) : SIZE_MAX;
    if (at == SIZE_MAX) {
        return false;
    }
    size_t end = str_find_char(tensor, ']', at);
    struct str list = str_slice(tensor, at + 1, end);
    struct str part = {0};
    for (unsigned i = 0; i <= index; i++) {
        if (end == SIZE_MAX || !str_cut(&list, ',', &part)) {
            return false;
        }
    }
    return str_to_u64(part, 10, ret_number) == ST_OK;
}

static bool is_embedding(struct str name)
{
    return str_ends(name, "embed_tokens.weight") || str_ends(name, "wte.weight") ||
           str_ends(name, "word_embeddings.weight") || str_ends(name, "tok_embeddings.weight");
}

/* bitsandbytes keeps its parameters as a small JSON text in a tensor of bytes. */
static void set_blocksize(const struct job *j, const char *path, struct str data, uint64_t from,
                          uint64_t to)
{
    if (to < from || to > data.n || to - from > 4096) {
        return;
    }
    struct tree_limits limits = {.bytes = 4096, .nodes = 64, .depth = 4};
    const struct tree *t;
    if (tree_from_json(j->arena, str_slice(data, from, to), path, limits, &t, NULL) != ST_OK) {
        return;
    }
    const struct tree *size = tree_get(t, "blocksize");
    if (size != NULL && size->value.kind == VALUE_INT) {
        facts_int(j->facts, "model.quant_blocksize", size->value.integer, path);
    }
}

/* One pass over the header: the end of the data, and the tensors that are asked about. */
static bool read_header(const struct job *j, const char *path, const struct fs_map *map,
                        uint64_t *ret_expected)
{
    struct str header;
    struct json_scan s;
    struct str name;
    struct str tensor;
    if (!header_of(map, &header) || !json_scan_open(&s, header)) {
        return false;
    }
    struct str data = {.p = header.p + header.n, .n = map->n - 8 - header.n};
    uint64_t last = 0;
    while (json_scan_next(&s, &name, &tensor)) {
        uint64_t from;
        uint64_t to;
        uint64_t rows;
        if (str_is(name, "__metadata__") || !number_after(tensor, "\"data_offsets\"", 0, &from) ||
            !number_after(tensor, "\"data_offsets\"", 1, &to) || to > MAX_OFFSET) {
            continue;
        }
        last = to > last ? to : last;
        if (is_embedding(name) && number_after(tensor, "\"shape\"", 0, &rows) && rows < INT64_MAX) {
            facts_int(j->facts, "model.vocab_rows", (int64_t)rows, path);
        }
        if (str_has(name, ".quant_state.bitsandbytes") &&
            facts_get(j->facts, "model.quant_blocksize") == NULL) {
            set_blocksize(j, path, data, from, to);
        }
    }
    *ret_expected = 8 + header.n + last;
    return !s.broken;
}

static void add_file(const struct job *j, struct weights *w, const char *path)
{
    struct fs_map map;
    if (fs_map(j->fs, j->arena, path, &map, NULL) != ST_OK) {
        w->headers_known = false;
        return;
    }
    uint64_t expected;
    if (!str_ends(str_of(path), ".safetensors") || !read_header(j, path, &map, &expected)) {
        w->headers_known = false;
    } else {
        w->expected += expected;
    }
    w->present += map.n;
    if (w->files == 0 || map.n < w->smallest) {
        w->smallest = map.n;
        w->smallest_path = path;
    }
    w->files++;
    fs_unmap(&map);
}

/* The first line of the smallest file when it is text: a Git LFS pointer, an HTML page. */
static void set_head(const struct job *j, const char *path)
{
    struct fs_map map;
    if (fs_map(j->fs, j->arena, path, &map, NULL) != ST_OK) {
        return;
    }
    size_t n = 0;
    while (n < map.n && n < MAX_HEAD && map.p[n] >= ' ' && map.p[n] < 0x7f) {
        n++;
    }
    bool text = n >= 8 && (n == map.n || n == MAX_HEAD || map.p[n] == '\n' || map.p[n] == '\r');
    if (text) {
        facts_string(j->facts, "model.shard_head", arena_copy(j->arena, (const char *)map.p, n),
                     path);
    } else {
        facts_set_state(j->facts, "model.shard_head", FACT_ABSENT, path,
                        "the file does not begin with text");
    }
    fs_unmap(&map);
}

/* Bytes the index promises, and whether every file it names is there. */
static bool index_size(const struct job *j, const char *folder, uint64_t *ret_size,
                       const char **ret_source)
{
    static const char *const names[] = {"model.safetensors.index.json",
                                        "pytorch_model.bin.index.json"};
    struct tree_limits limits = {.bytes = MAX_INDEX, .nodes = 2000000, .depth = 8};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = arena_fmt(j->arena, "%s/%s", folder, names[i]);
        struct str text;
        const struct tree *t;
        if (fs_read(j->fs, j->arena, path, MAX_INDEX, &text, NULL) != ST_OK ||
            tree_from_json(j->arena, text, path, limits, &t, NULL) != ST_OK) {
            continue;
        }
        const struct tree *size = tree_get(tree_get(t, "metadata"), "total_size");
        if (size != NULL && size->value.kind == VALUE_INT && size->value.integer >= 0) {
            *ret_size = (uint64_t)size->value.integer;
            *ret_source = path;
            return true;
        }
        if (size != NULL && size->value.kind == VALUE_REAL && size->value.real >= 0 &&
            size->value.real < 1e18) { /* some writers store a float */
            *ret_size = (uint64_t)size->value.real;
            *ret_source = path;
            return true;
        }
    }
    return false;
}

void job_weights_facts(const struct job *j, const char *folder)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(j->fs, j->arena, folder, &names, &count, &err) != ST_OK) {
        facts_set_error(j->facts, "model.weights_bytes_present", folder, &err);
        return;
    }
    struct weights w = {.headers_known = true};
    for (size_t i = 0; i < count && w.files < MAX_FILES; i++) {
        if (is_weight_file(str_of(names[i]))) {
            add_file(j, &w, arena_fmt(j->arena, "%s/%s", folder, names[i]));
        }
    }
    facts_int(j->facts, "model.weights_bytes_present", (int64_t)w.present, folder);
    uint64_t promised = 0;
    const char *source = folder;
    bool indexed = index_size(j, folder, &promised, &source);
    /* Headers are exact about the files that are there, the index about the ones that are not. */
    uint64_t expected = w.headers_known && w.files != 0 ? w.expected : 0;
    expected = indexed && promised > expected ? promised : expected;
    if (expected != 0) {
        facts_int(j->facts, "model.weights_bytes_expected", (int64_t)expected, source);
    } else {
        facts_set_state(j->facts, "model.weights_bytes_expected", FACT_ABSENT, folder,
                        "there is no index and no safetensors header");
    }
    if (w.files != 0) {
        facts_int(j->facts, "model.smallest_shard_bytes", (int64_t)w.smallest, w.smallest_path);
        set_head(j, w.smallest_path);
    }
}
