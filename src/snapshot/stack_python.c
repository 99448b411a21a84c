// SPDX-License-Identifier: Apache-2.0
/*
 * All distributions of the Python environment, each with a digest over what its RECORD says of its files. Left
 * out of the digest is what differs between two installations of one wheel: scripts outside the package (their
 * first line names the interpreter) and notes of the installer. Source of the format: PEP 376, PEP 427.
 */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/vec.h"

#include "facts/python_env.h"
#include "snapshot/stack.h"

enum {
    RECORD_MAX = 64 << 20,
    RECORD_LINES = 1000000
};

static int by_text(const void *pa, const void *pb)
{
    return str_cmp(*(const struct str *)pa, *(const struct str *)pb);
}

/* "PATH,sha256=HASH,SIZE"; false for lines that say nothing of the wheel. */
static bool is_of_wheel(struct str line)
{
    static const char *const installer[] = {".dist-info/INSTALLER,", ".dist-info/REQUESTED,",
                                            ".dist-info/direct_url.json,",
                                            ".dist-info/uv_cache.json,"};
    if (str_starts(line, "..") || str_starts(line, "/") || !str_has(line, ",sha256=")) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(installer); i++) {
        if (str_has(line, installer[i])) {
            return false;
        }
    }
    return true;
}

static const char *record_digest(struct arena *a, const struct fs *fs, const char *info)
{
    struct arena *scratch = arena_new(0);
    struct str text;
    struct str line;
    VEC_OF(struct str) lines = {0};
    const char *result = NULL;
    if (fs_read(fs, scratch, arena_fmt(scratch, "%s/RECORD", info), RECORD_MAX, &text, NULL) ==
        ST_OK) {
        while (str_cut_line(&text, &line) && lines.count < RECORD_LINES) {
            if (is_of_wheel(line)) {
                *VEC_PUSH(scratch, &lines) = line;
            }
        }
    }
    if (lines.count != 0) {
        struct strbuf sorted;
        struct digest digest;
        qsort(lines.items, lines.count, sizeof *lines.items, by_text);
        strbuf_init(&sorted, scratch, RECORD_MAX);
        for (size_t i = 0; i < lines.count; i++) {
            strbuf_add(&sorted, lines.items[i]);
            strbuf_addc(&sorted, '\n');
        }
        struct file_map map = file_map_of_bytes("RECORD", strbuf_str(&sorted));
        if (digest_map(DIGEST_SHA256, &map, 0, map.n, NULL, NULL, &digest, NULL) == ST_OK) {
            result = arena_strdup(a, digest.hex);
        }
    }
    arena_free(scratch);
    return result;
}

/* The facts named those that training stands on: they only get their digest. */
static struct stack_item *item_of(struct arena *a, struct stack *s, const struct python_dist *d)
{
    for (size_t i = 0; i < s->items.count; i++) {
        struct stack_item *item = &s->items.items[i];
        if (item->section == STACK_FRAMEWORK && strcmp(item->name, d->name) == 0) {
            return item;
        }
    }
    return stack_add(a, s, STACK_PYTHON, d->name, d->version);
}

void stack_add_python(struct arena *a, const struct collect *c, struct stack *s)
{
    struct arena *scratch = arena_new(0);
    struct err err = {0};
    struct python_env env;
    /* The one that the facts speak of. */
    struct collect own = *c;
    own.python = facts_get_string(c->facts, "python.prefix", c->python);
    enum status status = python_env_find(&own, scratch, &env, &err);
    if (status == ST_OK) {
        s->python = arena_strdup(a, env.prefix);
        python_env_list(&own, scratch, &env);
        for (size_t i = 0; i < env.dists.count; i++) {
            const struct python_dist *d = &env.dists.items[i];
            if (!d->shadowed) {
                item_of(a, s, d)->digest = record_digest(a, c->fs, d->info);
            }
        }
    } else if (status != ST_ABSENT) {
        stack_add_gap(a, s, STACK_PYTHON, NULL, err.text);
    }
    arena_free(scratch);
}
