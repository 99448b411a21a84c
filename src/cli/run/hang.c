// SPDX-License-Identifier: Apache-2.0
/*
 * A process that hangs mostly waits for another one: the trainer polls for its data worker, the worker
 * sleeps in the user's code. So the place to look at first is the one whose innermost Python frame is no
 * part of Python or of an installed package; where there is none, all are listed and none is blamed.
 */
#include "cli/run/hang.h"

#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

enum {
    STACKS_MAX = 16 << 20,
    PROCESSES_SHOWN = 8,
    FRAMES_SHOWN = 4
};

struct place {
    const char *pid;
    const char *name;   /* of the main thread */
    const char *waits;  /* function of the kernel; "" when not told */
    const char *frames; /* Python, innermost first; "" without py-spy */
    const char *own;    /* the innermost frame, where it is the user's own code; else NULL */
};

static const char *after(struct arena *a, struct str line, const char *label)
{
    struct str s = str_trim(line);
    size_t n = strlen(label);
    return str_starts(s, label) ? str_dup(a, (struct str){.p = s.p + n, .n = s.n - n}) : NULL;
}

static bool is_library(struct str frame)
{
    return str_has(frame, "site-packages/") || str_has(frame, "dist-packages/") ||
           str_has(frame, "lib/python3") || str_has(frame, "<frozen ");
}

/* py-spy: `Thread 12 (idle): "MainThread"`, then a frame a line, innermost first, by its file's name
 * as the program knows it; the frames of the first thread are taken. */
static void read_frames(struct arena *a, struct str *rest, struct place *p)
{
    struct str line;
    size_t count = 0;
    while (count < FRAMES_SHOWN && str_cut(rest, '\n', &line)) {
        if (!str_starts(line, "    ")) {
            if (count > 0 || !str_starts(line, "Thread ")) {
                break;
            }
            continue;
        }
        struct str frame = str_trim(line);
        if (count == 0 && !is_library(frame)) {
            p->own = str_dup(a, frame);
        }
        p->frames = arena_fmt(a, "%s%s%.*s", p->frames, count == 0 ? "" : " < ", (int)frame.n,
                              frame.p);
        count++;
    }
}

static struct place read_place(struct arena *a, struct str text, const char *pid)
{
    struct place p = {.pid = pid, .name = "?", .waits = "", .frames = ""};
    struct str line;
    bool threads_done = false;
    bool python = false;
    const char *found;
    size_t thread = 0;
    while (str_cut(&text, '\n', &line)) {
        if (str_starts(line, "thread ")) {
            thread++;
        } else if (str_starts(line, "Python stacks")) {
            threads_done = true;
        } else if (!threads_done && thread == 1) { /* the main thread comes first */
            if ((found = after(a, line, "name: ")) != NULL) {
                p.name = found;
            } else if ((found = after(a, line, "waits in: ")) != NULL) {
                p.waits = found;
            }
        } else if (threads_done && !python && str_starts(line, "Thread ")) {
            python = true;
            read_frames(a, &text, &p);
        }
    }
    return p;
}

bool run_hang_find(struct arena *a, const char *folder, struct finding *ret_finding)
{
    struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    if (fs_list(&fs, a, folder, &names, &count, NULL) != ST_OK) {
        return false;
    }
    struct finding f = {.id = "job-hung",
                        .severity = SEVERITY_ERROR,
                        .confidence = 0.3,
                        .layer = "application",
                        .title = "the job hung",
                        .claim = "No output and no recorded call for the time of --hang. These are "
                                 "the stacks of its processes at that moment."};
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        struct str text;
        if (!str_starts(name, "stacks.") || !str_ends(name, ".txt") || name.n > 64 ||
            fs_read(&fs, a, arena_fmt(a, "%s/%s", folder, names[i]), STACKS_MAX, &text, NULL) !=
                ST_OK) {
            continue;
        }
        const char *pid = str_dup(a, (struct str){.p = name.p + 7, .n = name.n - 11});
        struct place p = read_place(a, text, pid);
        if (p.own != NULL && f.confidence < 0.5) {
            f.confidence = 0.6;
            f.title = arena_fmt(a, "the job hung: process %s (%s) waits in %s", pid, p.name, p.own);
        }
        if (shown++ < PROCESSES_SHOWN) {
            *VEC_PUSH(a, &f.evidence) = (struct evidence){
                .source = names[i],
                .text = arena_fmt(a, "process %s (%s) waits in the kernel's %s%s%s", pid, p.name,
                                  p.waits[0] != '\0' ? p.waits : "(not told)",
                                  p.frames[0] != '\0' ? "; Python: " : "", p.frames)};
        }
    }
    if (shown > PROCESSES_SHOWN) {
        f.claim = arena_fmt(a, "%s %zu processes in all; the others are in the folder.", f.claim,
                            shown);
    }
    *VEC_PUSH(a, &f.remedy) = arena_fmt(a,
                                        "read %s/stacks.*.txt: every thread, native and Python "
                                        "frames where gdb and py-spy are installed",
                                        folder);
    *ret_finding = f;
    return shown > 0;
}
