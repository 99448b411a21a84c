// SPDX-License-Identifier: Apache-2.0
/* See dpkg.h. */
#include "snapshot/dpkg.h"

#include <string.h>

#include "snapshot/stack.h"

static void take_field(struct str line, const char *name, struct str *to)
{
    size_t n = strlen(name);
    if (line.n > n && line.p[n] == ':' && memcmp(line.p, name, n) == 0) {
        *to = str_trim(str_slice(line, n + 1, line.n));
    }
}

bool dpkg_next(struct str *text, struct dpkg_paragraph *ret_paragraph)
{
    struct dpkg_paragraph p = {0};
    struct str line;
    bool more = true;
    while (more) {
        more = str_cut_line(text, &line);
        if (!more || line.n == 0) {
            if (p.package.n != 0) {
                *ret_paragraph = p;
                return true;
            }
            p = (struct dpkg_paragraph){0};
            continue;
        }
        switch (line.p[0]) {
        case 'P':
            take_field(line, "Package", &p.package);
            take_field(line, "Pre-Depends", &p.pre_depends);
            break;
        case 'V': take_field(line, "Version", &p.version); break;
        case 'A': take_field(line, "Architecture", &p.architecture); break;
        case 'D': take_field(line, "Depends", &p.depends); break;
        case 'S':
            take_field(line, "Status", &p.status);
            take_field(line, "Size", &p.size);
            break;
        default: break;
        }
    }
    return false;
}

bool dpkg_installed(const struct dpkg_paragraph *p)
{
    return str_ends(p->status, " installed");
}

const char *dpkg_name(struct arena *a, const struct dpkg_paragraph *p)
{
    if (p->architecture.n == 0 || str_is(p->architecture, "amd64") ||
        str_is(p->architecture, "all")) {
        return str_dup(a, p->package);
    }
    return arena_fmt(a, "%.*s:%.*s", STR_ARG(p->package), STR_ARG(p->architecture));
}

bool dpkg_next_dependency(struct str *list, struct str *ret_name)
{
    while (list->n != 0) {
        size_t end = 0;
        while (end < list->n && list->p[end] != ',' && list->p[end] != '|') {
            end++;
        }
        struct str item = str_trim(str_slice(*list, 0, end));
        *list = str_slice(*list, end < list->n ? end + 1 : end, list->n);
        size_t n = 0;
        while (n < item.n && strchr(" (:[", item.p[n]) == NULL) {
            n++;
        }
        if (n != 0) {
            *ret_name = str_slice(item, 0, n);
            return true;
        }
    }
    return false;
}

static bool all_of(const char *text, const char *more)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        if (!plain && strchr(more, *p) == NULL) {
            return false;
        }
    }
    return true;
}

bool dpkg_name_valid(const char *name)
{
    bool start = (name[0] >= 'a' && name[0] <= 'z') || (name[0] >= '0' && name[0] <= '9');
    return start && strlen(name) < 200 && all_of(name, "+.-:");
}

bool dpkg_version_valid(const char *version)
{
    return version[0] >= '0' && version[0] <= '9' && strlen(version) < 200 &&
           all_of(version, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.+-~:_");
}

void stack_add_packages(struct arena *a, const struct fs *fs, struct stack *s)
{
    struct arena *scratch = arena_new(0);
    struct err err = {0};
    struct str text;
    enum status status = fs_read(fs, scratch, DPKG_STATUS, DPKG_STATUS_MAX, &text, &err);
    if (status == ST_OK) {
        struct dpkg_paragraph p;
        while (dpkg_next(&text, &p)) {
            if (dpkg_installed(&p)) {
                stack_add(a, s, STACK_PACKAGE, dpkg_name(scratch, &p), str_dup(scratch, p.version));
            }
        }
    } else if (status != ST_ABSENT) {
        stack_add_gap(a, s, STACK_PACKAGE, NULL, err.text);
    }
    if (fs_is_dir(fs, scratch, "/var/lib/rpm") || fs_is_dir(fs, scratch, "/usr/lib/sysimage/rpm")) {
        stack_add_gap(a, s, STACK_PACKAGE, NULL,
                      "there is a database of rpm, which this program does not read");
    } else if (status == ST_ABSENT) {
        stack_add_gap(a, s, STACK_PACKAGE, NULL, "there is no list of packages that is understood");
    }
    arena_free(scratch);
}
