// SPDX-License-Identifier: Apache-2.0
/*
 * The ZIP form of torch.save: <folder>/data.pkl, <folder>/data/<key> for every storage, and a few
 * small members that say how they are to be read. Any other member is reported: torch writes none.
 */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

#include "model/torch_file.h"

enum {
    MAX_PICKLE = 1 << 30,
    MAX_SMALL = 4096,
    WINDOW = 8 << 20
};

/* Name of a member behind "<folder>/", or an empty view when it lies elsewhere. */
static struct str inside(const struct torch_file *f, struct str name)
{
    if (name.n <= f->folder.n + 1 || memcmp(name.p, f->folder.p, f->folder.n) != 0 ||
        name.p[f->folder.n] != '/') {
        return (struct str){.p = "", .n = 0};
    }
    return str_slice(name, f->folder.n + 1, name.n);
}

/* The one member "<folder>/<name>", or SIZE_MAX. */
static size_t find_inside(const struct torch_file *f, const char *name)
{
    for (size_t i = f->zip.count; i-- > 0;) {
        if (str_is(inside(f, f->zip.members[i].name), name)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Index of the data.pkl; several are an issue, the first one counts (torch takes the first folder). */
static size_t find_pickle(const struct torch_file *f, struct issues *issues)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < f->zip.count; i++) {
        struct str name = f->zip.members[i].name;
        size_t slash = str_find_char(name, '/', 0);
        if (slash == SIZE_MAX || !str_is(str_slice(name, slash + 1, name.n), "data.pkl")) {
            continue;
        }
        if (found != SIZE_MAX) {
            issue_add(
                issues, SEVERITY_ERROR, "torch-two-pickles", "More than one data.pkl",
                "\"%s\" and \"%s\" are both there: scanners and torch may read different ones.",
                issue_text(f->arena, f->zip.members[found].name), issue_text(f->arena, name));
            continue;
        }
        found = i;
    }
    return found;
}

static void read_byte_order(struct torch_file *f, struct issues *issues)
{
    size_t i = find_inside(f, "byteorder");
    struct str text;
    struct err err;
    if (i == SIZE_MAX) {
        return; /* before torch 2.1: the machine's own, little-endian */
    }
    enum status st = zip_read(f->arena, &f->zip, i, MAX_SMALL, &text, &err);
    f->big_endian = st == ST_OK && str_is(text, "big");
    if (st != ST_OK || (!f->big_endian && !str_is(text, "little"))) {
        issue_add(issues, SEVERITY_ERROR, "torch-byte-order", "The byte order is not told",
                  "The member \"byteorder\" is neither \"little\" nor \"big\".");
    }
    if (f->big_endian) {
        issue_add(issues, SEVERITY_UNKNOWN, "torch-big-endian", "Written on a big-endian machine",
                  "Storages are in big-endian order; their values are not looked at.");
    }
}

/* The members besides storages that torch writes. */
static bool is_torch_member(struct str name)
{
    static const char *const names[] = {
        "data.pkl",        "byteorder",          "version",
        ".format_version", ".storage_alignment", ".data/serialization_id"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(name, names[i])) {
            return true;
        }
    }
    return false;
}

static void check_foreign(struct torch_file *f, size_t index, struct issues *issues)
{
    struct str name = f->zip.members[index].name;
    struct str text;
    struct err err;
    bool script = str_starts(inside(f, name), "code/") || str_is(inside(f, name), "constants.pkl");
    if (script && issues_count(issues, "torch-script") == 0) {
        issue_add(issues, SEVERITY_ERROR, "torch-script", "A TorchScript program, not a checkpoint",
                  "The archive carries code (\"%s\"). Loading it gives a program that can run; its "
                  "code is not looked at here.",
                  issue_text(f->arena, name));
    } else if (!script) {
        issue_add(issues, SEVERITY_ERROR, "torch-foreign-member",
                  "A member that torch does not write", "\"%s\" (%" PRIu64 " bytes).",
                  issue_text(f->arena, name), f->zip.members[index].size);
    }
    if (zip_read(f->arena, &f->zip, index, MAX_PICKLE / 16, &text, &err) == ST_OK) {
        torch_check_hidden(f->arena, text, issue_text(f->arena, name), issues);
    }
}

static void locate(struct torch_file *f, size_t index, struct torch_storage *s,
                   struct issues *issues)
{
    const struct zip_member *m = &f->zip.members[index];
    uint64_t want;
    const char *key = issue_text(f->arena, s->key);
    if (!m->readable || s->type == NULL) {
        return;
    }
    if (__builtin_mul_overflow(s->elements, (uint64_t)s->type->block_bytes, &want) ||
        want != m->size) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-size", "A storage of another size",
                  "Storage \"%s\" holds %" PRIu64 " bytes; the pickle says %" PRIu64
                  " elements of %u bytes.",
                  key, m->size, s->elements, s->type->block_bytes);
        return;
    }
    if (m->method != 0) {
        issue_add(issues, SEVERITY_UNKNOWN, "torch-deflated", "A compressed storage",
                  "Storage \"%s\" is deflated, which torch does not do. Its values were not looked "
                  "at.",
                  key);
        return;
    }
    s->at = m->data_at;
    s->bytes = m->size;
    s->present = !f->big_endian || s->type->block_bytes == 1;
    struct str head = bytes_clip(f->bytes, s->at, s->bytes < MAX_PICKLE ? s->bytes : MAX_PICKLE);
    torch_check_hidden(f->arena, head, arena_fmt(f->arena, "storage %s", key), issues);
}

/* Members against storages, both ways. */
static void check_members(struct torch_file *f, struct issues *issues)
{
    struct map *seen = map_new(f->arena);
    for (size_t i = 0; i < f->zip.count; i++) {
        struct str name = inside(f, f->zip.members[i].name);
        if (is_torch_member(name)) {
            continue;
        }
        struct str key = str_starts(name, "data/") ? str_slice(name, 5, name.n) : STR("");
        struct torch_storage *s = key.n > 0 ? map_get(f->storages, key) : NULL;
        if (s != NULL) {
            map_put(seen, key, s);
            locate(f, i, s, issues);
        } else if (key.n > 0) {
            issue_add(issues, SEVERITY_ERROR, "torch-storage-unused",
                      "A storage that nothing refers to",
                      "Member \"%s\" holds a storage that the pickle does not name.",
                      issue_text(f->arena, f->zip.members[i].name));
            check_foreign(f, i, NULL);
        } else {
            check_foreign(f, i, issues);
        }
    }
    for (size_t i = 0; i < map_count(f->storages); i++) {
        const struct torch_storage *s = map_value(f->storages, i);
        if (map_get(seen, s->key) == NULL) {
            issue_add(issues, SEVERITY_ERROR, "torch-storage-missing", "A storage is missing",
                      "The pickle names storage \"%s\" (%s, %" PRIu64
                      " elements); the archive does not hold it.",
                      issue_text(f->arena, s->key), issue_text(f->arena, str_of(s->class_name)),
                      s->elements);
        }
    }
}

/* torch.export.save and AOTInductor write programs, with archives of tensors inside. */
static bool is_exported(const struct torch_file *f)
{
    for (size_t i = 0; i < f->zip.count; i++) {
        struct str text;
        struct str name = f->zip.members[i].name;
        if ((str_is(name, "archive_format") || str_ends(name, "/archive_format")) &&
            zip_read(f->arena, &f->zip, i, MAX_SMALL, &text, NULL) == ST_OK) {
            return str_is(str_trim(text), "pt2");
        }
    }
    return false;
}

/* No data.pkl: whatever it is, pickles in it are looked at before it is refused. */
static enum status refuse(struct torch_file *f, struct issues *issues, struct err *err)
{
    if (is_exported(f)) {
        return err_set(
            err, ST_UNSUPPORTED,
            "a program that torch.export wrote (.pt2), not a checkpoint: it is not read");
    }
    for (size_t i = 0; i < f->zip.count; i++) {
        struct str text;
        if (zip_read(f->arena, &f->zip, i, MAX_PICKLE / 16, &text, NULL) == ST_OK) {
            torch_check_hidden(f->arena, text, issue_text(f->arena, f->zip.members[i].name),
                               issues);
        }
    }
    return err_set(err, ST_FORMAT,
                   "a ZIP archive of %zu members without <folder>/data.pkl: not what torch.save "
                   "writes",
                   f->zip.count);
}

static enum status read_pickle(struct torch_file *f, size_t at, struct issues *issues,
                               struct err *err)
{
    struct str text;
    enum status st = zip_read(f->arena, &f->zip, at, MAX_PICKLE, &text, err);
    if (st != ST_OK) {
        return err_context(err, "data.pkl");
    }
    st = pickle_read(f->arena, text, "data.pkl", PICKLE_LIMITS_DEFAULT, issues, &f->pickle, err);
    pickle_summary(&f->pickle, "data.pkl", issues);
    TRY(st);
    if (f->pickle.used < text.n) {
        issue_add(issues, SEVERITY_ERROR, "pickle-bytes-behind", "Bytes behind the pickle",
                  "data.pkl: %" PRIu64 " bytes follow its STOP.", text.n - f->pickle.used);
        torch_check_hidden(f->arena, str_slice(text, f->pickle.used, text.n),
                           "behind the STOP of data.pkl", issues);
    }
    return ST_OK;
}

enum status torch_read_zip(struct torch_file *f, struct issues *issues, struct err *err)
{
    f->form = TORCH_ZIP;
    TRY(zip_open(f->arena, f->bytes, issues, &f->zip, err));
    if (f->zip.without_sums) {
        issue_add(issues, SEVERITY_NOTE, "zip-without-checksums", "The archive has no checksums",
                  "Every CRC-32 is 0, as torch.serialization.set_crc32_options(False) writes it: "
                  "changed bytes cannot be told from others.");
    }
    size_t at = find_pickle(f, issues);
    if (at == SIZE_MAX) {
        return refuse(f, issues, err);
    }
    struct str name = f->zip.members[at].name;
    f->folder = str_slice(name, 0, str_find_char(name, '/', 0));
    TRY(read_pickle(f, at, issues, err));
    read_byte_order(f, issues);
    for (size_t i = 0; i < f->pickle.persistent.count; i++) {
        (void)torch_storage_of(f, f->pickle.persistent.items[i], issues);
    }
    check_members(f, issues);
    torch_collect(f, f->pickle.root, issues);
    return ST_OK;
}

size_t torch_sum_count(const struct torch_file *f)
{
    return f->form == TORCH_ZIP && !f->zip.without_sums ? f->zip.count : 0;
}

/* Window by window, so that no more of the file is held than that. */
static enum status sum_stored(const struct zip_member *m, const struct file_map *map, uint64_t at,
                              struct err *err)
{
    uint32_t crc = 0;
    for (uint64_t from = 0; from < m->size; from += WINDOW) {
        uint64_t n = m->size - from < WINDOW ? m->size - from : WINDOW;
        uint64_t place = at + m->data_at + from;
        TRY(file_map_populate(map, place, n, err));
        crc = zip_crc(crc, (struct str){.p = (const char *)map->p + place, .n = (size_t)n});
        file_map_release(map, place, n);
    }
    return zip_crc_judge(m, crc, err);
}

enum status torch_check_sum(const struct torch_file *f, const struct file_map *map, uint64_t at,
                            size_t index, struct err *err)
{
    const struct zip_member *m = &f->zip.members[index];
    enum status status = ST_OK;
    struct arena *a = NULL;
    if (!m->readable) {
        return ST_OK; /* its issue was added when the archive was opened */
    }
    if (m->method == 0 && m->packed == m->size) {
        status = sum_stored(m, map, at, err);
    } else {
        a = arena_new(0);
        status = zip_verify(a, &f->zip, index, err);
    }
    if (status == ST_FORMAT && err != NULL) {
        a = a == NULL ? arena_new(0) : a;
        status = err_context(err, "\"%s\"", issue_text(a, m->name));
    }
    if (a != NULL) {
        arena_free(a);
    }
    return status;
}
