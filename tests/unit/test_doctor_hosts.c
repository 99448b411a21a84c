// SPDX-License-Identifier: Apache-2.0
/*
 * What doctor says about the frozen machines: tests/hosts/<name>/expected_findings.txt lists
 * "severity id", sorted, one a line. Switches are left out: the stub libraries hold no names.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

#include "diagnosis/judge.h"
#include "facts/collect.h"
#include "unit.h"

enum {
    MAX_HOSTS = 64,
    MAX_TEXT = 1 << 16
};

static const char *by_doctor(struct arena *a, const struct knowledge *k, const char *folder)
{
    struct fs fs;
    struct err err = {0};
    if (fs_open_root(a, arena_fmt(a, "%s/root", folder), &fs, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    struct arena *scratch = arena_new(0);
    struct collect c = {
        .fs = &fs, .facts = facts_new(a), .scratch = scratch, .user_home = "/home/user"};
    collect_all(&c);
    arena_free(scratch);
    struct finding_list findings = {0};
    struct health health;
    doctor_judge(a, k, c.facts, NULL, &findings, &health);
    struct strbuf out;
    strbuf_init(&out, a, MAX_TEXT);
    const char *last = "";
    for (size_t i = 0; i < findings.count; i++) { /* sorted by severity and id */
        const struct finding *f = &findings.items[i];
        const char *line = arena_fmt(a, "%s %s\n", severity_name(f->severity), f->id);
        if (strcmp(line, last) != 0 && strcmp(f->id, "switch-without-effect") != 0) {
            strbuf_addz(&out, line);
        }
        last = line;
    }
    return out.p;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Fault: a machine is blamed for something it does not have, or its fault is missed. */
static void test_findings_of_each_host(void **state)
{
    (void)state;
    static const struct fs live = {.prefix = ""};
    struct arena *a = arena_new(0);
    const struct knowledge *k;
    struct err err = {0};
    assert_int_equal(knowledge_builtin(a, NULL, &k, &err), ST_OK);
    const char *names[MAX_HOSTS];
    size_t count = 0;
    DIR *dir = opendir(HOSTS);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL && count < MAX_HOSTS;) {
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            names[count++] = arena_strdup(a, e->d_name);
        }
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const char *folder = arena_fmt(a, "%s/%s", HOSTS, names[i]);
        const char *got = by_doctor(a, k, folder);
        struct str want = {0};
        bool read = fs_read(&live, a, arena_fmt(a, "%s/expected_findings.txt", folder), MAX_TEXT,
                            &want, &err) == ST_OK;
        if (!read || !str_is(want, got)) {
            printf("%s: expected\n%.*s  got\n%s", names[i], STR_ARG(want), got);
            wrong++;
        }
    }
    arena_free(a);
    assert_true(count > 10);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_findings_of_each_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
