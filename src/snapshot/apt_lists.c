// SPDX-License-Identifier: Apache-2.0
/* See apt_lists.h. Files: apt/lists/NAME_Packages, plain or with .gz, .zst, .lz4; /var/cache/apt/archives. */
#include "snapshot/apt_lists.h"

#include <string.h>

#include "base/input.h"
#include "base/map.h"

#include "snapshot/dpkg.h"
#include "snapshot/lz4.h"

#define LISTS    "/var/lib/apt/lists"
#define ARCHIVES "/var/cache/apt/archives"

enum {
    LIST_MAX = 512 << 20
};

static enum status read_input(struct arena *a, const char *host_path, struct str *ret_text,
                              struct err *err)
{
    struct input *in;
    struct strbuf out;
    char buffer[1 << 16];
    size_t n = 0;
    strbuf_init(&out, a, LIST_MAX);
    TRY(input_open(a, host_path, NULL, &in, err));
    enum status status;
    while ((status = input_read(in, buffer, sizeof buffer, &n, err)) == ST_OK && n != 0) {
        strbuf_add(&out, (struct str){.p = buffer, .n = n});
    }
    input_close(in);
    *ret_text = strbuf_str(&out);
    return status;
}

static enum status read_list(struct arena *a, const struct fs *fs, const char *name,
                             struct str *ret_text, struct err *err)
{
    const char *path = arena_fmt(a, LISTS "/%s", name);
    if (str_ends(str_of(name), ".lz4")) {
        struct str packed;
        TRY(fs_read(fs, a, path, LIST_MAX, &packed, err));
        return lz4_unpack(a, packed, path, LIST_MAX, ret_text, err);
    }
    const char *host;
    TRY(fs_resolve(fs, a, path, &host, err));
    return read_input(a, host, ret_text, err);
}

static bool is_list(const char *name)
{
    static const char *const ends[] = {"_Packages", "_Packages.gz", "_Packages.zst",
                                       "_Packages.lz4"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (str_ends(str_of(name), ends[i])) {
            return true;
        }
    }
    return false;
}

static void take_paragraph(const struct map *by_name, const struct dpkg_paragraph *p)
{
    uint64_t size;
    struct rollback_package *one = map_get(by_name, p->package);
    bool same = one != NULL && one->wanted != NULL && str_is(p->version, one->wanted);
    if (same && one->source != ROLLBACK_CACHED) {
        one->source = ROLLBACK_LISTED;
        if (str_to_u64(p->size, 10, &size) == ST_OK && size < ((uint64_t)1 << 40)) {
            one->download_bytes = (int64_t)size;
        }
    }
}

/* "rocm-core_1%3a6.2_amd64.deb": the colon of an epoch is written as %3a. */
static void look_into_cache(struct arena *a, const struct fs *fs, struct rollback *r)
{
    const char *const *names;
    size_t count;
    if (fs_list(fs, a, ARCHIVES, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < r->packages.count; i++) {
        struct rollback_package *p = &r->packages.items[i];
        if (p->wanted == NULL) {
            continue;
        }
        struct strbuf start;
        struct str name;
        struct str rest = str_of(p->name);
        strbuf_init(&start, a, 1000);
        (void)str_cut(&rest, ':', &name);
        strbuf_add(&start, name);
        strbuf_addc(&start, '_');
        for (const char *c = p->wanted; *c != '\0'; c++) {
            if (*c == ':') {
                strbuf_addz(&start, "%3a");
            } else {
                strbuf_addc(&start, *c);
            }
        }
        strbuf_addc(&start, '_');
        for (size_t k = 0; k < count; k++) {
            if (str_starts(str_of(names[k]), start.p) && str_ends(str_of(names[k]), ".deb")) {
                p->source = ROLLBACK_CACHED;
                p->download_bytes = 0;
            }
        }
    }
}

void apt_lists_look_up(struct arena *a, const struct fs *fs, struct rollback *r)
{
    struct arena *scratch = arena_new(0);
    const char *const *names;
    size_t count;
    look_into_cache(scratch, fs, r);
    struct map *by_name = map_new(scratch);
    for (size_t i = 0; i < r->packages.count; i++) {
        struct str name;
        struct str rest = str_of(r->packages.items[i].name);
        (void)str_cut(&rest, ':', &name);
        map_put(by_name, name, &r->packages.items[i]);
    }
    if (fs_list(fs, scratch, LISTS, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            struct str text;
            struct dpkg_paragraph p;
            struct err err = {0};
            struct arena *one = arena_new(0);
            if (is_list(names[i])) {
                if (read_list(one, fs, names[i], &text, &err) == ST_OK) {
                    r->lists_read++;
                    while (dpkg_next(&text, &p)) {
                        take_paragraph(by_name, &p);
                    }
                } else {
                    *VEC_PUSH(a, &r->by_hand) = arena_fmt(
                        a, "list of apt that could not be read: %s", err.text);
                }
            }
            arena_free(one);
        }
    }
    arena_free(scratch);
}
