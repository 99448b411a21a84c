// SPDX-License-Identifier: Apache-2.0
/* See stack_source.h. */
#include "cli/snapshot/stack_source.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tree.h"

#include "cli/session.h"
#include "facts/collect.h"

enum {
    LOCK_MAX = 64 << 20
};

const char *stack_source_other_python(const struct cli *cli, const struct stack *a,
                                      const struct stack *b)
{
    if (a->python == NULL || b->python == NULL || strcmp(a->python, b->python) == 0) {
        return NULL;
    }
    return arena_fmt(
        cli->arena,
        "the Python environments are not the same one: %s and %s; --python names the one "
        "of this machine to compare",
        a->python, b->python);
}

enum status stack_source_machine(const struct cli *cli, const struct stack *like,
                                 struct stack *ret_stack, struct fs *ret_fs, struct err *err)
{
    const struct knowledge *k;
    struct facts *facts;
    struct fs fs;
    const char *root = cli_value(cli, "root", "");
    const char *python = cli_value(cli, "python", NULL);
    TRY(session_knowledge(cli, &k, err));
    cli_progress(cli, "reading the stack of %s", root[0] != '\0' ? root : "this machine");
    TRY(session_open_root(cli, root, &fs, err));
    if (python == NULL && like != NULL && like->python != NULL &&
        fs_is_dir(&fs, cli->arena, like->python)) {
        python = like->python;
    }
    TRY(session_collect(cli, k, root, python, &facts, err));
    struct arena *scratch = arena_new(0);
    struct collect c = {
        .fs = &fs,
        .facts = facts,
        .scratch = scratch,
        .python = python,
        .env = fs_is_live(&fs) ? (const char *const *)environ : NULL,
        .user_home = fs_is_live(&fs) ? getenv("HOME") : NULL,
    };
    stack_collect(cli->arena, &c, ret_stack);
    arena_free(scratch);
    if (ret_stack->python == NULL && cli_value(cli, "python", NULL) != NULL) {
        return err_set(err, ST_ABSENT,
                       "there is no Python environment at '%s': expected its folder or its python",
                       python);
    }
    if (root[0] != '\0') {
        ret_stack->source = root;
    }
    if (ret_fs != NULL) {
        *ret_fs = fs;
    }
    return ST_OK;
}

enum status stack_source_file(const struct cli *cli, const char *path, struct stack *ret_stack,
                              struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    const struct tree *t;
    char full[PATH_MAX];
    if (realpath(path, full) == NULL) {
        return err_set(err, ST_ABSENT, "there is no snapshot '%s'", path);
    }
    const char *file = arena_strdup(cli->arena, full);
    if (fs_is_dir(&live, cli->arena, file)) {
        file = arena_fmt(cli->arena, "%s/facts.json", file);
        if (!fs_exists(&live, cli->arena, file)) {
            return err_set(err, ST_ABSENT,
                           "the folder %s holds no facts.json: 'assay run' writes one, unless "
                           "--no-facts was given",
                           path);
        }
    }
    TRY(fs_read(&live, cli->arena, file, LOCK_MAX, &text, err));
    TRY(tree_from_json(cli->arena, text, file, TREE_LIMITS_DEFAULT, &t, err));
    if (tree_get(t, "facts") == NULL) {
        return stack_read(cli->arena, text, file, ret_stack, err);
    }
    const struct knowledge *k;
    struct facts *facts;
    TRY(session_knowledge(cli, &k, err));
    TRY(session_facts_file(cli, k, file, &facts, err));
    stack_of_facts(cli->arena, facts, ret_stack);
    ret_stack->source = file;
    return ST_OK;
}
