// SPDX-License-Identifier: Apache-2.0
/* See path_kernels.h. */
#include "cli/run/path_kernels.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include "recorder/convolution.h"
#include "recorder/record_reader.h"

enum {
    KERNELS_FILE_MAX = 4 << 20
};

enum status path_kernels_table(const struct cli *cli, struct kernel_paths *ret_paths,
                               struct err *err)
{
    const struct fs fs = {.prefix = ""};
    const char *dir = cli_value(cli, "knowledge", NULL);
    const char *name = "kernels.tsv";
    struct str text = kernel_paths_builtin();
    char full[PATH_MAX];
    if (dir != NULL && realpath(dir, full) != NULL &&
        fs_exists(&fs, cli->arena, arena_fmt(cli->arena, "%s/kernels.tsv", full))) {
        name = arena_fmt(cli->arena, "%s/kernels.tsv", full);
        TRY(fs_read(&fs, cli->arena, name, KERNELS_FILE_MAX, &text, err));
    }
    return kernel_paths_read(cli->arena, text, name, ret_paths, err);
}

const char *path_kernels_doubt(struct arena *a, const struct path_kernels *k)
{
    return k->launches == 0 ? "No launch of a kernel is on record at all."
           : k->unnamed > 0 ? arena_fmt(a,
                                        "%" PRIu64 " of %" PRIu64
                                        " launches are of kernels whose name nobody told.",
                                        k->unnamed, k->launches)
           : k->lost > 0    ? "Names of kernels found no room in a record."
           : k->graphs > 0
               ? arena_fmt(a,
                           "%" PRIu64 " graphs were launched; kernels that run only inside a graph "
                           "are not seen unless they were launched or looked up before.",
                           k->graphs)
               : NULL;
}

uint64_t path_kernels_matching(const struct path_kernels *k, const char *text,
                               const char **ret_seen)
{
    uint64_t launches = 0;
    for (size_t i = 0; i < k->count; i++) {
        const struct path_kernel *one = &k->items[i];
        bool matches = strcasestr(one->name, text) != NULL ||
                       (one->path != NULL && (strcasestr(one->path->feature, text) != NULL ||
                                              strcasestr(one->path->path, text) != NULL));
        if (matches && one->launches > 0) {
            *ret_seen = launches == 0 ? one->name : *ret_seen;
            launches += one->launches;
        }
    }
    return launches;
}

static int by_launches(const void *px, const void *py)
{
    const struct path_kernel *x = px;
    const struct path_kernel *y = py;
    if (x->launches != y->launches) {
        return x->launches < y->launches ? 1 : -1;
    }
    return strcmp(x->name, y->name);
}

static void add_convolutions(struct arena *a, const struct record *r, struct path_kernels *k)
{
    for (size_t i = 0; i < r->event_count; i++) {
        const struct record_entry *e = &r->events[i].entry;
        if (e->kind != RECORD_CONVOLUTION || e->u.convolution.rank != 5) {
            continue;
        }
        if (k->convolutions_3d++ == 0) {
            k->convolution_3d = arena_fmt(a, "%s %s", r->hooks[e->hook].name,
                                          convolution_text(a, &e->u.convolution));
        }
    }
}

static void add_record(struct arena *a, const struct record *r, const struct kernel_paths *paths,
                       struct map *known, struct path_kernels *k)
{
    for (size_t i = 0; i < r->name_count; i++) {
        const struct record_name *n = &r->names[i];
        k->launches += n->launches;
        if (n->name[0] == '\0') {
            k->unnamed += n->launches;
            continue;
        }
        size_t *at = map_get(known, str_of(n->name));
        if (at == NULL) {
            at = arena_alloc(a, sizeof *at);
            *at = k->count;
            map_put(known, str_of(n->name), at);
            const char *name = arena_strdup(a, n->name);
            *VEC_PUSH(a, k) = (struct path_kernel){.name = name,
                                                   .path = kernel_paths_find(paths, name)};
        }
        k->items[*at].launches += n->launches;
    }
    for (size_t t = 0; t < r->thread_count; t++) {
        for (uint32_t hook = 0; hook < r->head.hook_count; hook++) {
            if (str_ends(str_of(r->hooks[hook].name), "GraphLaunch")) {
                k->graphs += r->threads[t].counts[hook];
            }
        }
    }
    add_convolutions(a, r, k);
    k->lost += r->head.lost_names;
    k->records++;
}

enum status path_kernels_read(struct arena *a, const char *folder, const struct kernel_paths *paths,
                              struct path_kernels *ret_kernels, struct text_list *notes,
                              struct err *err)
{
    const struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    struct map *known = map_new(a);
    struct path_kernels k = {0};
    TRY(fs_list(&fs, a, folder, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        struct record r = {0};
        struct err why = {0};
        if (!str_starts(name, "record.") || !str_ends(name, ".bin")) {
            continue;
        }
        if (record_reader_load(a, arena_fmt(a, "%s/%s", folder, names[i]), &r, &why) != ST_OK) {
            *VEC_PUSH(a, notes) = arena_strdup(a, why.text);
            continue;
        }
        add_record(a, &r, paths, known, &k);
    }
    if (k.count > 1) {
        qsort(k.items, k.count, sizeof *k.items, by_launches);
    }
    *ret_kernels = k;
    return ST_OK;
}

static bool is_of(const struct path_kernel *k, const char *feature)
{
    return k->path != NULL && k->launches > 0 && strcmp(k->path->feature, feature) == 0;
}

uint64_t path_kernels_launches(const struct path_kernels *k, const char *feature, const char *path)
{
    uint64_t launches = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (is_of(&k->items[i], feature) && str_starts(str_of(k->items[i].path->path), path)) {
            launches += k->items[i].launches;
        }
    }
    return launches;
}

const char *path_kernels_ways(struct arena *a, const struct path_kernels *k, const char *feature)
{
    struct strbuf out;
    strbuf_init(&out, a, 2000);
    for (size_t i = 0; i < k->count; i++) {
        bool first = is_of(&k->items[i], feature);
        for (size_t j = 0; j < i && first; j++) {
            first = k->items[j].path != k->items[i].path;
        }
        if (first) {
            const struct kernel_path *p = k->items[i].path;
            uint64_t launches = 0;
            for (size_t j = i; j < k->count; j++) {
                launches += k->items[j].path == p ? k->items[j].launches : 0;
            }
            strbuf_fmt(&out, "%s%s: %" PRIu64 " launches", out.n != 0 ? "; " : "", p->path,
                       launches);
        }
    }
    return out.n != 0 ? out.p : NULL;
}
