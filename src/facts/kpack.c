// SPDX-License-Identifier: Apache-2.0
/* Archives by their table of contents; no kernel is decompressed. */
#include "facts/kpack.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/vec.h"

#include "facts/msgpack.h"

#define PLACEHOLDER "@GFXARCH@"

enum {
    HEADER_SIZE = 16,
    WRAPPER_SIZE = 24,
    HIPK_MAGIC = 0x4B504948,
    MAX_PATHS = 256,
    MAX_TARGET = 128,
};

bool kpack_is_archive(struct str bytes)
{
    return bytes.n >= 4 && memcmp(bytes.p, "KPAK", 4) == 0;
}

bool kpack_is_reference(const struct elf *elf)
{
    struct str s;
    if (elf_section(elf, ".rocm_kpack_ref", &s) == ST_OK) {
        return true;
    }
    return elf_section(elf, ".hipFatBinSegment", &s) == ST_OK && s.n >= WRAPPER_SIZE &&
           bytes_le32(s.p) == HIPK_MAGIC;
}

/* "lib/librocrand.so.1#0" belongs to "lib/librocrand.so.1": one entry a translation unit. */
static bool key_matches(struct str key, const char *kernel_name)
{
    if (kernel_name == NULL) {
        return true;
    }
    size_t hash = key.n;
    while (hash != 0 && key.p[hash - 1] != '#') {
        hash--;
    }
    return str_is(hash != 0 ? str_slice(key, 0, hash - 1) : key, kernel_name);
}

/* The map from target to code of one binary. */
static bool read_targets(struct msgpack *m, bool wanted, struct gpu_code_sink *sink)
{
    struct msgpack_item map;
    if (!msgpack_next(m, &map) || map.kind != MSGPACK_MAP) {
        return false;
    }
    for (uint64_t i = 0; i < map.count; i++) {
        struct str target;
        if (!msgpack_string(m, &target) || target.n > MAX_TARGET) {
            return false;
        }
        struct msgpack size_at;
        struct msgpack_item size = {0};
        if (msgpack_find(m, "original_size", &size_at)) {
            (void)msgpack_next(&size_at, &size);
        }
        if (!msgpack_skip(m)) {
            return false;
        }
        if (wanted) {
            sink->found(sink->ctx, target, GPU_CODE_KPACK,
                        size.kind == MSGPACK_UNSIGNED ? size.number : 0);
        }
    }
    return true;
}

static enum status read_toc(struct str toc, const char *kernel_name, struct gpu_code_sink *sink,
                            struct err *err)
{
    struct msgpack top = {.data = toc};
    struct msgpack m;
    struct msgpack_item map;
    if (!msgpack_find(&top, "toc", &m) || !msgpack_next(&m, &map) || map.kind != MSGPACK_MAP) {
        return err_set(err, ST_FORMAT, "the kpack archive has no readable table of contents");
    }
    for (uint64_t i = 0; i < map.count; i++) {
        struct str key;
        if (!msgpack_string(&m, &key) || !read_targets(&m, key_matches(key, kernel_name), sink)) {
            return err_set(
                err, ST_FORMAT,
                "the table of contents of the kpack archive is damaged at entry %" PRIu64, i);
        }
    }
    return ST_OK;
}

void kpack_read_archive(struct str bytes, const char *kernel_name, struct gpu_code_sink *sink)
{
    struct err err = {0};
    struct str head;
    sink->containers++;
    if (!kpack_is_archive(bytes) || !bytes_view(bytes, 0, HEADER_SIZE, &head)) {
        err_set(&err, ST_FORMAT, "this is not a kpack archive");
        gpu_code_unreadable(sink, &err);
        return;
    }
    uint64_t toc = bytes_le64(head.p + 8);
    uint32_t version = bytes_le32(head.p + 4);
    if (version != 1) {
        err_set(&err, ST_UNSUPPORTED, "kpack archive of version %" PRIu32 "; only 1 is known",
                version);
    } else if (toc < HEADER_SIZE || toc >= bytes.n) {
        err_set(&err, ST_FORMAT,
                "the kpack archive's table of contents lies beyond its end (at %" PRIu64
                " of %zu bytes): is the file cut short?",
                toc, bytes.n);
    } else {
        (void)read_toc(str_slice(bytes, (size_t)toc, bytes.n), kernel_name, sink, &err);
    }
    if (err.status != ST_OK) {
        gpu_code_unreadable(sink, &err);
    }
}

struct archive_list {
    const char **items;
    size_t count;
    size_t capacity;
};

static void add_archive(const struct fs *fs, struct arena *a, struct archive_list *list,
                        const char *path)
{
    const char *real;
    if (list->count >= MAX_PATHS || !fs_exists(fs, a, path) ||
        fs_realpath(fs, a, path, &real, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], real) == 0) {
            return;
        }
    }
    *VEC_PUSH(a, list) = real;
}

/* "dir/rand_@GFXARCH@.kpack": every file of dir with that beginning and end. */
static void add_pattern(const struct fs *fs, struct arena *a, struct archive_list *list,
                        struct str path)
{
    size_t hole = str_find(path, PLACEHOLDER, 0);
    size_t slash = hole;
    while (slash != 0 && path.p[slash - 1] != '/') {
        slash--;
    }
    struct str front = str_slice(path, slash, hole);
    struct str back = str_slice(path, hole + strlen(PLACEHOLDER), path.n);
    const char *dir = str_dup(a, str_slice(path, 0, slash));
    const char *const *names;
    size_t count;
    if (str_find_char(back, '/', 0) != SIZE_MAX ||
        fs_list(fs, a, dir, &names, &count, NULL) != ST_OK) {
        return;
    }
    const char *begin = str_dup(a, front);
    const char *end = str_dup(a, back);
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        if (name.n >= front.n + back.n && str_starts(name, begin) && str_ends(name, end)) {
            add_archive(fs, a, list, arena_fmt(a, "%s%s", dir, names[i]));
        }
    }
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static enum status parse_reference(struct arena *a, struct str bytes, struct kpack_reference *ret,
                                   struct err *err)
{
    struct msgpack top = {.data = bytes};
    struct msgpack m;
    struct str name;
    struct msgpack_item list;
    if (!msgpack_find(&top, "kernel_name", &m) || !msgpack_string(&m, &name) ||
        !msgpack_find(&top, "kpack_search_paths", &m) || !msgpack_next(&m, &list) ||
        list.kind != MSGPACK_LIST) {
        return err_set(err, ST_FORMAT, "section .rocm_kpack_ref is damaged");
    }
    VEC_OF(const char *) paths = {0};
    for (uint64_t i = 0; i < list.count && i < MAX_PATHS; i++) {
        struct str path;
        if (!msgpack_string(&m, &path)) {
            return err_set(err, ST_FORMAT, "a search path in .rocm_kpack_ref is not text");
        }
        *VEC_PUSH(a, &paths) = str_dup(a, path);
    }
    ret->kernel_name = str_dup(a, name);
    ret->search_paths = paths.items;
    ret->search_path_count = paths.count;
    return ST_OK;
}

enum status kpack_read_reference(const struct fs *fs, struct arena *a, const struct elf *elf,
                                 const char *path, struct kpack_reference *ret_reference,
                                 struct err *err)
{
    struct str section;
    if (elf_section(elf, ".rocm_kpack_ref", &section) != ST_OK) {
        return err_set(err, ST_FORMAT, "'%s' says its GPU code is in kpack archives, but not where",
                       path);
    }
    struct kpack_reference r = {0};
    TRY(parse_reference(a, section, &r, err));
    /* The loader starts from where the library really lies, not from the link that led there. */
    const char *real;
    TRY(fs_realpath(fs, a, path, &real, err));
    struct str dir = str_of(real);
    while (dir.n != 0 && dir.p[dir.n - 1] != '/') {
        dir.n--;
    }
    struct archive_list found = {0};
    for (size_t i = 0; i < r.search_path_count; i++) {
        const char *p = r.search_paths[i];
        struct str full = str_of(p[0] == '/' ? p : arena_fmt(a, "%.*s%s", STR_ARG(dir), p));
        if (str_has(full, PLACEHOLDER)) {
            add_pattern(fs, a, &found, full);
        } else {
            add_archive(fs, a, &found, full.p);
        }
    }
    if (found.count > 1) {
        qsort(found.items, found.count, sizeof *found.items, by_text);
    }
    r.archives = found.items;
    r.archive_count = found.count;
    *ret_reference = r;
    return ST_OK;
}
