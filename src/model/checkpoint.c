// SPDX-License-Identifier: Apache-2.0
/* Finding and opening the files of a checkpoint. */
#include "model/checkpoint.h"

#include <string.h>

#include "base/fs.h"

static const struct fs live = {.prefix = ""};

static const char *const model_suffixes[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth"};

/* What half a download is called. */
static const char *const partial_suffixes[] = {".part", ".incomplete", ".crdownload", ".aria2",
                                               ".tmp"};

static bool ends_with_any(const char *name, const char *const *suffixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_ends(str_of(name), suffixes[i])) {
            return true;
        }
    }
    return false;
}

const char *checkpoint_foreign(struct str head)
{
    static const struct {
        const char *start;
        const char *what;
    } rows[] = {
        {"version https://git-lfs", "a git-LFS pointer"},
        {"<!DOCTYPE", "an HTML page"},
        {"<!doctype", "an HTML page"},
        {"<html", "an HTML page"},
        {"<?xml", "an XML page"},
        {"{\"error\"", "an error message"},
        {"Entry not found", "an error message"},
        {"\x1f\x8b", "gzip data"},
        {"(\xb5/\xfd", "zstd data"},
        {"\x7f"
         "ELF",
         "a program or library"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_starts(head, rows[i].start)) {
            return rows[i].what;
        }
    }
    size_t zeros = 0;
    while (zeros < head.n && head.p[zeros] == '\0') {
        zeros++;
    }
    return head.n == 0 ? "an empty file" : zeros == head.n ? "a block of zeros" : NULL;
}

/* The first bytes of a file; empty when it cannot be opened. */
static struct str head_of(struct arena *a, const char *path, uint64_t *ret_size)
{
    struct file_map map;
    struct str head = {.p = "", .n = 0};
    *ret_size = 0;
    if (file_map_open(path, &map, NULL) != ST_OK) {
        return head;
    }
    *ret_size = map.n;
    uint64_t n = map.n < 4096 ? map.n : 4096;
    if (file_map_populate(&map, 0, n, NULL) == ST_OK) {
        head = (struct str){.p = arena_copy(a, map.p, (size_t)n), .n = (size_t)n};
    }
    file_map_close(&map);
    return head;
}

static void add_foreign(struct checkpoint *c, struct checkpoint_file *f, enum status status,
                        const struct err *err)
{
    struct str head = head_of(c->arena, f->path, &f->size);
    const char *what = checkpoint_foreign(head);
    if (what != NULL) {
        f->format = what;
        issue_add(c->issues, SEVERITY_ERROR, "not-the-weights",
                  "the file is not what its name says", "It is %s of %llu bytes, not a model file.",
                  what, (unsigned long long)f->size);
        issue_remedy(c->issues, "Fetch the file itself ('git lfs pull', or download it again).");
        return;
    }
    f->format = "unreadable";
    bool denied = status == ST_DENIED || status == ST_IO;
    issue_add(c->issues, denied ? SEVERITY_UNKNOWN : SEVERITY_ERROR, "file-unreadable",
              "a model file cannot be read", "%s.", err->text);
}

static void add_file(struct checkpoint *c, const char *path, const char *name)
{
    if (c->files.count == CHECKPOINT_FILES) {
        return;
    }
    struct err err = {0};
    struct checkpoint_file f = {.path = path, .name = name};
    c->issues->file = path;
    struct str head = head_of(c->arena, path, &f.size);
    enum status status = ST_FORMAT;
    if (checkpoint_foreign(head) == NULL) {
        status = tensor_file_open(c->arena, path, c->issues, &f.tensors, &err);
    }
    if (status == ST_OK) {
        f.size = f.tensors->map.n;
        f.format = f.tensors->format->name;
    } else {
        f.tensors = NULL;
        add_foreign(c, &f, status, &err);
    }
    c->issues->file = c->path;
    *VEC_PUSH(c->arena, &c->files) = f;
}

static void add_partial(struct checkpoint *c, const char *path)
{
    c->issues->file = path;
    issue_add(c->issues, SEVERITY_WARNING, "half-written",
              "a download or a save did not come to its end",
              "The name is that of a file that is still being written.");
    c->issues->file = c->path;
}

/* One folder; sub-folders are appended and visited in turn. */
static enum status visit(struct checkpoint *c, const char *folder, const char *prefix,
                         unsigned depth, struct err *err)
{
    const char *const *names;
    size_t count;
    TRY(fs_list(&live, c->arena, folder, &names, &count, err));
    *VEC_PUSH(c->arena, &c->folders) = folder;
    for (size_t i = 0; i < count; i++) {
        const char *path = arena_fmt(c->arena, "%s/%s", folder, names[i]);
        const char *name = arena_fmt(c->arena, "%s%s", prefix, names[i]);
        if (fs_is_dir(&live, c->arena, path)) {
            struct err ignored;
            if (names[i][0] != '.' && depth < CHECKPOINT_DEPTH) {
                (void)!visit(c, path, arena_fmt(c->arena, "%s/", name), depth + 1, &ignored);
            }
        } else if (ends_with_any(name, partial_suffixes, ARRAY_LEN(partial_suffixes))) {
            add_partial(c, path);
        } else if (ends_with_any(name, model_suffixes, ARRAY_LEN(model_suffixes))) {
            add_file(c, path, name);
        }
    }
    return ST_OK;
}

enum status checkpoint_open(struct arena *a, const char *path, struct issues *issues,
                            struct checkpoint *ret_checkpoint, struct err *err)
{
    struct checkpoint c = {.arena = a, .path = path, .issues = issues};
    struct stat st;
    TRY(fs_stat(&live, a, path, &st, err));
    c.is_folder = S_ISDIR(st.st_mode);
    if (c.is_folder) {
        TRY(visit(&c, path, "", 0, err));
    } else {
        const char *slash = strrchr(path, '/');
        add_file(&c, path, slash != NULL ? slash + 1 : path);
    }
    *ret_checkpoint = c;
    return ST_OK;
}

void checkpoint_close(struct checkpoint *c)
{
    for (size_t i = 0; i < c->files.count; i++) {
        tensor_file_close(c->files.items[i].tensors);
    }
}
