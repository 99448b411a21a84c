// SPDX-License-Identifier: Apache-2.0
/* See expect.h. */
#include "cli/run/expect.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

enum status run_expect_check(const char *expect, struct err *err)
{
    struct str s = str_of(expect);
    if ((str_starts(s, "no:") && s.n > 3) || (str_starts(s, "yes:") && s.n > 4)) {
        return ST_OK;
    }
    return err_set(
        err, ST_USAGE,
        "'%s' is no expectation: write no:NAME or yes:NAME, where NAME is part of a "
        "library (its file and the folder that holds it, or with a slash its whole path) or function, "
        "as in no:hipblaslt; or kernel:NAME, part of a launched kernel or of what report --path calls it",
        expect);
}

/* The library's file with the folder that holds it: one name, libblas.so.3, is that of every BLAS where a
 * distribution lets the user choose, as blis-openmp/libblas.so.3. */
static const char *file_in_folder(const struct value *row)
{
    const char *path = row[RUN_STORY_PATH].string;
    const char *at = strrchr(path, '/');
    while (at != NULL && at > path && at[-1] != '/') {
        at--;
    }
    return at != NULL ? at : row[RUN_STORY_LIBRARY].string;
}

/* A name with a slash is asked of the whole path, another one of the file and the folder that holds it. */
static int64_t calls_matching(const struct report_table *t, const char *name, const char **ret_seen)
{
    int64_t calls = 0;
    for (size_t i = 0; i < t->row_count; i++) {
        const struct value *row = &t->cells[i * t->column_count];
        const char *file = strchr(name, '/') != NULL ? row[RUN_STORY_PATH].string
                                                     : file_in_folder(row);
        if (strcasestr(file, name) != NULL ||
            strcasestr(row[RUN_STORY_FUNCTION].string, name) != NULL) {
            calls += row[RUN_STORY_CALLS].integer;
            *ret_seen = file;
        }
    }
    return calls;
}

/* How often what `name` stands for was seen: calls of a library or function, or for "kernel:NAME" launches.
 * ret_doubt: why not seeing it proves nothing; NULL when it does. */
static int64_t count_seen(struct arena *a, const char *name, const struct run_story *story,
                          const struct path_kernels *kernels, const char **ret_seen,
                          const char **ret_doubt)
{
    static const char kernel[] = "kernel:";
    if (strncmp(name, kernel, strlen(kernel)) == 0) {
        *ret_doubt = path_kernels_doubt(a, kernels);
        return (int64_t)path_kernels_matching(kernels, name + strlen(kernel), ret_seen);
    }
    *ret_doubt =
        story->calls == 0
            ? "No call of a hooked library was recorded at all, so absence proves nothing: "
              "the program may link its libraries statically."
            : NULL;
    return calls_matching(&story->libraries, name, ret_seen);
}

void run_expect_judge(struct arena *a, const char *expect, const struct run_story *story,
                      const struct path_kernels *kernels, struct finding_list *checks)
{
    bool wanted = str_starts(str_of(expect), "yes:");
    const char *name = expect + (wanted ? 4 : 3);
    const char *seen = "";
    const char *doubt = NULL;
    int64_t count = count_seen(a, name, story, kernels, &seen, &doubt);
    bool kernel = strncmp(name, "kernel:", 7) == 0;
    struct finding *f = VEC_PUSH(a, checks);
    *f = (struct finding){.confidence = 1};
    const char *text = arena_fmt(a, "%" PRId64 " %s match '%s'%s%s", count,
                                 kernel ? "launches" : "calls", name,
                                 count > 0 ? ", for instance in " : "", seen);
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "records", .text = text};
    if (count == 0 && doubt != NULL) {
        f->id = "expectation-untold";
        f->severity = SEVERITY_UNKNOWN;
        f->title = arena_fmt(a, "cannot tell whether %s holds", expect);
        f->claim = doubt;
    } else if ((count > 0) == wanted) {
        f->id = "expectation-met";
        f->severity = SEVERITY_OK;
        f->title = arena_fmt(a, "%s holds", expect);
        f->claim = text;
    } else {
        f->id = "expectation-broken";
        f->severity = SEVERITY_ERROR;
        f->title = arena_fmt(a, "%s does not hold", expect);
        f->claim =
            kernel   ? (wanted ? "The kernel was to be launched, and no launch of it was recorded."
                               : "The kernel was not to be launched, and it was.")
            : wanted ? "The library was to be used, and no call of it was recorded."
                     : "The library was to be left, and calls of it were recorded: the switch that "
                       "should have prevented them is not in effect.";
    }
}
