// SPDX-License-Identifier: Apache-2.0
/* assay rollback: the way back to a snapshot, its cost, and a plan that is written and never run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "cli/snapshot/stack_source.h"
#include "snapshot/rollback.h"

enum {
    ENV_FILE_MAX = 1 << 20
};

/* ---- files that are written ---- */

static enum status write_new(const char *path, struct str text, unsigned mode, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return errno == EEXIST
                   ? err_set(err, ST_USAGE, "%s is there already: name a new file", path)
                   : err_set(err, ST_IO, "cannot write '%s': %s", path, strerror(errno));
    }
    bool fine = true;
    while (fine && text.n != 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR) {
            fine = false;
        } else if (n > 0) {
            text = str_slice(text, (size_t)n, text.n);
        }
    }
    fine &= close(fd) == 0;
    return fine ? ST_OK : err_set(err, ST_IO, "cannot write '%s': %s", path, strerror(errno));
}

/* Only a regular file of the user's own, outside /etc: nothing of the system is changed. */
static enum status check_env_file(const char *path, bool *ret_present, unsigned *ret_mode,
                                  struct err *err)
{
    struct stat st;
    *ret_present = lstat(path, &st) == 0;
    *ret_mode = 0644;
    if (str_starts(str_of(path), "/etc/")) {
        return err_set(err, ST_USAGE,
                       "%s belongs to the system: --apply changes environment files of a user only",
                       path);
    }
    if (!*ret_present) {
        return ST_OK;
    }
    *ret_mode = st.st_mode & 0777;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        return err_set(
            err, ST_USAGE,
            "%s is not a regular file of yours: --apply changes environment files of the "
            "user who runs it, and follows no links",
            path);
    }
    return ST_OK;
}

static enum status apply(struct cli *cli, const struct rollback *r, const char *path,
                         struct text_list *notes, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = cli->arena;
    struct str before = {.p = "", .n = 0};
    struct strbuf after;
    char cwd[4096];
    bool present;
    unsigned mode;
    if (path[0] != '/') {
        if (getcwd(cwd, sizeof cwd) == NULL) {
            return err_set(err, ST_IO, "the working directory has no name: give a full path");
        }
        path = arena_fmt(a, "%s/%s", cwd, path);
    }
    TRY(check_env_file(path, &present, &mode, err));
    if (present) {
        TRY(fs_read(&live, a, path, ENV_FILE_MAX, &before, err));
    }
    strbuf_init(&after, a, 4 * ENV_FILE_MAX);
    TRY(rollback_env_file(a, r, before, &after, err));
    if (str_eq(before, strbuf_str(&after))) {
        *VEC_PUSH(a, notes) = arena_fmt(
            a,
            present ? "%s has the switches as wanted; not changed"
                    : "%s is not there, and no switch is to be set: not made",
            path);
        return ST_OK;
    }
    const char *next = arena_fmt(a, "%s.assay-new", path);
    if (present) {
        TRY(write_new(arena_fmt(a, "%s.before-rollback", path), before, mode, err));
    }
    TRY(write_new(next, strbuf_str(&after), mode, err));
    if (rename(next, path) != 0) {
        int saved = errno;
        unlink(next);
        return err_set(err, ST_IO, "cannot replace '%s': %s", path, strerror(saved));
    }
    *VEC_PUSH(a, notes) = present ? arena_fmt(a, "%s is written; as it was: %s.before-rollback",
                                              path, path)
                                  : arena_fmt(a, "%s is written", path);
    return ST_OK;
}

/* ---- the report ---- */

static const char *bytes_text(struct arena *a, int64_t n)
{
    return n < (1 << 20)    ? arena_fmt(a, "%.0f kB", (double)n / 1e3)
           : n < 1000000000 ? arena_fmt(a, "%.1f MB", (double)n / 1e6)
                            : arena_fmt(a, "%.2f GB", (double)n / 1e9);
}

static struct value text_or_null(const char *text)
{
    return text != NULL ? value_string(text) : (struct value){.kind = VALUE_NULL};
}

static struct report_table packages_table(struct arena *a, const struct rollback *r)
{
    static const char *const sources[] = {
        [ROLLBACK_UNKNOWN] = "in no list here",
        [ROLLBACK_LISTED] = "apt can download it",
        [ROLLBACK_CACHED] = "in apt's cache",
        [ROLLBACK_NONE_NEEDED] = "to be removed",
    };
    static const struct report_column columns[] = {
        {"package", "package", 0},         {"now", "now", 0},
        {"wanted", "wanted", 0},           {"source", "where from", 0},
        {"download_bytes", "download", 0}, {"dependents", "needed by", 0},
        {"reboot", "reboot", 0},
    };

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    struct value *cells = arena_array(a, r->packages.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < r->packages.count; i++) {
        const struct rollback_package *p = &r->packages.items[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = value_string(p->name);
        row[1] = text_or_null(p->now);
        row[2] = text_or_null(p->wanted);
        row[3] = value_string(sources[p->source]);
        if (p->download_bytes >= 0) {
            row[4] = value_int(p->download_bytes);
        }
        row[5] = value_int((int64_t)p->dependents.count);
        row[6] = value_bool(p->reboot);
    }
    return (struct report_table){.key = "packages",
                                 .heading = "packages of the distribution:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = r->packages.count};
}

static struct finding *add_finding(struct arena *a, struct finding_list *to, const char *id,
                                   enum severity severity, const char *title, const char *claim)
{
    struct finding *f = VEC_PUSH(a, to);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    return f;
}

static void evidence(struct arena *a, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = text};
}

static void tell_missing(struct arena *a, const struct rollback *r, struct finding_list *to)
{
    struct finding *f = NULL;
    for (size_t i = 0; i < r->packages.count; i++) {
        const struct rollback_package *p = &r->packages.items[i];
        if (p->source != ROLLBACK_UNKNOWN && p->usable) {
            continue;
        }
        if (f == NULL) {
            f = add_finding(
                a, to, "rollback-package-not-found", SEVERITY_UNKNOWN,
                "packages that this machine does not know where to get",
                r->lists_read == 0
                    ? "apt has no lists here (apt-get update makes them), so neither their "
                      "sources nor their sizes are known."
                    : "Neither apt's lists nor its cache hold these versions: the "
                      "repository that had them may be gone from sources.list, or keep only the "
                      "newest.");
        }
        evidence(a, f, p->name,
                 arena_fmt(a, "%s%s", p->wanted != NULL ? p->wanted : "to be removed",
                           p->usable ? "" : ": no name or version that dpkg allows; left out"));
    }
}

static void tell_dependents(struct arena *a, const struct rollback *r, struct finding_list *to)
{
    struct finding *f = NULL;
    for (size_t i = 0; i < r->packages.count; i++) {
        const struct rollback_package *p = &r->packages.items[i];
        if (p->dependents.count == 0) {
            continue;
        }
        if (f == NULL) {
            f = add_finding(a, to, "rollback-dependents", SEVERITY_NOTE,
                            "installed packages that depend on what changes",
                            "apt may ask to change or remove them too.");
        }
        struct strbuf names;
        strbuf_init(&names, a, 400);
        for (size_t k = 0; k < p->dependents.count; k++) {
            strbuf_fmt(&names, "%s%s", k != 0 ? ", " : "", p->dependents.items[k]);
        }
        evidence(
            a, f, p->name,
            arena_fmt(a, "%zu: %s%s", p->dependents.count, names.p, names.truncated ? " ..." : ""));
    }
}

static void tell_rest(struct arena *a, const struct rollback *r, struct finding_list *to)
{
    struct finding *f;
    if (r->wheels.count != 0) {
        f = add_finding(a, to, "rollback-python", SEVERITY_NOTE,
                        arena_fmt(a, "Python packages that change back: %zu", r->wheels.count),
                        "Their size is not known without asking an index. The script installs them "
                        "without their dependencies, which are in the list themselves.");
        for (size_t i = 0; i < r->wheels.count; i++) {
            const struct rollback_wheel *w = &r->wheels.items[i];
            evidence(a, f, w->name,
                     arena_fmt(a, "%s -> %s%s%s%s", w->now != NULL ? w->now : "-",
                               w->wanted != NULL ? w->wanted : "removed",
                               w->index != NULL ? ", from " : "", w->index != NULL ? w->index : "",
                               w->usable ? "" : ", no name that pip allows: left out"));
        }
    }
    if (r->switches.count != 0) {
        f = add_finding(a, to, "rollback-switches", SEVERITY_NOTE,
                        arena_fmt(a, "switches that change back: %zu", r->switches.count),
                        "--apply FILE writes them into an environment file of yours.");
        for (size_t i = 0; i < r->switches.count; i++) {
            const struct rollback_switch *s = &r->switches.items[i];
            evidence(a, f, s->name,
                     arena_fmt(a, "%s -> %s", s->now != NULL ? s->now : "(unset)",
                               s->wanted != NULL ? s->wanted : "(unset)"));
        }
    }
    if (r->by_hand.count != 0) {
        f = add_finding(a, to, "rollback-by-hand", SEVERITY_NOTE, "to be done by hand",
                        "No script can do this well, or it follows from a package above.");
        for (size_t i = 0; i < r->by_hand.count; i++) {
            evidence(a, f, "by hand", r->by_hand.items[i]);
        }
    }
    if (r->reboot) {
        add_finding(
            a, to, "rollback-reboot", SEVERITY_NOTE, "a reboot is needed",
            "A kernel, driver or firmware changes, and the old one stays loaded until then.");
    }
}

static void tell_checks(struct arena *a, const struct rollback *r, struct finding_list *to)
{
    struct finding *f = add_finding(a, to, "rollback-checks", SEVERITY_NOTE, "checks after it",
                                    "The way back is only taken when these say so.");
    struct strbuf diff;
    strbuf_init(&diff, a, 8000);
    strbuf_addz(&diff, "assay diff ");
    rollback_quote(&diff, r->target);
    strbuf_addz(&diff, "   # nothing may differ");
    *VEC_PUSH(a, &f->remedy) = diff.p;
    *VEC_PUSH(a, &f->remedy) = "assay doctor   # the stack fits together";
    *VEC_PUSH(a, &f->remedy) = "assay qualify   # and works";
}

static const char *plural(struct arena *a, size_t n, const char *one, const char *many)
{
    return arena_fmt(a, "%zu %s", n, n == 1 ? one : many);
}

static const char *counted(struct arena *a, size_t n, const char *what)
{
    return plural(a, n, what, arena_fmt(a, "%ss", what));
}

static const char *verdict_of(struct arena *a, const struct rollback *r)
{
    if (rollback_is_empty(r)) {
        return "nothing to do: the stack is as in the snapshot, as far as it was compared";
    }
    const char *unknown = r->unknown_sizes != 0
                              ? arena_fmt(a, " and %zu of unknown size", r->unknown_sizes)
                              : "";
    return arena_fmt(a, "back to %s: %s (%s to download%s), %s, %s, %s by hand, %s", r->target,
                     counted(a, r->packages.count, "package"), bytes_text(a, r->download_bytes),
                     unknown, counted(a, r->wheels.count, "Python package"),
                     plural(a, r->switches.count, "switch", "switches"),
                     counted(a, r->by_hand.count, "step"), r->reboot ? "a reboot" : "no reboot");
}

static enum status write_files(struct cli *cli, const struct rollback *r, struct text_list *notes,
                               struct err *err)
{
    const char *script = cli_value(cli, "script", NULL);
    const char *env = cli_value(cli, "apply", NULL);
    if (script != NULL) {
        struct strbuf text;
        strbuf_init(&text, cli->arena, 16 << 20);
        rollback_script(cli->arena, r, &text);
        TRY(write_new(script, strbuf_str(&text), 0644, err));
        *VEC_PUSH(cli->arena, notes) = arena_fmt(
            cli->arena, "plan written to %s; read it, then: sh %s", script, script);
    }
    if (env != NULL) {
        TRY(apply(cli, r, env, notes, err));
    }
    return ST_OK;
}

static int run_rollback(struct cli *cli)
{
    struct err err = {0};
    struct stack now;
    struct stack wanted;
    struct stack_diff d;
    struct fs fs;
    struct rollback plan;
    struct arena *a = cli->arena;
    if (cli->operands.count != 1) {
        return cli_fail(cli, EXIT_USAGE,
                        "rollback takes the snapshot to go back to: assay rollback good.lock");
    }
    if (stack_source_file(cli, cli->operands.items[0], &wanted, &err) != ST_OK ||
        stack_source_machine(cli, &wanted, &now, &fs, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    stack_diff_make(a, &now, &wanted, &d);
    rollback_make(a, &fs, &now, &wanted, &d, cli_flag(cli, "all"), &plan);
    struct report r = {.command = "rollback", .schema_version = 1};
    struct finding_list findings = {0};
    tell_missing(a, &plan, &findings);
    tell_dependents(a, &plan, &findings);
    tell_rest(a, &plan, &findings);
    if (d.gaps.count != 0) {
        struct finding *f = add_finding(
            a, &findings, "stack-not-compared", SEVERITY_UNKNOWN,
            "not everything could be compared",
            "The plan leaves out what one of the two sides does not have.");
        for (size_t i = 0; i < d.gaps.count; i++) {
            const struct stack_gap *g = &d.gaps.items[i];
            evidence(a, f, stack_section_name(g->section),
                     arena_fmt(a, "%s: %s", g->name != NULL ? g->name : "all", g->reason));
        }
    }
    if (!rollback_is_empty(&plan)) {
        tell_checks(a, &plan, &findings);
    }
    const char *other = stack_source_other_python(cli, &now, &wanted);
    if (other != NULL && plan.wheels.count != 0) {
        struct finding *f = add_finding(a, &findings, "rollback-other-environment",
                                        SEVERITY_UNKNOWN,
                                        "the snapshot is of another Python environment", other);
        evidence(a, f, "plan", "it would change the environment of this machine into that one");
    }
    if (write_files(cli, &plan, &r.notes, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    report_tell(&r, "from", now.source);
    report_tell(&r, "to", wanted.source);
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &findings};
    if (plan.packages.count != 0) {
        r.tables[r.table_count++] = packages_table(a, &plan);
    }
    r.numbers[r.number_count++] = (struct report_number){"download_bytes", plan.download_bytes};
    r.verdict = verdict_of(a, &plan);
    return session_report(cli, &r, session_exit(&findings));
}

static const char *const description[] = {
    "Plans the way back from this machine's stack to a snapshot: packages of the distribution that belong to "
    "a GPU stack (with --all, every one), Python packages, switches, what is left to do by hand. It says what "
    "that costs: download sizes from apt's own lists and cache, what depends on the packages, whether a reboot "
    "is needed.",
    "Nothing is carried out. --script FILE writes the plan for you to read and run. --apply FILE, and only "
    "that, changes something: the switches in an environment file of yours (lines NAME=value, with or without "
    "export); the file as it was is kept beside it.",
    "Exit 0: the plan is whole. 2: something in it is unknown, such as a version that no list of this machine "
    "holds.",
    NULL,
};

static const struct example examples[] = {
    {"assay rollback good.lock", "what would going back cost?"},
    {"assay rollback good.lock --script back.sh", "write the plan, read it, run it yourself"},
    {"assay rollback good.lock --apply ~/train.env", "put the switches back in a file of yours"},
    {0},
};

static const struct option_spec options[] = {
    {"script", 0, OPTION_VALUE, "FILE", "Write the plan as a shell script; never over a file"},
    {"apply", 0, OPTION_VALUE, "FILE", "Set the switches in this environment file of yours"},
    {"all", 0, OPTION_FLAG, NULL, "Plan for every package of the distribution that differs"},
    {"python", 0, OPTION_VALUE, "PATH", "Environment of this machine"},
    {"root", 0, OPTION_VALUE, "DIR", "Plan for the machine whose files are under DIR"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_rollback = {
    .name = "rollback",
    .summary = "Plan the way back to a snapshot and what it costs; nothing is carried out",
    .operands = "SNAPSHOT",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_rollback,
};
