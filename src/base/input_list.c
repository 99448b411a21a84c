// SPDX-License-Identifier: Apache-2.0
/* Walking directories of logs. */
#include "base/input_list.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

struct walk {
    struct arena *arena;
    struct input_list *list;
    struct text_list *notes;
    struct map *seen; /* "dev:ino" of directories and files */
    bool full;
};

static void note(struct walk *w, const char *text)
{
    *VEC_PUSH(w->arena, w->notes) = text;
}

/* True when it was not seen before. */
static bool first_visit(struct walk *w, const struct stat *st)
{
    const char *key = arena_fmt(w->arena, "%llu:%llu", (unsigned long long)st->st_dev,
                                (unsigned long long)st->st_ino);
    if (map_get(w->seen, str_of(key)) != NULL) {
        return false;
    }
    map_put(w->seen, str_of(key), w);
    return true;
}

/* Digits after the last "rank" in a name: rank_3, rank-03, rank3, rank=3. */
static int rank_in_name(struct str name)
{
    for (size_t at = name.n; at-- > 0;) {
        if (name.n - at < 5 || strncasecmp(name.p + at, "rank", 4) != 0) {
            continue;
        }
        size_t d = at + 4;
        while (d < name.n && strchr("_-=.", name.p[d]) != NULL) {
            d++;
        }
        int rank = 0;
        size_t digits = 0;
        while (d < name.n && name.p[d] >= '0' && name.p[d] <= '9' && digits < 6) {
            rank = rank * 10 + (name.p[d] - '0');
            d++;
            digits++;
        }
        if (digits != 0) {
            return rank;
        }
    }
    return -1;
}

int input_list_rank(const char *path)
{
    struct str whole = str_of(path);
    size_t slash = whole.n;
    while (slash != 0 && whole.p[slash - 1] != '/') {
        slash--;
    }
    struct str name = str_slice(whole, slash, whole.n);
    int rank = rank_in_name(name);
    if (rank >= 0 || slash == 0) {
        return rank;
    }
    size_t before = slash - 1;
    while (before != 0 && whole.p[before - 1] != '/') {
        before--;
    }
    struct str parent = str_slice(whole, before, slash - 1);
    rank = rank_in_name(parent);
    uint64_t number;
    /* torchrun --log-dir: <run id>/attempt_0/<local rank>/stdout.log */
    if (rank < 0 && (str_starts(name, "stdout") || str_starts(name, "stderr")) && parent.n <= 6 &&
        str_to_u64(parent, 10, &number) == ST_OK) {
        rank = (int)number;
    }
    return rank;
}

/* Names that hold text of a run. Everything else in a run folder (weights, events, JSON) is not. */
static bool is_log_name(struct str name)
{
    static const char *const ends[] = {".log",    ".txt",    ".out",  ".err",
                                       ".stdout", ".stderr", ".jsonl"};
    static const char *const packed[] = {".gz", ".zst"};
    static const char *const whole[] = {"stdout",     "stderr",   "dmesg",
                                        "kernel.log", "messages", "syslog"};
    for (size_t i = 0; i < ARRAY_LEN(packed); i++) {
        if (str_ends(name, packed[i])) {
            name.n -= strlen(packed[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        if (str_is(name, whole[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (str_ends(name, ends[i])) {
            return !str_is(name, "requirements.txt");
        }
    }
    /* Rotated: train.log.1 */
    size_t dot = name.n;
    while (dot != 0 && name.p[dot - 1] >= '0' && name.p[dot - 1] <= '9') {
        dot--;
    }
    return dot != name.n && dot > 4 && str_ends(str_slice(name, 0, dot), ".log.");
}

static void add_file(struct walk *w, const char *path)
{
    if (w->list->count >= INPUT_LIST_MAX_FILES) {
        if (!w->full) {
            note(w, arena_fmt(w->arena, "more than %d log files: the rest is not read",
                              INPUT_LIST_MAX_FILES));
            w->full = true;
        }
        return;
    }
    *VEC_PUSH(w->arena, w->list) = (struct input_file){.path = path, .rank = input_list_rank(path)};
}

static void walk_dir(struct walk *w, const char *path, int depth)
{
    if (depth > INPUT_LIST_MAX_DEPTH) {
        note(w, arena_fmt(w->arena, "'%s' is more than %d levels deep: not read", path,
                          INPUT_LIST_MAX_DEPTH));
        return;
    }
    const char *const *names;
    size_t count;
    struct err err;
    struct fs live = {.prefix = ""};
    if (fs_list(&live, w->arena, path, &names, &count, &err) != ST_OK) {
        note(w, arena_strdup(w->arena, err.text));
        return;
    }
    for (size_t i = 0; i < count && !w->full; i++) {
        const char *child = arena_fmt(w->arena, "%s/%s", path, names[i]);
        struct stat st;
        if (stat(child, &st) != 0) {
            continue; /* a dangling link, or a loop of links */
        }
        bool dir = S_ISDIR(st.st_mode);
        if (!dir && (!S_ISREG(st.st_mode) || !is_log_name(str_of(names[i])))) {
            continue;
        }
        if (!first_visit(w, &st)) {
            continue;
        }
        if (dir) {
            walk_dir(w, child, depth + 1);
        } else if (access(child, R_OK) != 0) {
            note(w, arena_fmt(w->arena, "'%s' cannot be read (%s)", child, err_name(errno)));
        } else {
            add_file(w, child);
        }
    }
}

enum status input_list_add(struct arena *a, const char *path, struct input_list *list,
                           struct text_list *notes, struct err *err)
{
    struct walk w = {.arena = a, .list = list, .notes = notes, .seen = map_new(a)};
    struct stat st;
    if (strcmp(path, "-") == 0) {
        add_file(&w, "-");
        return ST_OK;
    }
    if (stat(path, &st) != 0) {
        return err_sys(err, errno, "cannot read '%s'", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        if (access(path, R_OK) != 0) {
            return err_sys(err, errno, "cannot read '%s'", path);
        }
        add_file(&w, arena_strdup(a, path));
        return ST_OK;
    }
    struct str dir = str_of(path);
    while (dir.n > 1 && dir.p[dir.n - 1] == '/') {
        dir.n--;
    }
    size_t before = list->count;
    (void)first_visit(&w, &st);
    walk_dir(&w, str_dup(a, dir), 1);
    if (list->count == before) {
        return err_set(err, ST_ABSENT, "'%s' holds no log file; name the file, or check the folder",
                       path);
    }
    return ST_OK;
}
