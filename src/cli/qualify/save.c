// SPDX-License-Identifier: Apache-2.0
/* The folder of a qualification: qualification.json, report.html, the run folders product and command. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "cli/qualify/qualify.h"
#include "cli/run/report.h"
#include "recorder/run_folder.h"

enum {
    RECORD_MAX = 64 << 20,
    PAGE_MAX = 256 << 20
};

static const char *name_by_time(struct arena *a)
{
    time_t now = time(NULL);
    struct tm t;
    char text[32] = "";
    if (gmtime_r(&now, &t) != NULL) {
        (void)strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &t);
    }
    return arena_fmt(a, "assay-qualification-%s-%d", text, (int)getpid());
}

enum status qualify_open_folder(struct qualify *q, struct err *err)
{
    struct arena *a = q->cli->arena;
    bool tells = !q->fleet || q->launcher.rank == 0; /* of a fleet, rank 0 alone keeps something */
    const char *wanted = tells ? cli_value(q->cli, "save", NULL) : NULL;
    char full[PATH_MAX];
    q->keep = tells && (wanted != NULL || q->cli->operands.count != 0);
    if (wanted == NULL && q->keep) {
        wanted = name_by_time(a);
    }
    if (wanted == NULL) {
        const char *base = getenv("TMPDIR");
        char *folder = arena_fmt(a, "%s/assay-qualify-XXXXXX",
                                 base != NULL && base[0] == '/' ? base : "/tmp");
        if (mkdtemp(folder) == NULL) {
            return err_sys(err, errno, "cannot make a folder for the work: '%s'", folder);
        }
        q->folder = folder;
        return ST_OK;
    }
    if (mkdir(wanted, 0777) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the folder '%s'", wanted);
    }
    if (realpath(wanted, full) == NULL) {
        return err_sys(err, errno, "cannot use the folder '%s'", wanted);
    }
    struct stat kind;
    if (stat(full, &kind) != 0 || !S_ISDIR(kind.st_mode)) {
        return err_set(err, ST_USAGE, "'%s' is no folder; give another name with --save", wanted);
    }
    if (access(full, W_OK | X_OK) != 0) { /* told now, not after hours of stages */
        return err_sys(err, errno, "cannot write into the folder '%s'", wanted);
    }
    q->folder = arena_strdup(a, full);
    if (access(arena_fmt(a, "%s/qualification.json", full), F_OK) == 0 ||
        access(arena_fmt(a, "%s/command", full), F_OK) == 0) {
        return err_set(err, ST_USAGE,
                       "'%s' holds a qualification already; give another folder with --save",
                       wanted);
    }
    return ST_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

void qualify_close_folder(struct qualify *q)
{
    if (!q->keep && q->folder != NULL) {
        (void)nftw(q->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}

static struct str render(struct qualify *q, const struct report *r, const char *name, size_t most)
{
    struct report_options options = {.width = q->cli->width, .version = ASSAY_VERSION};
    struct strbuf out;
    strbuf_init(&out, q->cli->arena, most);
    report_format_find(name)->render(r, &options, &out);
    return strbuf_str(&out);
}

enum status qualify_save(struct qualify *q, const struct report *r, int status, struct err *err)
{
    struct arena *a = q->cli->arena;
    struct report judged = *r;
    struct report page;
    struct text_list paths = {0};
    struct text_list none = {0};
    int page_status;
    judged.outcome = status == EXIT_FINE      ? SEVERITY_OK
                     : status == EXIT_UNKNOWN ? SEVERITY_UNKNOWN
                                              : SEVERITY_ERROR;
    TRY(run_folder_write(a, q->folder, "qualification.json", render(q, &judged, "json", RECORD_MAX),
                         err));
    *VEC_PUSH(a, &paths) = arena_fmt(a, "%s/qualification.json", q->folder);
    for (size_t i = 0; i < q->runs.count; i++) {
        *VEC_PUSH(a, &paths) = q->runs.items[i];
    }
    TRY(run_report_many(q->cli, q->k, &paths, &none, &page, &page_status, err));
    page.verdict = r->verdict; /* the page is about the qualification; its runs are parts */
    page.outcome = judged.outcome;
    return run_folder_write(a, q->folder, "report.html", render(q, &page, "html", PAGE_MAX), err);
}
