// SPDX-License-Identifier: Apache-2.0
/*
 * Source of the forms: libstdc++ (verbose terminate handler), libc++abi, glibc (assert, malloc, fortify, stack
 * protector), Python's faulthandler.
 */
#include "cli/run/last_words.h"

#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

#include "cli/run/story_signal.h"

enum {
    LOG_BYTES = 64 << 20,
    WORDS_BYTES = 200,
    FRAMES_SHOWN = 4
};

/* Words in front of an abort(), and how many of the next lines belong to them. */
static const struct {
    const char *part;
    int more;
} abort_words[] = {
    {"terminate called ", 1},
    {"terminating due to ", 0},
    {"libc++abi: terminating", 0},
    {": Assertion `", 0},
    {"double free or corrupt", 0},
    {"malloc(): ", 0},
    {"free(): ", 0},
    {"realloc(): ", 0},
    {"munmap_chunk(): ", 0},
    {"corrupted size vs", 0},
    {"corrupted double-linked", 0},
    {"*** stack smashing detected", 0},
    {"*** buffer overflow dete", 0},
    {"pure virtual method", 0},
    {"Fatal Python error: ", 0},
};

struct words {
    const char *abort;          /* the last such line, with what goes with it; NULL: none */
    struct text_list frames;    /* of Python, innermost first, of the thread that met the signal */
    struct text_list locations; /* "stderr.log:12" of each */
};

static struct str short_of(struct str line)
{
    line = str_trim(line);
    return line.n > WORDS_BYTES ? str_slice(line, 0, WORDS_BYTES) : line;
}

static void read_words(struct arena *a, struct str log, struct words *w)
{
    struct str line;
    int more = 0;
    bool python = false;
    for (size_t number = 1; str_cut_line(&log, &line); number++) {
        if (more > 0 && w->abort != NULL) {
            more--;
            struct str s = short_of(line);
            w->abort = str_starts(s, "what():") ? arena_fmt(a, "%s %.*s", w->abort, STR_ARG(s))
                                                : w->abort;
        }
        for (size_t i = 0; i < ARRAY_LEN(abort_words); i++) {
            if (str_find(line, abort_words[i].part, 0) != SIZE_MAX) {
                w->abort = str_dup(a, short_of(line));
                more = abort_words[i].more;
            }
        }
        if (str_has(line, "(most recent call first):")) {
            python = w->frames.count == 0 || str_starts(str_trim(line), "Current thread");
            if (python) {
                w->frames.count = 0;
                w->locations.count = 0;
            }
        } else if (python && str_starts(line, "  File \"") && w->frames.count < FRAMES_SHOWN) {
            *VEC_PUSH(a, &w->frames) = str_dup(a, short_of(line));
            *VEC_PUSH(a, &w->locations) = arena_fmt(a, "stderr.log:%zu", number);
        } else if (!str_starts(line, "  ")) {
            python = false;
        }
    }
}

static void drop_advice(struct text_list *remedy, const char *about)
{
    size_t kept = 0;
    for (size_t i = 0; i < remedy->count; i++) {
        if (strstr(remedy->items[i], about) == NULL) {
            remedy->items[kept++] = remedy->items[i];
        }
    }
    remedy->count = kept;
}

void last_words_add(struct arena *a, const char *folder, struct finding_list *findings)
{
    struct finding *f = NULL;
    for (size_t i = 0; i < findings->count && f == NULL; i++) {
        struct finding *one = &findings->items[i];
        f = one->severity == SEVERITY_ERROR && run_story_is_signal(one->id) ? one : NULL;
    }
    struct fs fs = {.prefix = ""};
    struct str log;
    if (f == NULL ||
        fs_read(&fs, a, arena_fmt(a, "%s/stderr.log", folder), LOG_BYTES, &log, NULL) != ST_OK) {
        return;
    }
    struct words w = {0};
    read_words(a, log, &w);
    if (w.abort != NULL && strcmp(f->id, RUN_SIGNAL_ABORT) == 0) {
        f->title = arena_fmt(a, "%s: %s", f->title, w.abort);
        f->confidence = 0.8;
    }
    if (w.frames.count > 0) {
        drop_advice(&f->remedy, "PYTHONFAULTHANDLER");
    }
    for (size_t i = 0; i < w.frames.count; i++) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = w.locations.items[i], .text = arena_fmt(a, "Python: %s", w.frames.items[i])};
    }
}
