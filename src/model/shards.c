// SPDX-License-Identifier: Apache-2.0
/*
 * model.safetensors.index.json and its twins: {"metadata": {"total_size": n}, "weight_map": {tensor:
 * file}}. Every file there, every tensor in its file, none in two, the total right.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"

#include "model/checkpoint.h"

static const struct fs live = {.prefix = ""};

/* A file that numbers itself: <stem>-00001-of-00003<suffix> */
enum {
    PARTS_MAX = 4096 /* of one set; more are not looked for */
};

struct numbered {
    struct str stem;
    struct str suffix;
    uint64_t number;
    uint64_t count;
};

static bool five_digits(struct str s, uint64_t *ret)
{
    bool digits = s.n == 5;
    for (size_t i = 0; digits && i < s.n; i++) {
        digits = s.p[i] >= '0' && s.p[i] <= '9';
    }
    return digits && str_to_u64(s, 10, ret) == ST_OK;
}

static bool is_numbered(const char *name, struct numbered *ret)
{
    struct str s = str_of(name);
    size_t of = str_find(s, "-of-", 0);
    if (of == SIZE_MAX || of < 6 || s.p[of - 6] != '-' || s.n < of + 9 ||
        !five_digits(str_slice(s, of - 5, of), &ret->number) ||
        !five_digits(str_slice(s, of + 4, of + 9), &ret->count)) {
        return false;
    }
    ret->stem = str_slice(s, 0, of - 6);
    ret->suffix = str_slice(s, of + 9, s.n);
    return true;
}

/* Files that lie in the folder itself. */
static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

struct index {
    struct checkpoint *c;
    const char *folder;
    const struct tree *map;
    uint64_t bytes;
    bool
        incomplete; /* a file that the index names is missing or unread: the total cannot be right */
    struct map *where; /* the same by name, for speed: tensor to struct tree */
    struct map *seen;  /* tensor to the file it was found in */
};

static const char *shown(const struct index *x, const char *name)
{
    return issue_text(x->c->arena, str_of(name));
}

static const struct checkpoint_file *file_in(const struct index *x, const char *name)
{
    const char *path = arena_fmt(x->c->arena, "%s/%s", x->folder, name);
    for (size_t i = 0; i < x->c->files.count; i++) {
        if (strcmp(x->c->files.items[i].path, path) == 0) {
            return &x->c->files.items[i];
        }
    }
    return NULL;
}

/* Every entry of the index against the file it names. */
static void check_entry(struct index *x, const struct tree *entry, struct map *files)
{
    const char *name = entry->kind == TREE_SCALAR ? entry->text : NULL;
    if (name == NULL || strchr(name, '/') != NULL) {
        issue_add(x->c->issues, SEVERITY_ERROR, "index-entry",
                  "an entry of the index names no file",
                  "Tensor '%s' should name a file of the same folder.", shown(x, entry->key));
        return;
    }
    const struct checkpoint_file *f = file_in(x, name);
    x->incomplete = x->incomplete || f == NULL || f->tensors == NULL;
    if (f == NULL && map_get(files, str_of(name)) == NULL) {
        issue_add(x->c->issues, SEVERITY_ERROR, "index-file-missing", "a shard is missing",
                  "The index names '%s', which is not in the folder.", shown(x, name));
    }
    map_put(files, str_of(name), x);
    if (f != NULL && f->tensors != NULL && tensor_find(f->tensors, entry->key) == NULL) {
        issue_add(x->c->issues, SEVERITY_ERROR, "index-tensor-missing",
                  "a tensor is not in the shard that the index names", "'%s' should be in '%s'.",
                  shown(x, entry->key), shown(x, name));
    }
}

/* Every tensor of the shards against the index. */
static void check_file(struct index *x, const struct checkpoint_file *f)
{
    const char *slash = strrchr(f->path, '/');
    const char *base = slash != NULL ? slash + 1 : f->path;
    for (size_t i = 0; i < f->tensors->count; i++) {
        const struct tensor *t = &f->tensors->tensors[i];
        const struct tree *entry = map_get(x->where, str_of(t->name));
        const char *where = entry != NULL && entry->text != NULL ? entry->text : NULL;
        x->bytes += t->bytes;
        if (where == NULL) {
            issue_add(x->c->issues, SEVERITY_ERROR, "index-tensor-extra",
                      "a shard holds a tensor that the index does not list", "'%s' is in '%s'.",
                      shown(x, t->name), base);
        } else if (strcmp(where, base) != 0) {
            issue_add(x->c->issues, SEVERITY_ERROR, "index-tensor-elsewhere",
                      "a tensor is in another shard than the index says",
                      "'%s' is in '%s'; the index says '%s'.", shown(x, t->name), base,
                      shown(x, where));
        }
        if (map_get(x->seen, str_of(t->name)) != NULL) {
            issue_add(x->c->issues, SEVERITY_ERROR, "index-tensor-twice",
                      "a tensor is in two shards", "'%s' is in '%s' and in '%s'.",
                      shown(x, t->name), base, (const char *)map_get(x->seen, str_of(t->name)));
        }
        map_put(x->seen, str_of(t->name), (void *)base);
    }
}

static void check_total(struct index *x, const struct tree *metadata)
{
    const struct tree *total = tree_get(metadata, "total_size");
    if (x->incomplete || total == NULL || total->value.kind != VALUE_INT) {
        return;
    }
    if ((uint64_t)total->value.integer != x->bytes) {
        issue_add(x->c->issues, SEVERITY_ERROR, "index-total",
                  "total_size of the index is not that of the shards",
                  "The index says %" PRId64 " bytes, the tensors take %" PRIu64 ".",
                  total->value.integer, x->bytes);
    }
}

/* What lies beside the shards of an index and is no part of it: parts of another count, and one file
 * with the whole. `files` are the names in the index. */
static void check_beside(const struct index *x, const char *name, struct map *files)
{
    static const char end[] = ".index.json";
    struct str whole = str_slice(str_of(name), 0, strlen(name) - (sizeof end - 1));
    for (size_t i = 0; i < x->c->files.count; i++) {
        const char *path = x->c->files.items[i].path;
        const char *base = path + strlen(x->folder) + 1;
        struct numbered n;
        if (!lies_in(path, x->folder) || map_get(files, str_of(base)) != NULL) {
            continue;
        }
        x->c->issues->file = path;
        if (str_is(whole, base)) {
            issue_add(x->c->issues, SEVERITY_WARNING, "weights-twice",
                      "One file of weights beside shards",
                      "'%s' and '%s' are both here: from_pretrained() takes the one file and never "
                      "opens the shards, others do it the other way round.",
                      base, name);
        } else if (is_numbered(base, &n) &&
                   str_eq(str_of(arena_fmt(x->c->arena, "%.*s%.*s", STR_ARG(n.stem),
                                           STR_ARG(n.suffix))),
                          whole)) {
            issue_add(x->c->issues, SEVERITY_WARNING, "shard-leftover",
                      "A shard that the index does not name",
                      "'%s' is left from another save: a loader that takes every file of this form "
                      "mixes two models.",
                      shown(x, base));
        }
    }
}

static void check_index(struct checkpoint *c, const char *folder, const char *name)
{
    struct err err;
    struct str text;
    const struct tree *doc;
    const char *path = arena_fmt(c->arena, "%s/%s", folder, name);
    if (!fs_exists(&live, c->arena, path)) {
        return;
    }
    c->issues->file = path;
    if (fs_read(&live, c->arena, path, (size_t)64 << 20, &text, &err) != ST_OK ||
        tree_from_json(c->arena, text, path, TREE_LIMITS_DEFAULT, &doc, &err) != ST_OK) {
        issue_add(c->issues, SEVERITY_ERROR, "index-unreadable", "the index cannot be read", "%s.",
                  err.text);
        return;
    }
    struct index x = {.c = c,
                      .folder = folder,
                      .map = tree_get(doc, "weight_map"),
                      .where = map_new(c->arena),
                      .seen = map_new(c->arena)};
    if (x.map == NULL || x.map->kind != TREE_MAP || x.map->count == 0) {
        issue_add(c->issues, SEVERITY_ERROR, "index-unreadable", "the index cannot be read",
                  "It has no weight_map with tensors.");
        return;
    }
    struct map *files = map_new(c->arena);
    for (const struct tree *e = x.map->child; e != NULL; e = e->next) {
        check_entry(&x, e, files);
        map_put(x.where, str_of(e->key), (void *)e);
    }
    for (size_t i = 0; i < map_count(files); i++) {
        const struct checkpoint_file *f = file_in(&x, map_key(files, i));
        if (f != NULL && f->tensors != NULL) {
            check_file(&x, f);
        }
    }
    check_total(&x, tree_get(doc, "metadata"));
    check_beside(&x, name, files);
}

/* ---- without an index ---- */

/* Every part from 1 on must be there; told once a set. */
static void check_numbered(struct checkpoint *c, size_t file, struct map *sets)
{
    struct numbered n;
    const char *path = c->files.items[file].path;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (!is_numbered(name, &n) || n.count > PARTS_MAX) {
        return;
    }
    struct str set = str_of(
        arena_fmt(c->arena, "%.*s-%" PRIu64 "%.*s", STR_ARG(n.stem), n.count, STR_ARG(n.suffix)));
    if (map_get(sets, set) != NULL) {
        return;
    }
    map_put(sets, set, c);
    uint64_t missing = 0;
    uint64_t first = 0;
    struct arena_mark mark = arena_mark(c->arena);
    for (uint64_t k = 1; k <= n.count; k++) {
        const char *part = arena_fmt(c->arena, "%.*s%.*s-%05" PRIu64 "-of-%05" PRIu64 "%.*s",
                                     (int)(name - path), path, STR_ARG(n.stem), k, n.count,
                                     STR_ARG(n.suffix));
        bool there = fs_exists(&live, c->arena, part);
        first = !there && missing == 0 ? k : first;
        missing += !there;
    }
    arena_rewind(c->arena, mark);
    bool transformers = str_is(n.stem, "model") || str_is(n.stem, "pytorch_model");
    if (missing == 0 && n.count > 1 && transformers &&
        fs_exists(&live, c->arena,
                  arena_fmt(c->arena, "%.*sconfig.json", (int)(name - path), path))) {
        c->issues->file = path;
        issue_add(c->issues, SEVERITY_WARNING, "index-missing",
                  "the index of the shards is missing",
                  "All %" PRIu64 " parts are here, and no %.*s%.*s.index.json: from_pretrained() "
                  "finds no weights in this folder.",
                  n.count, STR_ARG(n.stem), STR_ARG(n.suffix));
        c->issues->file = c->path;
    }
    if (missing != 0) {
        c->issues->file = path;
        issue_add(c->issues, SEVERITY_ERROR, "shard-missing", "parts of a model are missing",
                  "By its name this is one of %" PRIu64 " parts; %" PRIu64
                  " are not beside it, the first is number %" PRIu64 ".",
                  n.count, missing, first);
        c->issues->file = c->path;
    }
}

static bool has_index(struct checkpoint *c, const char *folder)
{
    static const char *const names[] = {"model.safetensors.index.json",
                                        "diffusion_pytorch_model.safetensors.index.json",
                                        "pytorch_model.bin.index.json"};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        check_index(c, folder, names[i]);
        any = any || fs_exists(&live, c->arena, arena_fmt(c->arena, "%s/%s", folder, names[i]));
    }
    return any;
}

void checkpoint_check_shards(struct checkpoint *c)
{
    for (size_t i = 0; i < c->folders.count; i++) {
        bool indexed = has_index(c, c->folders.items[i]);
        struct map *sets = map_new(c->arena);
        for (size_t f = 0; !indexed && f < c->files.count; f++) {
            if (lies_in(c->files.items[f].path, c->folders.items[i])) {
                check_numbered(c, f, sets);
            }
        }
    }
    c->issues->file = c->path;
}
