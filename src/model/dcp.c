// SPDX-License-Identifier: Apache-2.0
/* Distributed checkpoints: the folder as a whole, and each .distcp file as a file with tensors. */
#include "model/dcp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum {
    MAX_PAIRS = 2000 /* chunks of one tensor that are compared each with each */
};

static bool matches_folder(const struct folder *f)
{
    if (folder_has(f, ".metadata")) {
        return true;
    }
    for (size_t i = 0; i < f->count; i++) {
        if (str_ends(str_of(f->names[i]), ".distcp")) {
            return true;
        }
    }
    return false;
}

/* What is wrong with how the chunks cover their tensor, or NULL. */
static const char *check_tiling(const struct dcp_tensor *t)
{
    uint64_t whole;
    uint64_t covered = 0;
    if (!tensor_elements(t->shape, t->rank, &whole)) {
        return "its shape has more elements than can be counted";
    }
    for (size_t i = 0; i < t->chunk_count; i++) {
        const struct dcp_chunk *c = &t->chunks[i];
        uint64_t n;
        for (uint32_t d = 0; d < t->rank; d++) {
            if (c->offsets[d] > t->shape[d] || c->sizes[d] > t->shape[d] - c->offsets[d]) {
                return "a chunk lies outside of it";
            }
        }
        if (!tensor_elements(c->sizes, t->rank, &n) ||
            __builtin_add_overflow(covered, n, &covered)) {
            return "its chunks have more elements than can be counted";
        }
        for (size_t k = 0; k < i && t->chunk_count <= MAX_PAIRS && n > 0; k++) {
            const struct dcp_chunk *o = &t->chunks[k];
            bool apart = false;
            for (uint32_t d = 0; d < t->rank && !apart; d++) {
                apart = c->offsets[d] + c->sizes[d] <= o->offsets[d] ||
                        o->offsets[d] + o->sizes[d] <= c->offsets[d];
            }
            if (!apart) {
                return "two of its chunks overlap";
            }
        }
    }
    return covered != whole ? "its chunks do not cover it" : NULL;
}

static const char *item_key(struct arena *a, struct str name, const uint64_t *offsets,
                            uint32_t rank)
{
    return arena_fmt(a, "%.*s %s", STR_ARG(name),
                     offsets == NULL ? "" : tensor_shape_text(a, offsets, rank));
}

/* Every chunk has an item, every item a place. */
static void check_tensors(const struct folder *f, const struct dcp_metadata *m)
{
    struct map *stored = map_new(f->arena);
    for (size_t i = 0; i < m->item_count; i++) {
        const struct dcp_item *it = &m->items[i];
        map_put(stored, str_of(item_key(f->arena, it->name, it->offsets, it->rank)), &m->items[i]);
    }
    for (size_t i = 0; i < m->tensor_count; i++) {
        const struct dcp_tensor *t = &m->tensors[i];
        const char *wrong = check_tiling(t);
        if (wrong != NULL) {
            folder_issue(f, SEVERITY_ERROR, "dcp-tiling", "The chunks do not make up the tensor",
                         ".metadata", "\"%s\" %s: %s.", issue_text(f->arena, t->name),
                         tensor_shape_text(f->arena, t->shape, t->rank), wrong);
        }
        for (size_t k = 0; k < t->chunk_count; k++) {
            const char *key = item_key(f->arena, t->name, t->chunks[k].offsets, t->rank);
            if (map_get(stored, str_of(key)) == NULL) {
                folder_issue(f, SEVERITY_ERROR, "dcp-item-missing", "A chunk is stored nowhere",
                             ".metadata", "Chunk %s has no place in any file.",
                             issue_text(f->arena, str_of(key)));
            }
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const struct dcp_item *x = a;
    const struct dcp_item *y = b;
    int order = str_cmp(x->path, y->path);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* The items of one file: behind each other, to its end. */
static void check_file(const struct folder *f, const struct dcp_item *items, size_t count)
{
    const char *name = str_dup(f->arena, items[0].path);
    uint64_t size;
    uint64_t at = 0;
    if (str_has(items[0].path, "/") || str_has(items[0].path, "..") ||
        strlen(name) != items[0].path.n) {
        folder_issue(f, SEVERITY_ERROR, "dcp-path", "A file outside of the folder", ".metadata",
                     "An item lies in \"%s\".", issue_text(f->arena, items[0].path));
        return;
    }
    if (!folder_size(f, name, &size)) {
        folder_issue(f, SEVERITY_ERROR, "dcp-file-missing", "A rank's file is missing", name,
                     "%zu items lie in it: a rank did not finish saving, or the file was lost.",
                     count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].at < at) {
            folder_issue(f, SEVERITY_ERROR, "dcp-overlap", "Items overlap", name,
                         "\"%s\" begins at %" PRIu64 " inside the item before it.",
                         issue_text(f->arena, items[i].name), items[i].at);
        }
        if (items[i].at > size || items[i].length > size - items[i].at) {
            folder_issue(f, SEVERITY_ERROR, "dcp-cut", "A file is cut off", name,
                         "\"%s\" lies at %" PRIu64 " with %" PRIu64 " bytes, the file has %" PRIu64
                         ".",
                         issue_text(f->arena, items[i].name), items[i].at, items[i].length, size);
            return;
        }
        at = items[i].at + items[i].length;
    }
    if (at < size) {
        folder_issue(f, SEVERITY_ERROR, "dcp-bytes-behind", "Bytes that no item claims", name,
                     "%" PRIu64 " bytes follow the last item: the file is of another save.",
                     size - at);
    }
}

static void check_files(const struct folder *f, struct dcp_metadata *m)
{
    if (m->item_count > 1) {
        qsort(m->items, m->item_count, sizeof *m->items, by_place);
    }
    struct map *used = map_new(f->arena);
    for (size_t i = 0; i < m->item_count;) {
        size_t n = 1;
        while (i + n < m->item_count && str_eq(m->items[i].path, m->items[i + n].path)) {
            n++;
        }
        map_put(used, m->items[i].path, &m->items[i]);
        check_file(f, &m->items[i], n);
        i += n;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct str name = str_of(f->names[i]);
        if (str_ends(name, ".distcp") && map_get(used, name) == NULL) {
            folder_issue(f, SEVERITY_WARNING, "dcp-file-unused", "A file that nothing refers to",
                         f->names[i],
                         "No item of .metadata lies in it: it is left from a save of another world "
                         "size.");
        }
    }
}

static void check_folder(const struct folder *f)
{
    struct file_map map;
    struct dcp_metadata m;
    struct err err = {.status = ST_OK};
    if (!folder_has(f, ".metadata")) {
        folder_issue(f, SEVERITY_ERROR, "dcp-incomplete", "The save is incomplete", ".metadata",
                     "There are .distcp files and no .metadata, which is written last: the save "
                     "stopped before its end.");
        return;
    }
    if (file_map_open(folder_join(f, ".metadata"), &map, &err) != ST_OK) {
        return;
    }
    if (dcp_read(f->arena, file_map_str(&map), NULL, &m, &err) == ST_OK) {
        check_tensors(f, &m);
        check_files(f, &m);
    } else {
        folder_issue(f, SEVERITY_ERROR, "dcp-metadata-damaged", ".metadata is damaged", ".metadata",
                     "%s.", err.text);
    }
    file_map_close(&map);
}

const struct folder_kind folder_kind_dcp = {
    .name = "distributed checkpoint (torch DCP)", .matches = matches_folder, .check = check_folder};

/* ---- one .distcp file ---- */

static bool matches_file(struct str bytes, const char *path)
{
    (void)bytes;
    return str_ends(str_of(path), ".distcp");
}

/* A checksum of one item's archive. */
struct sum {
    const char *item; /* its name */
    uint64_t at;      /* of the item in the file */
    const struct torch_file *archive;
    size_t member;
};

struct distcp {
    VEC_OF(struct sum) sums;
};

static size_t sum_count(const struct tensor_file *f)
{
    const struct distcp *d = f->own;
    return d->sums.count;
}

static enum status check_sum(const struct tensor_file *f, size_t index, struct err *err)
{
    const struct distcp *d = f->own;
    const struct sum *s = &d->sums.items[index];
    enum status status = torch_check_sum(s->archive, &f->map, s->at, s->member, err);
    if (status != ST_OK && err != NULL) {
        struct arena *a = arena_new(0);
        status = err_context(err, "Item \"%s\"", issue_text(a, str_of(s->item)));
        arena_free(a);
    }
    return status;
}

/* Tensors of one item, their places moved to where the item lies. */
static void add_item(struct tensor_file *f, struct distcp *sums, const struct dcp_item *it,
                     size_t *capacity, struct issues *issues)
{
    struct str bytes;
    struct torch_file *archive = arena_alloc(f->arena, sizeof *archive);
    struct err err = {.status = ST_OK};
    const char *name = str_dup(f->arena, it->name);
    if (it->at > f->map.n || it->length > f->map.n - it->at) {
        return; /* the folder's check says so */
    }
    bytes = str_slice(file_map_str(&f->map), it->at, it->at + it->length);
    if (torch_read(f->arena, bytes, issues, archive, &err) != ST_OK) {
        issue_add(issues, SEVERITY_ERROR, "dcp-item-damaged", "An item is damaged",
                  "At byte %" PRIu64 ": %s.", it->at, err.text);
        return;
    }
    for (size_t i = 0; i < torch_sum_count(archive); i++) {
        *VEC_PUSH(f->arena, &sums->sums) = (struct sum){
            .item = name, .at = it->at, .archive = archive, .member = i};
    }
    for (size_t i = 0; i < archive->count; i++) {
        if (f->count == *capacity) {
            size_t more = *capacity == 0 ? 64 : *capacity * 2;
            f->tensors = arena_grow(f->arena, f->tensors, *capacity * sizeof *f->tensors,
                                    more * sizeof *f->tensors);
            *capacity = more;
        }
        struct tensor *to = &f->tensors[f->count++];
        *to = archive->tensors[i];
        to->offset += it->at;
        const char *place = it->offsets != NULL ? tensor_shape_text(f->arena, it->offsets, it->rank)
                                                : "";
        bool origin = true;
        for (uint32_t d = 0; d < it->rank; d++) {
            origin = origin && it->offsets[d] == 0;
        }
        to->name = origin ? name : arena_fmt(f->arena, "%s@%s", name, place);
    }
}

bool dcp_is_folder(const char *path)
{
    struct arena *scratch = arena_new(0);
    struct file_map map;
    struct dcp_metadata m;
    bool readable = false;
    if (file_map_open(arena_fmt(scratch, "%s/.metadata", path), &map, NULL) == ST_OK) {
        readable = dcp_read(scratch, file_map_str(&map), NULL, &m, NULL) == ST_OK;
        file_map_close(&map);
    }
    arena_free(scratch);
    return readable;
}

/* Reads `.metadata` onto `scratch`: a folder has a file a rank, and each asks for it. */
static enum status read_own_items(struct tensor_file *f, struct arena *scratch,
                                  struct issues *issues, struct err *err)
{
    struct str path = str_of(f->map.path);
    size_t cut = path.n;
    while (cut > 0 && path.p[cut - 1] != '/') {
        cut--;
    }
    struct str own = str_slice(path, cut, path.n);
    const char *metadata = arena_fmt(scratch, "%.*s.metadata", (int)cut, path.p);
    struct file_map map;
    struct dcp_metadata m;
    enum status st = file_map_open(metadata, &map, err);
    if (st == ST_OK) {
        st = dcp_read(scratch, file_map_str(&map), NULL, &m, err);
        if (st != ST_OK) {
            file_map_close(&map);
        }
    }
    if (st != ST_OK) {
        issue_add(issues, SEVERITY_ERROR, "dcp-incomplete", "The save is incomplete",
                  "Without a readable .metadata beside it the file cannot be taken apart.");
        return err_set(err, ST_FORMAT, "'%s': no readable .metadata beside it", f->map.path);
    }
    size_t capacity = 0;
    struct distcp *d = arena_alloc(f->arena, sizeof *d);
    *d = (struct distcp){0};
    f->own = d;
    for (size_t i = 0; i < m.item_count; i++) {
        if (str_eq(m.items[i].path, own)) {
            /* A note for each of a thousand items would say the same. */
            struct issues inner;
            issues_init(&inner, f->arena, NULL);
            add_item(f, d, &m.items[i], &capacity, &inner);
            for (size_t k = 0; k < inner.list.count; k++) {
                const struct finding *one = &inner.list.items[k];
                if (one->severity != SEVERITY_NOTE) {
                    issue_add(issues, one->severity, one->id, one->title, "Item \"%s\": %s",
                              issue_text(f->arena, m.items[i].name), one->claim);
                }
            }
        }
    }
    file_map_close(&map);
    tensor_file_index(f, issues);
    return ST_OK;
}

static enum status read_file(struct tensor_file *f, struct issues *issues, struct err *err)
{
    struct arena *scratch = arena_new(0);
    enum status st = read_own_items(f, scratch, issues, err);
    arena_free(scratch);
    return st;
}

const struct tensor_format tensor_format_distcp = {.name = "distcp",
                                                   .matches = matches_file,
                                                   .read = read_file,
                                                   .sum_count = sum_count,
                                                   .check_sum = check_sum};
