// SPDX-License-Identifier: Apache-2.0
/* Building the program of a reproducer and running it, each in a child with a deadline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/isolate.h"
#include "ops/reproducer.h"

enum {
    BUILD_MS = 120000,
    RUN_MS = 120000,
    CONTROLS_MAX = 8,
    ARGUMENTS_MAX = 12,
    NOT_STARTED = 127
};

struct program {
    const char *folder;
    const char *arguments[ARGUMENTS_MAX]; /* NULL at the end */
};

/* In the child: output goes where the parent keeps the last lines. */
static void start(void *context)
{
    const struct program *p = context;
    char *arguments[ARGUMENTS_MAX];
    memcpy(arguments, p->arguments, sizeof arguments);
    if (chdir(p->folder) != 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        _exit(NOT_STARTED);
    }
    execvp(arguments[0], arguments);
    _exit(NOT_STARTED);
}

static const char *find_compiler(struct arena *a)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *path = getenv("PATH");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str rest = str_of(path);
        struct str folder;
        while (str_cut(&rest, ':', &folder)) {
            const char *full = arena_fmt(a, "%.*s/%s", STR_ARG(folder), names[i]);
            if (folder.n > 0 && access(full, X_OK) == 0) {
                return names[i];
            }
        }
    }
    return NULL;
}

/* The program's first sentence about a fault, else its last words. */
static void words_of(const struct isolate_end *end, struct reproducer_outcome *ret)
{
    static const char mark[] = "FAILED: ";
    const char *from = strstr(end->text, mark);
    const char *text = from != NULL ? from + sizeof mark - 1 : end->text;
    const char *next = from != NULL ? strstr(text, mark) : NULL;
    size_t n = next != NULL ? (size_t)(next - text) : strlen(text);
    while (n > 0 && text[n - 1] == ' ') {
        n--;
    }
    str_print(ret->words, sizeof ret->words, "%.*s", (int)n, text);
}

static void outcome_of(const struct isolate_end *end, struct reproducer_outcome *ret)
{
    *ret = (struct reproducer_outcome){.ending = REPRODUCER_OTHER};
    words_of(end, ret);
    if (end->ending == ENDING_EXIT) {
        switch (end->exit_status) {
        case 0: ret->ending = REPRODUCER_PASSED; return;
        case 1: ret->ending = REPRODUCER_FAILED; return;
        default: ret->ending = REPRODUCER_REFUSED; return;
        }
    }
    if (end->ending == ENDING_HANG) {
        str_print(ret->words, sizeof ret->words, "no end within %d seconds", RUN_MS / 1000);
    } else {
        str_print(ret->words, sizeof ret->words, "%s, signal %d", ending_name(end->ending),
                  end->signal);
    }
}

static enum status run(const char *folder, const char *first, const char *second,
                       struct reproducer_outcome *ret, struct err *err)
{
    struct program p = {.folder = folder, .arguments = {"./reproducer", first, second}};
    const struct isolate_options options = {.deadline_ms = RUN_MS};
    struct isolate_end end;
    TRY(isolate_run(&options, start, &p, &end, err));
    outcome_of(&end, ret);
    return ST_OK;
}

static enum status build(const char *folder, struct reproducer_check *check, struct err *err)
{
    struct program p = {
        .folder = folder,
        .arguments = {check->compiler, "-O1", "-o", "reproducer", "reproducer.c", "-ldl", "-lm"}};
    const struct isolate_options options = {.deadline_ms = BUILD_MS};
    struct isolate_end end;
    TRY(isolate_run(&options, start, &p, &end, err));
    check->compiled = end.ending == ENDING_EXIT && end.exit_status == 0;
    if (!check->compiled) {
        str_print(check->compiler_words, sizeof check->compiler_words, "%s",
                  end.text[0] != '\0' ? end.text : ending_name(end.ending));
    }
    return ST_OK;
}

/* A control that passes is better than one that fails too. */
static enum status try_controls(struct reproducer *r, const char *folder,
                                const char *const *controls, struct err *err)
{
    struct reproducer_check *check = &r->check;
    for (size_t i = 0; controls != NULL && controls[i] != NULL && i < CONTROLS_MAX; i++) {
        struct reproducer_outcome outcome;
        TRY(run(folder, controls[i], NULL, &outcome, err));
        if (outcome.ending == REPRODUCER_PASSED ||
            (check->control_path == NULL && outcome.ending == REPRODUCER_FAILED)) {
            check->control = outcome;
            check->control_path = controls[i];
        }
        if (outcome.ending == REPRODUCER_PASSED) {
            break;
        }
    }
    return ST_OK;
}

enum status reproducer_verify(struct arena *a, struct reproducer *r, const char *folder,
                              const char *const *controls, struct err *err)
{
    struct reproducer_check *check = &r->check;
    *check = (struct reproducer_check){.compiler = find_compiler(a)};
    if (check->compiler == NULL) {
        return ST_OK;
    }
    TRY(build(folder, check, err));
    if (!check->compiled) {
        return ST_OK;
    }
    TRY(run(folder, r->target->path, NULL, &check->guilty, err));
    TRY(run(folder, "--slack", r->target->path, &check->slack, err));
    TRY(try_controls(r, folder, controls, err));
    if (unlink(arena_fmt(a, "%s/reproducer", folder)) != 0) {
        return err_sys(err, errno, "cannot remove the built program from %s", folder);
    }
    return ST_OK;
}

static const char *outcome_text(struct arena *a, const struct reproducer_outcome *o)
{
    switch (o->ending) {
    case REPRODUCER_PASSED: return "passes";
    case REPRODUCER_FAILED: return arena_fmt(a, "fails: %s", o->words);
    case REPRODUCER_REFUSED: return arena_fmt(a, "could not run: %s", o->words);
    case REPRODUCER_OTHER: return arena_fmt(a, "ended without a sentence: %s", o->words);
    default: return "not run";
    }
}

void reproducer_seen(struct arena *a, const struct reproducer_check *check,
                     struct text_list *ret_lines)
{
    if (check->compiler == NULL) {
        *VEC_PUSH(a,
                  ret_lines) = "reproducer.c was not built or run: this machine has no C compiler";
        return;
    }
    if (!check->compiled) {
        *VEC_PUSH(a, ret_lines) = arena_fmt(a, "reproducer.c was not run: %s refused it: %s",
                                            check->compiler, check->compiler_words);
        return;
    }
    bool failed = check->guilty.ending == REPRODUCER_FAILED;
    *VEC_PUSH(a, ret_lines) = arena_fmt(a, "reproducer.c fails on its own: %s (%s)",
                                        failed ? "yes" : "no", outcome_text(a, &check->guilty));
    *VEC_PUSH(a, ret_lines) = arena_fmt(a, "the same with readable memory next to the operands: %s",
                                        outcome_text(a, &check->slack));
    if (check->control_path != NULL) {
        *VEC_PUSH(a, ret_lines) = arena_fmt(a, "the same with %s: %s",
                                            reproducer_redact(a, check->control_path),
                                            outcome_text(a, &check->control));
    } else {
        *VEC_PUSH(a, ret_lines) = "no other library on this machine could be asked for comparison";
    }
}
