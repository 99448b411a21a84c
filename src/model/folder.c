// SPDX-License-Identifier: Apache-2.0
/* The table of folder kinds, what is wrong in any folder, and small helpers of the kinds. */
#include "model/folder.h"

#include <stdarg.h>
#include <string.h>

#include "base/fs.h"

static const struct folder_kind *const kinds[] = {
    &folder_kind_model, &folder_kind_trainer, &folder_kind_adapter,
    &folder_kind_zero,  &folder_kind_dcp,     &folder_kind_megatron,
};

static const struct fs live = {.prefix = ""};

enum {
    MAX_TEXT = 512 << 20, /* trainer_state.json of a long run has a line for every step */
    MAX_JSON = 64 << 20
};

const char *folder_join(const struct folder *f, const char *name)
{
    return arena_fmt(f->arena, "%s/%s", f->path, name);
}

bool folder_open(struct arena *a, const char *path, struct issues *issues, struct folder *ret,
                 struct err *err)
{
    *ret = (struct folder){.arena = a, .path = path, .issues = issues};
    return fs_list(&live, a, path, &ret->names, &ret->count, err) == ST_OK;
}

bool folder_has(const struct folder *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void folder_issue(const struct folder *f, enum severity severity, const char *id, const char *title,
                  const char *name, const char *fmt, ...)
{
    struct strbuf text;
    strbuf_init(&text, f->arena, 2000);
    va_list ap;
    va_start(ap, fmt);
    strbuf_vfmt(&text, fmt, ap);
    va_end(ap);
    const char *before = f->issues->file;
    f->issues->file = folder_join(f, name);
    issue_add(f->issues, severity, id, title, "%s", strbuf_str(&text).p);
    f->issues->file = before;
}

bool folder_size(const struct folder *f, const char *name, uint64_t *ret_bytes)
{
    struct stat st;
    if (fs_stat(&live, f->arena, folder_join(f, name), &st, NULL) != ST_OK ||
        !S_ISREG(st.st_mode)) {
        return false;
    }
    *ret_bytes = (uint64_t)st.st_size;
    return true;
}

bool folder_torch_open(const struct folder *f, const char *name, struct folder_torch *ret)
{
    *ret = (struct folder_torch){0};
    if (file_map_open(folder_join(f, name), &ret->map, NULL) != ST_OK) {
        return false;
    }
    struct str bytes = file_map_str(&ret->map);
    if (torch_looks_like(bytes) && torch_read(f->arena, bytes, NULL, &ret->file, NULL) == ST_OK) {
        return true;
    }
    file_map_close(&ret->map);
    return false;
}

void folder_torch_close(struct folder_torch *t)
{
    file_map_close(&t->map);
}

bool folder_text(const struct folder *f, const char *name, struct str *ret)
{
    if (fs_read(&live, f->arena, folder_join(f, name), MAX_TEXT, ret, NULL) != ST_OK) {
        return false;
    }
    *ret = str_trim(*ret);
    return true;
}

bool folder_json(const struct folder *f, const char *name, const struct tree **ret)
{
    struct str text;
    return fs_read(&live, f->arena, folder_join(f, name), MAX_JSON, &text, NULL) == ST_OK &&
           tree_from_json(f->arena, text, name, TREE_LIMITS_DEFAULT, ret, NULL) == ST_OK;
}

bool folder_number(const char *name, const char *prefix, const char *suffix, uint64_t *ret)
{
    struct str s = str_of(name);
    size_t before = strlen(prefix);
    size_t after = strlen(suffix);
    if (s.n <= before + after || !str_starts(s, prefix) || !str_ends(s, suffix)) {
        return false;
    }
    struct str digits = str_slice(s, before, s.n - after);
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9') {
            return false;
        }
    }
    return str_to_u64(digits, 10, ret) == ST_OK;
}

/* Empty files of kinds that no reader of tensors opens, which says it of the others. */
static void check_empty_files(const struct folder *f)
{
    static const char *const suffixes[] = {".distcp", ".metadata"};
    for (size_t i = 0; i < f->count; i++) {
        struct str name = str_of(f->names[i]);
        uint64_t size;
        for (size_t k = 0; k < ARRAY_LEN(suffixes); k++) {
            if (str_ends(name, suffixes[k]) && folder_size(f, f->names[i], &size) && size == 0) {
                folder_issue(f, SEVERITY_ERROR, "folder-empty-file", "An empty file", f->names[i],
                             "\"%s\" has no content: the disk was full, or the save stopped.",
                             issue_text(f->arena, name));
            }
        }
    }
}

enum status folder_check(struct arena *a, const char *path, struct issues *issues,
                         struct text_list *ret_kinds, struct err *err)
{
    struct folder f;
    struct str name = str_of(path);
    while (name.n > 1 && name.p[name.n - 1] == '/') {
        name.n--;
    }
    path = str_dup(a, name); /* the last part of the path is looked at */
    struct err why = {.status = ST_OK};
    if (!folder_open(a, path, issues, &f, &why)) {
        return err_set(err, why.status, "%s", why.text);
    }
    check_empty_files(&f);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (kinds[i]->matches(&f)) {
            *VEC_PUSH(a, ret_kinds) = kinds[i]->name;
            kinds[i]->check(&f);
        }
    }
    return ST_OK;
}
