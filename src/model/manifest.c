// SPDX-License-Identifier: Apache-2.0
/* Hashes are work items over the cores: one for a file's SHA-256, one for each tensor. */
#include "model/manifest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/digest.h"
#include "base/fs.h"
#include "base/json_out.h"
#include "base/pool.h"

static const struct fs live = {.prefix = ""};

enum {
    MAX_MANIFEST = 256 << 20
};

struct item {
    enum digest_kind kind;
    const struct file_map *map;
    const char *what;   /* tensor, NULL for a file's whole or its header */
    const char *wanted; /* NULL when there is nothing to compare with */
    const char *source; /* the list it was wanted by */
    uint64_t from;
    uint64_t n;
    enum status status;
    struct err err;
    struct digest digest;
};

struct hashing {
    VEC_OF(struct item) items;

    uint64_t total;
    atomic_uint_fast64_t done;
    const struct manifest_options *options;
};

static void count_done(void *ctx, uint64_t bytes)
{
    struct hashing *h = ctx;
    atomic_fetch_add(&h->done, bytes);
}

static void hash_item(void *ctx, size_t index)
{
    struct hashing *h = ctx;
    struct item *i = &h->items.items[index];
    i->status = digest_map(i->kind, i->map, i->from, i->n, count_done, h, &i->digest, &i->err);
}

static void tick(void *ctx)
{
    struct hashing *h = ctx;
    if (h->options->progress != NULL) {
        h->options->progress(h->options->ctx, atomic_load(&h->done), h->total);
    }
}

static struct item *add(struct checkpoint *c, struct hashing *h, enum digest_kind kind,
                        const struct file_map *map, uint64_t from, uint64_t n)
{
    struct item *i = VEC_PUSH(c->arena, &h->items);
    *i = (struct item){.kind = kind, .map = map, .from = from, .n = n};
    h->total += n;
    return i;
}

static void run(struct hashing *h)
{
    struct pool_job job = {.count = h->items.count, .item = hash_item, .tick = tick, .ctx = h};
    pool_run(h->options->threads, &job);
}

/* ---- writing ---- */

static void write_file(const struct checkpoint_file *f, const struct item *items,
                       struct json_out *j)
{
    json_object(j);
    json_field(j, "file", f->name);
    json_key(j, "bytes");
    json_int(j, (int64_t)f->size);
    json_field(j, "sha256", items[0].digest.hex);
    json_field(j, "header_xxh3", items[1].digest.hex);
    json_key(j, "tensors");
    json_object(j);
    for (size_t t = 0; t < f->tensors->count; t++) {
        json_field(j, f->tensors->tensors[t].name, items[2 + t].digest.hex);
    }
    json_object_end(j);
    json_object_end(j);
}

enum status manifest_write(struct checkpoint *c, const struct manifest_options *options,
                           struct strbuf *out, struct err *err)
{
    struct hashing h = {.options = options};
    for (size_t i = 0; i < c->files.count; i++) {
        const struct tensor_file *t = c->files.items[i].tensors;
        (void)add(c, &h, DIGEST_SHA256, &t->map, 0, t->map.n);
        (void)add(c, &h, DIGEST_XXH3, &t->map, 0, t->data_start);
        for (size_t k = 0; k < t->count; k++) {
            (void)add(c, &h, DIGEST_XXH3, &t->map, t->tensors[k].offset, t->tensors[k].bytes);
        }
    }
    run(&h);
    for (size_t i = 0; i < h.items.count; i++) {
        if (h.items.items[i].status != ST_OK) {
            return err_set(err, h.items.items[i].status, "%s", h.items.items[i].err.text);
        }
    }
    struct json_out j;
    json_init(&j, out);
    json_object(&j);
    json_key(&j, "assay_manifest");
    json_int(&j, 1);
    json_key(&j, "files");
    json_list(&j);
    const struct item *at = h.items.items;
    for (size_t i = 0; i < c->files.count; i++) {
        const struct checkpoint_file *f = &c->files.items[i];
        TRY(file_map_unchanged(&f->tensors->map, err));
        write_file(f, at, &j);
        at += 2 + f->tensors->count;
    }
    json_list_end(&j);
    json_object_end(&j);
    strbuf_addc(out, '\n');
    return ST_OK;
}

/* ---- comparing ---- */

static const struct checkpoint_file *file_at(const struct checkpoint *c, const char *path)
{
    for (size_t i = 0; i < c->files.count; i++) {
        if (strcmp(c->files.items[i].path, path) == 0) {
            return &c->files.items[i];
        }
    }
    return NULL;
}

static void want(struct item *i, const char *what, const char *wanted, const char *source)
{
    i->what = what;
    i->wanted = wanted;
    i->source = source;
}

static void missing(struct checkpoint *c, const char *source, const char *name)
{
    c->issues->file = source;
    issue_add(c->issues, SEVERITY_ERROR, "manifest-file-missing",
              "a file of the manifest is missing", "'%s' is listed there and is not in the folder.",
              issue_text(c->arena, str_of(name)));
}

/* Tensors of a file against those of the manifest. */
static void want_tensors(struct checkpoint *c, struct hashing *h, const struct tensor_file *t,
                         const struct tree *tensors, const char *source)
{
    size_t found = 0;
    for (const struct tree *e = tensors != NULL ? tensors->child : NULL; e != NULL; e = e->next) {
        const struct tensor *one = tensor_find(t, e->key);
        if (one == NULL || !one->present) {
            c->issues->file = source;
            issue_add(c->issues, SEVERITY_ERROR, "manifest-tensor-missing",
                      "a tensor of the manifest is missing", "'%s' is not whole in '%s'.",
                      issue_text(c->arena, str_of(e->key)), t->map.path);
            continue;
        }
        found++;
        want(add(c, h, DIGEST_XXH3, &t->map, one->offset, one->bytes), one->name, e->text, source);
    }
    if (found < t->count) {
        c->issues->file = t->map.path;
        issue_add(c->issues, SEVERITY_ERROR, "manifest-tensor-extra",
                  "a file holds tensors that the manifest does not list",
                  "%zu of its %zu tensors are not in '%s'.", t->count - found, t->count, source);
    }
}

static void want_file(struct checkpoint *c, struct hashing *h, const char *folder,
                      const struct tree *entry, const char *source)
{
    const char *name = tree_text(entry, "file", NULL);
    if (name == NULL || name[0] == '/' || strstr(name, "..") != NULL) {
        return;
    }
    const char *path = arena_fmt(c->arena, "%s/%s", folder, name);
    const struct checkpoint_file *f = file_at(c, path);
    if (f == NULL) {
        if (c->is_folder) {
            missing(c, source, name);
        }
        return;
    }
    if (f->tensors == NULL) {
        return; /* said when it was opened */
    }
    const char *header = tree_text(entry, "header_xxh3", NULL);
    const char *sha = tree_text(entry, "sha256", NULL);
    const struct file_map *map = &f->tensors->map;
    if (header != NULL) {
        want(add(c, h, DIGEST_XXH3, map, 0, f->tensors->data_start), NULL, header, source);
    }
    if (sha != NULL && !h->options->fast) {
        want(add(c, h, DIGEST_SHA256, map, 0, map->n), NULL, sha, source);
    }
    want_tensors(c, h, f->tensors, tree_get(entry, "tensors"), source);
}

static void want_manifest(struct checkpoint *c, struct hashing *h, const char *folder)
{
    struct err err;
    struct str text;
    const struct tree *doc;
    const char *path = arena_fmt(c->arena, "%s/%s", folder, MANIFEST_NAME);
    if (!fs_exists(&live, c->arena, path)) {
        return;
    }
    struct tree_limits limits = {.bytes = MAX_MANIFEST, .nodes = 8000000, .depth = 8};
    if (fs_read(&live, c->arena, path, MAX_MANIFEST, &text, &err) != ST_OK ||
        tree_from_json(c->arena, text, path, limits, &doc, &err) != ST_OK) {
        c->issues->file = path;
        issue_add(c->issues, SEVERITY_ERROR, "manifest-unreadable", "the manifest cannot be read",
                  "%s.", err.text);
        return;
    }
    const struct tree *files = tree_get(doc, "files");
    if (strcmp(tree_text(doc, "assay_manifest", ""), "1") != 0 || files == NULL) {
        c->issues->file = path;
        issue_add(c->issues, SEVERITY_ERROR, "manifest-unreadable", "the manifest cannot be read",
                  "It has no \"assay_manifest\": 1 with a list of files.");
        return;
    }
    for (const struct tree *e = files->child; e != NULL; e = e->next) {
        want_file(c, h, folder, e, path);
    }
}

/* "<hex>  <name>" or "<hex> *<name>", one a line. */
static void want_list(struct checkpoint *c, struct hashing *h, const char *folder, const char *name,
                      enum digest_kind kind)
{
    size_t digits = kind == DIGEST_MD5 ? 32 : 64;
    struct str text;
    struct str line;
    const char *path = arena_fmt(c->arena, "%s/%s", folder, name);
    if (h->options->fast || fs_read(&live, c->arena, path, 16 << 20, &text, NULL) != ST_OK) {
        return;
    }
    while (str_cut_line(&text, &line)) {
        if (line.n < digits + 3 || line.p[digits] != ' ') {
            continue;
        }
        struct str file = str_slice(line, digits + 2, line.n);
        file = str_starts(file, "./") ? str_slice(file, 2, file.n) : file;
        const char *full = arena_fmt(c->arena, "%s/%.*s", folder, STR_ARG(file));
        const struct checkpoint_file *f = file_at(c, full);
        if (f != NULL && f->tensors != NULL) {
            const struct file_map *map = &f->tensors->map;
            want(add(c, h, kind, map, 0, map->n), NULL,
                 str_dup(c->arena, str_slice(line, 0, digits)), path);
        } else if (f == NULL && c->is_folder && !fs_exists(&live, c->arena, full)) {
            missing(c, path, str_dup(c->arena, file));
        }
    }
}

static void judge(struct checkpoint *c, const struct item *i)
{
    static const char *const names[DIGEST_COUNT] = {"SHA-256", "MD5", "XXH3"};
    c->issues->file = i->map->path;
    if (i->status != ST_OK) {
        issue_add(c->issues, SEVERITY_UNKNOWN, "hash-unread", "a hash could not be taken", "%s.",
                  i->err.text);
        return;
    }
    if (strcasecmp(i->digest.hex, i->wanted) == 0) {
        return;
    }
    const char *part = i->what != NULL          ? arena_fmt(c->arena, "tensor '%s'",
                                                            issue_text(c->arena, str_of(i->what)))
                       : i->kind == DIGEST_XXH3 ? "the header"
                                                : "the file";
    issue_add(c->issues, SEVERITY_ERROR,
              i->what != NULL ? "manifest-tensor-differs" : "manifest-file-differs",
              i->what != NULL ? "a tensor is not what the manifest says"
                              : "a file is not what its checksum says",
              "%s of %s is %s; '%s' says %s.", names[i->kind], part, i->digest.hex, i->source,
              issue_text(c->arena, str_of(i->wanted)));
}

static void want_folder(struct checkpoint *c, struct hashing *h, const char *folder)
{
    want_manifest(c, h, folder);
    want_list(c, h, folder, "sha256sum.txt", DIGEST_SHA256);
    want_list(c, h, folder, "SHA256SUMS", DIGEST_SHA256);
    want_list(c, h, folder, "md5sum.txt", DIGEST_MD5);
}

void manifest_check(struct checkpoint *c, const struct manifest_options *options)
{
    struct hashing h = {.options = options};
    for (size_t i = 0; i < c->folders.count; i++) {
        want_folder(c, &h, c->folders.items[i]);
    }
    const char *slash = strrchr(c->path, '/');
    if (!c->is_folder && slash != NULL) {
        want_folder(c, &h, str_dup(c->arena, (struct str){c->path, (size_t)(slash - c->path)}));
    }
    run(&h);
    for (size_t i = 0; i < h.items.count; i++) {
        judge(c, &h.items.items[i]);
    }
    c->issues->file = c->path;
}
