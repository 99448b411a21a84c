// SPDX-License-Identifier: Apache-2.0
/*
 * Forms without an archive. Legacy (torch before 1.6, or _use_new_zipfile_serialization=False): the
 * pickles of a magic number, a protocol number and the machine's sizes, then the object, then the
 * list of storage keys, then every storage as an int64 count and its elements. And bare pickles.
 */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

#include "model/torch_file.h"

enum {
    LEGACY_PROTOCOL = 1001,
    MAX_PICKLES = 64, /* behind each other */
    PROTO_SIZE = 2,
    FRAME_SIZE = 9,
    MAGIC_SIZE = 13
};

/* LONG1 of ten bytes: 0x1950a86a20f9469cfc6c, STOP */
static const char magic[MAGIC_SIZE] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/* Bytes of the magic number's pickle, 0 when it is none: PROTO 2 to 5, from 4 on with a frame around it
 * (save(pickle_protocol=...)). */
static size_t magic_size(struct str b)
{
    if (b.n < PROTO_SIZE + MAGIC_SIZE || b.p[0] != '\x80' || b.p[1] < 2 || b.p[1] > 5) {
        return 0;
    }
    size_t at = PROTO_SIZE + (b.p[PROTO_SIZE] == '\x95' ? FRAME_SIZE : 0);
    bool there = b.n >= at + MAGIC_SIZE && memcmp(b.p + at, magic, MAGIC_SIZE) == 0;
    return there ? at + MAGIC_SIZE : 0;
}

static bool is_legacy(struct str b)
{
    return magic_size(b) != 0;
}

bool torch_looks_like(struct str b)
{
    return zip_looks_like(b) || is_legacy(b) || pickle_looks_like(b);
}

void torch_check_hidden(struct arena *a, struct str bytes, const char *where, struct issues *issues)
{
    if (issues == NULL || bytes.n < 4) {
        return;
    }
    unsigned char first = (unsigned char)bytes.p[0];
    bool archive = zip_looks_like(bytes) || memcmp(bytes.p, "7z\xbc\xaf", 4) == 0;
    bool likely = first == 0x80 || strchr("(c]}SVXNI", first) != NULL;
    if (archive) {
        issue_add(issues, SEVERITY_ERROR, "torch-hidden-archive", "An archive inside of the file",
                  "%s holds another archive. torch does not nest archives.", where);
        return;
    }
    if (!likely || first == 0) {
        return;
    }
    struct arena_mark mark = arena_mark(a);
    struct pickle p;
    struct pickle_limits few = {.values = 100000, .memo = 100000, .stack = 100000};
    enum status st = pickle_read(a, bytes, where, few, NULL, &p, NULL);
    bool runs = false;
    for (size_t i = 0; i < p.globals.count; i++) {
        runs = runs || p.globals.items[i]->standing == PICKLE_DANGEROUS ||
               (st == ST_OK && p.globals.items[i]->standing == PICKLE_OUTSIDE);
    }
    arena_rewind(a, mark);
    if (runs) {
        issue_add(issues, SEVERITY_ERROR, "torch-hidden-pickle", "A pickle where none belongs",
                  "%s is a pickle that names globals outside the list. torch.load does not read it "
                  "from there; something else may.",
                  where);
    }
}

enum status torch_read_pickles(struct torch_file *f, uint64_t at, struct issues *issues,
                               struct err *err)
{
    f->form = TORCH_PICKLE;
    unsigned n = 0;
    while (at < f->bytes.n && n < MAX_PICKLES) {
        struct pickle p;
        const char *what = arena_fmt(f->arena, n == 0 ? "pickle" : "pickle %u", n + 1);
        struct str rest = str_slice(f->bytes, (size_t)at, f->bytes.n);
        enum status st = pickle_read(f->arena, rest, what, PICKLE_LIMITS_DEFAULT, issues, &p, err);
        if (n == 0) {
            f->pickle = p;
        }
        if (n == 0 || p.globals.count > 0) {
            pickle_summary(&p, what, issues);
        }
        if (st != ST_OK && n > 0) {
            break; /* not a pickle: bytes behind */
        }
        TRY(st);
        at += p.used;
        n++;
    }
    if (n > 1) {
        issue_add(issues, SEVERITY_WARNING, "pickle-several", "Several pickles behind each other",
                  "%u pickles stand in one file. A loader that calls load() once sees the first.",
                  n);
    }
    if (at < f->bytes.n) {
        issue_add(issues, SEVERITY_ERROR, "pickle-bytes-behind", "Bytes behind the pickle",
                  "%" PRIu64 " bytes follow the last STOP.", f->bytes.n - at);
    }
    if (f->pickle.persistent.count > 0) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-missing", "Storages are missing",
                  "The pickle names %zu storages, but it stands alone: no archive around it, no "
                  "storages behind it.",
                  f->pickle.persistent.count);
    }
    torch_collect(f, f->pickle.root, issues);
    return ST_OK;
}

/* ---- the legacy stream ---- */

/* The next pickle of the stream; *at moves behind it. */
static enum status next_pickle(struct torch_file *f, uint64_t *at, const char *what,
                               struct issues *issues, struct pickle *ret, struct err *err)
{
    struct str rest = str_slice(f->bytes, (size_t)*at, f->bytes.n);
    TRY(pickle_read(f->arena, rest, what, PICKLE_LIMITS_DEFAULT, issues, ret, err));
    *at += ret->used;
    return ST_OK;
}

static void check_sizes(struct torch_file *f, const struct pickle *p, struct issues *issues)
{
    int64_t little = 1;
    if (pickle_int(pickle_get(p->root, "little_endian"), &little) && little == 0) {
        f->big_endian = true;
        issue_add(issues, SEVERITY_UNKNOWN, "torch-big-endian", "Written on a big-endian machine",
                  "Storages are in big-endian order; their values are not looked at.");
    }
}

/* One storage at *at: its count must be the pickle's, its bytes must be there. */
static bool read_storage(struct torch_file *f, struct torch_storage *s, uint64_t *at,
                         struct issues *issues)
{
    uint64_t size;
    const char *key = issue_text(f->arena, s->key);
    if (!bytes_has(f->bytes, *at, 8)) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-missing", "A storage is missing",
                  "The file ends before storage \"%s\": it is cut off.", key);
        return false;
    }
    uint64_t elements = bytes_le64(f->bytes.p + *at);
    *at += 8;
    if (s->type == NULL || elements != s->elements ||
        __builtin_mul_overflow(elements, (uint64_t)s->type->block_bytes, &size)) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-size", "A storage of another size",
                  "Storage \"%s\" counts %" PRIu64 " elements, the pickle says %" PRIu64
                  ". What follows cannot be found.",
                  key, elements, s->elements);
        return false;
    }
    if (!bytes_has(f->bytes, *at, size)) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-missing", "A storage is missing",
                  "Storage \"%s\" needs %" PRIu64 " bytes, %" PRIu64
                  " are left: the file is cut off.",
                  key, size, f->bytes.n - *at);
        return false;
    }
    s->at = *at;
    s->bytes = size;
    s->present = !f->big_endian || s->type->block_bytes == 1;
    *at += size;
    return true;
}

static void read_storages(struct torch_file *f, const struct pickle_value *keys, uint64_t at,
                          struct issues *issues)
{
    struct map *seen = map_new(f->arena);
    bool fine = keys->kind == PICKLE_LIST;
    for (uint32_t i = 0; fine && i < keys->count; i++) {
        const struct pickle_value *key = keys->items[i];
        struct torch_storage *s = key->kind == PICKLE_TEXT ? map_get(f->storages, key->text) : NULL;
        if (s == NULL || map_get(seen, s->key) != NULL) {
            issue_add(issues, SEVERITY_ERROR, "torch-storage-unused",
                      "A storage that nothing refers to",
                      "Entry %u of the list of storages is none that the pickle names, or is "
                      "there twice.",
                      i);
            return;
        }
        map_put(seen, s->key, s);
        fine = read_storage(f, s, &at, issues);
    }
    if (map_count(seen) < map_count(f->storages)) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-missing", "Storages are missing",
                  "%zu of %zu storages that the pickle names are not in the file.",
                  map_count(f->storages) - map_count(seen), map_count(f->storages));
    } else if (fine && at < f->bytes.n) {
        issue_add(issues, SEVERITY_ERROR, "torch-bytes-behind", "Bytes behind the last storage",
                  "%" PRIu64 " bytes follow the last storage.", f->bytes.n - at);
    }
}

enum status torch_read_legacy(struct torch_file *f, struct issues *issues, struct err *err)
{
    struct pickle p;
    struct pickle keys;
    int64_t protocol;
    uint64_t at = magic_size(f->bytes);
    f->form = TORCH_LEGACY;
    TRY(next_pickle(f, &at, "protocol number", issues, &p, err));
    if (!pickle_int(p.root, &protocol) || protocol != LEGACY_PROTOCOL) {
        return err_set(err, ST_FORMAT, "the legacy stream is not of protocol %d", LEGACY_PROTOCOL);
    }
    TRY(next_pickle(f, &at, "machine sizes", issues, &p, err));
    check_sizes(f, &p, issues);
    enum status st = next_pickle(f, &at, "object", issues, &f->pickle, err);
    pickle_summary(&f->pickle, "object", issues);
    TRY(st);
    TRY(next_pickle(f, &at, "storage keys", issues, &keys, err));
    for (size_t i = 0; i < f->pickle.persistent.count; i++) {
        (void)torch_storage_of(f, f->pickle.persistent.items[i], issues);
    }
    read_storages(f, keys.root, at, issues);
    torch_collect(f, f->pickle.root, issues);
    return ST_OK;
}

enum status torch_read(struct arena *a, struct str bytes, struct issues *issues,
                       struct torch_file *ret_file, struct err *err)
{
    struct torch_file f = {
        .arena = a, .bytes = bytes, .storages = map_new(a), .by_name = map_new(a)};
    enum status st = zip_looks_like(bytes) ? torch_read_zip(&f, issues, err)
                     : is_legacy(bytes)    ? torch_read_legacy(&f, issues, err)
                                           : torch_read_pickles(&f, 0, issues, err);
    *ret_file = f;
    return st;
}
