// SPDX-License-Identifier: Apache-2.0
/* The plan as a script, and the user's environment file; see rollback.h. */
#include <string.h>

#include "snapshot/rollback.h"

void rollback_quote(struct strbuf *out, const char *text)
{
    bool plain = text[0] != '\0';
    for (const char *p = text; *p != '\0'; p++) {
        bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                    (*p >= '0' && *p <= '9');
        plain &= word || strchr("@%_+=:,./-", *p) != NULL;
    }
    if (plain) {
        strbuf_addz(out, text);
        return;
    }
    strbuf_addc(out, '\'');
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'') {
            strbuf_addz(out, "'\\''");
        } else {
            strbuf_addc(out, *p);
        }
    }
    strbuf_addc(out, '\'');
}

/* One comment line: what is foreign in it must not begin another. */
static void comment(struct strbuf *out, const char *text)
{
    strbuf_addz(out, "# ");
    for (const char *p = text; *p != '\0'; p++) {
        strbuf_addc(out, (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p);
    }
    strbuf_addc(out, '\n');
}

static void packages(struct strbuf *out, const struct rollback *r, bool removed)
{
    size_t n = 0;
    for (size_t i = 0; i < r->packages.count; i++) {
        const struct rollback_package *p = &r->packages.items[i];
        if (!p->usable || (p->wanted == NULL) != removed) {
            continue;
        }
        if (n++ == 0) {
            strbuf_addz(
                out, removed
                         ? "\n# Packages that came since; each question is apt's.\napt-get remove"
                         : "\n# Packages of the distribution; run as root.\napt-get install "
                           "--allow-downgrades");
        }
        strbuf_addz(out, " \\\n    ");
        rollback_quote(out, p->name);
        if (!removed) {
            strbuf_addc(out, '=');
            rollback_quote(out, p->wanted);
        }
    }
    if (n != 0) {
        strbuf_addc(out, '\n');
    }
}

static void wheels(struct arena *a, struct strbuf *out, const struct rollback *r)
{
    const char *index = NULL;
    size_t installs = 0;
    size_t removals = 0;
    for (size_t i = 0; i < r->wheels.count; i++) {
        const struct rollback_wheel *w = &r->wheels.items[i];
        installs += w->usable && w->wanted != NULL;
        removals += w->usable && w->wanted == NULL;
        index = index != NULL ? index : w->index;
    }
    if (installs + removals == 0) {
        return;
    }
    strbuf_addz(out, "\n# Python packages of one environment.\npython=");
    rollback_quote(out, arena_fmt(a, "%s/bin/python", r->python != NULL ? r->python : "/usr"));
    strbuf_addc(out, '\n');
    if (installs != 0) {
        strbuf_addz(out, "\"$python\" -m pip install --force-reinstall --no-deps");
        if (index != NULL) {
            strbuf_addz(out, " --extra-index-url ");
            rollback_quote(out, index);
        }
        for (size_t i = 0; i < r->wheels.count; i++) {
            const struct rollback_wheel *w = &r->wheels.items[i];
            if (w->usable && w->wanted != NULL) {
                strbuf_addz(out, " \\\n    ");
                rollback_quote(out, arena_fmt(a, "%s==%s", w->name, w->wanted));
            }
        }
        strbuf_addc(out, '\n');
    }
    for (size_t i = 0; removals != 0 && i < r->wheels.count; i++) {
        const struct rollback_wheel *w = &r->wheels.items[i];
        if (w->usable && w->wanted == NULL) {
            strbuf_addz(out, "\"$python\" -m pip uninstall ");
            rollback_quote(out, w->name);
            strbuf_addc(out, '\n');
        }
    }
}

static void switches(struct arena *a, struct strbuf *out, const struct rollback *r)
{
    if (r->switches.count == 0) {
        return;
    }
    strbuf_addz(
        out,
        "\n# Switches: a script cannot set them for your job. Put these lines where it gets its\n"
        "# environment from, or let 'assay rollback --apply FILE' do so in a file of yours.\n");
    for (size_t i = 0; i < r->switches.count; i++) {
        const struct rollback_switch *s = &r->switches.items[i];
        if (s->wanted == NULL) {
            comment(out, arena_fmt(a, "unset %s", s->name));
            continue;
        }
        struct strbuf value;
        strbuf_init(&value, a, 1 << 16);
        rollback_quote(&value, s->wanted);
        comment(out, arena_fmt(a, "export %s=%s", s->name, value.p));
    }
}

void rollback_script(struct arena *a, const struct rollback *r, struct strbuf *out)
{
    strbuf_addz(out, "#!/bin/sh\n");
    comment(out,
            arena_fmt(a,
                      "The way back to %s, written by 'assay rollback'. Read it before you run it.",
                      r->target));
    strbuf_addz(out, "set -eu\n");
    packages(out, r, false);
    packages(out, r, true);
    wheels(a, out, r);
    switches(a, out, r);
    if (r->by_hand.count != 0) {
        strbuf_addz(out, "\n# By hand:\n");
        for (size_t i = 0; i < r->by_hand.count; i++) {
            comment(out, r->by_hand.items[i]);
        }
    }
    if (r->reboot) {
        strbuf_addz(out, "\n# A kernel, driver or firmware changes: reboot before the checks.\n");
    }
    strbuf_addz(out, "\n# Checks after it:\n");
    struct strbuf target;
    strbuf_init(&target, a, 8000);
    rollback_quote(&target, r->target);
    comment(out, arena_fmt(a, "assay diff %s", target.p));
    comment(out, "assay doctor");
    comment(out, "assay qualify");
}

/* ---- the environment file ---- */

static bool name_valid(const char *name)
{
    for (const char *p = name; *p != '\0'; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
        if (!letter && !(p != name && *p >= '0' && *p <= '9')) {
            return false;
        }
    }
    return name[0] != '\0';
}

/* "export NAME=..." or "NAME=...": the name. */
static bool assigned(struct str line, bool *ret_export, struct str *ret_name)
{
    struct str s = str_trim(line);
    *ret_export = str_starts(s, "export ");
    if (*ret_export) {
        s = str_trim(str_slice(s, 7, s.n));
    }
    size_t equals = str_find_char(s, '=', 0);
    if (equals == SIZE_MAX || equals == 0) {
        return false;
    }
    *ret_name = str_slice(s, 0, equals);
    return true;
}

static void assignment(struct strbuf *out, const struct rollback_switch *s, bool exported)
{
    strbuf_addz(out, exported ? "export " : "");
    strbuf_addz(out, s->name);
    strbuf_addc(out, '=');
    rollback_quote(out, s->wanted);
    strbuf_addc(out, '\n');
}

enum status rollback_env_file(struct arena *a, const struct rollback *r, struct str before,
                              struct strbuf *out, struct err *err)
{
    bool *done = arena_array(a, r->switches.count + 1, sizeof *done);
    for (size_t i = 0; i < r->switches.count; i++) {
        const struct rollback_switch *s = &r->switches.items[i];
        if (!name_valid(s->name) || (s->wanted != NULL && strpbrk(s->wanted, "\n\r") != NULL)) {
            return err_set(
                err, ST_UNSUPPORTED,
                "the value of %s cannot stand on one line of an environment file: set it "
                "by hand",
                s->name);
        }
    }
    struct str line;
    bool shell = before.n == 0; /* a new file is made for sh(1) */
    while (str_cut_line(&before, &line)) {
        bool exported;
        struct str name;
        const struct rollback_switch *hit = NULL;
        bool *mark = NULL;
        if (assigned(line, &exported, &name)) {
            shell |= exported;
            for (size_t i = 0; i < r->switches.count; i++) {
                if (str_is(name, r->switches.items[i].name)) {
                    hit = &r->switches.items[i];
                    mark = &done[i];
                }
            }
        }
        if (hit == NULL) {
            strbuf_add(out, line);
            strbuf_addc(out, '\n');
        } else if (hit->wanted != NULL && !*mark) {
            assignment(out, hit, exported);
        }
        if (mark != NULL) {
            *mark = true;
        }
    }
    for (size_t i = 0; i < r->switches.count; i++) {
        if (!done[i] && r->switches.items[i].wanted != NULL) {
            assignment(out, &r->switches.items[i], shell);
        }
    }
    return ST_OK;
}
