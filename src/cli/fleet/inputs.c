// SPDX-License-Identifier: Apache-2.0
/* See fleet_inputs.h. */
#include "cli/fleet/inputs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/fleet_rules.h"

enum {
    RULES_FILE_MAX = 1 << 20,
    HOSTS_FILE_MAX = 16 << 20,
    FILES_MAX = FLEET_MAX_NODES * FLEET_KIND_COUNT
};

static const struct fs live = {.prefix = ""};

enum status fleet_inputs_rules(const struct cli *cli, struct fleet_rules *ret_rules,
                               struct err *err)
{
    const char *dir = cli_value(cli, "knowledge", NULL);
    char full[PATH_MAX];
    struct str text = STR(FLEET_RULES);
    const char *name = "fleet.tsv";
    if (dir != NULL) {
        if (realpath(dir, full) == NULL || !fs_is_dir(&live, cli->arena, full)) {
            return err_set(err, ST_ABSENT, "'%s' is not a folder of knowledge", dir);
        }
        name = arena_fmt(cli->arena, "%s/fleet.tsv", full);
        TRY(fs_read(&live, cli->arena, name, RULES_FILE_MAX, &text, err));
    }
    return fleet_rules_read(cli->arena, text, name, ret_rules, err);
}

/* ---- files ---- */

struct node_file {
    const char *node;
    const char *path; /* as the user would write it */
};

struct node_files {
    struct node_file *items;
    size_t count;
    size_t capacity;
};

static enum status add_file(const struct cli *cli, struct node_files *files, const char *path,
                            struct err *err)
{
    if (files->count == FILES_MAX) {
        return err_set(err, ST_LIMIT, "more than %d files: compare parts of the fleet", FILES_MAX);
    }
    *VEC_PUSH(cli->arena, files) = (struct node_file){
        .node = fleet_node_name(cli->arena, path),
        .path = path,
    };
    return ST_OK;
}

static enum status add_folder(const struct cli *cli, struct node_files *files, const char *dir,
                              const char *full, struct err *err)
{
    const char *const *names;
    size_t count;
    size_t passed = 0;
    size_t before = files->count;
    struct str plain = str_of(dir);
    while (plain.n > 1 && str_ends(plain, "/")) {
        plain.n--;
    }
    TRY(fs_list(&live, cli->arena, full, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        if (names[i][0] == '.' || (!str_ends(name, ".json") && !str_ends(name, ".lock"))) {
            passed++;
            continue;
        }
        TRY(add_file(cli, files, arena_fmt(cli->arena, "%.*s/%s", STR_ARG(plain), names[i]), err));
    }
    if (files->count == before) {
        return err_set(err, ST_ABSENT,
                       "the folder %s holds no file *.json or *.lock: expected what the nodes "
                       "wrote, such as node07.json of 'assay doctor --facts --json'",
                       dir);
    }
    if (passed != 0) {
        cli_note(cli, "%zu other %s in %s passed over", passed, passed == 1 ? "entry" : "entries",
                 dir);
    }
    return ST_OK;
}

static int by_node(const void *a, const void *b)
{
    const struct node_file *x = a;
    const struct node_file *y = b;
    int order = strcmp(x->node, y->node);
    return order != 0 ? order : strcmp(x->path, y->path);
}

static enum status list_files(const struct cli *cli, struct node_files *files, struct err *err)
{
    char full[PATH_MAX];
    for (size_t i = 0; i < cli->operands.count; i++) {
        const char *path = cli->operands.items[i];
        if (realpath(path, full) == NULL) {
            return err_set(err, ST_ABSENT, "there is no file or folder '%s'", path);
        }
        TRY(fs_is_dir(&live, cli->arena, full) ? add_folder(cli, files, path, full, err)
                                               : add_file(cli, files, path, err));
    }
    qsort(files->items, files->count, sizeof *files->items, by_node);
    return ST_OK;
}

static enum status read_one(struct fleet *f, struct arena *scratch, const struct node_file *file,
                            struct err *err)
{
    char full[PATH_MAX];
    struct err broken = {0};
    struct str text;
    if (realpath(file->path, full) == NULL) {
        fleet_add_broken(f, file->node, file->path, "the file cannot be opened");
        return ST_OK;
    }
    struct arena_mark mark = arena_mark(scratch);
    enum status status = fs_read(&live, scratch, full, FLEET_FILE_MAX, &text, &broken);
    if (status == ST_OK) {
        status = fleet_add(f, scratch, file->node, file->path, text, err);
    } else {
        fleet_add_broken(f, file->node, file->path, broken.text);
        status = ST_OK;
    }
    arena_rewind(scratch, mark);
    return status;
}

enum status fleet_inputs_read(const struct cli *cli, struct fleet *f, struct err *err)
{
    struct node_files files = {0};
    enum status status = ST_OK;
    TRY(list_files(cli, &files, err));
    struct arena *scratch = arena_new(0);
    for (size_t i = 0; i < files.count && status == ST_OK; i++) {
        if (i != 0 && strcmp(files.items[i].path, files.items[i - 1].path) == 0) {
            continue; /* given as a file and in its folder */
        }
        cli_progress(cli, "reading file %zu of %zu: %s", i + 1, files.count, files.items[i].path);
        status = read_one(f, scratch, &files.items[i], err);
    }
    cli_progress(cli, NULL);
    arena_free(scratch);
    return status;
}

/* ---- expected nodes ---- */

static enum status read_hosts(const struct cli *cli, const char *hosts, struct text_list *ret_hosts,
                              struct err *err)
{
    char full[PATH_MAX];
    struct str text = str_of(hosts);
    const char *name = "--hosts";
    if (realpath(hosts, full) != NULL) {
        TRY(fs_read(&live, cli->arena, full, HOSTS_FILE_MAX, &text, err));
        name = hosts;
    }
    return fleet_hosts_read(cli->arena, text, name, ret_hosts, err);
}

/* By the part before the first dot; the first of several names stands for it. */
static void *short_name(const char *name, struct map *names, bool put)
{
    struct str key = str_slice(str_of(name), 0, strcspn(name, "."));
    if (put && map_get(names, key) == NULL) {
        map_put(names, key, (void *)name);
    }
    return map_get(names, key);
}

static void compare_names(const struct cli *cli, const struct fleet *f,
                          const struct text_list *hosts, struct text_list *ret_missing,
                          struct text_list *ret_strangers)
{
    struct map *sent = map_new(cli->arena);
    struct map *expected = map_new(cli->arena);
    for (size_t i = 0; i < f->nodes.count; i++) {
        short_name(f->nodes.items[i].name, sent, true);
    }
    for (size_t i = 0; i < f->broken.count; i++) {
        short_name(f->broken.items[i].node, sent, true);
    }
    for (size_t i = 0; i < hosts->count; i++) {
        const char *host = hosts->items[i];
        bool again = short_name(host, expected, false) != NULL;
        const char *by = short_name(host, sent, false);
        short_name(host, expected, true);
        if (!again && (by == NULL || !fleet_same_host(by, host))) {
            *VEC_PUSH(cli->arena, ret_missing) = host;
        }
    }
    for (size_t i = 0; i < f->nodes.count; i++) {
        if (short_name(f->nodes.items[i].name, expected, false) == NULL) {
            *VEC_PUSH(cli->arena, ret_strangers) = f->nodes.items[i].name;
        }
    }
}

static size_t count_names(const struct cli *cli, const struct fleet *f)
{
    struct map *sent = map_new(cli->arena);
    for (size_t i = 0; i < f->nodes.count; i++) {
        map_put(sent, str_of(f->nodes.items[i].name), (void *)f);
    }
    for (size_t i = 0; i < f->broken.count; i++) {
        map_put(sent, str_of(f->broken.items[i].node), (void *)f);
    }
    return map_count(sent);
}

enum status fleet_inputs_missing(const struct cli *cli, const struct fleet *f,
                                 struct text_list *ret_missing, struct text_list *ret_strangers,
                                 struct err *err)
{
    const char *nodes = cli_value(cli, "nodes", NULL);
    const char *hosts = cli_value(cli, "hosts", NULL);
    struct text_list missing = {0};
    struct text_list strangers = {0};
    if (hosts != NULL) {
        struct text_list names;
        TRY(read_hosts(cli, hosts, &names, err));
        compare_names(cli, f, &names, &missing, &strangers);
    }
    if (nodes != NULL) {
        uint64_t wanted;
        if (str_to_u64(str_of(nodes), 10, &wanted) != ST_OK || wanted == 0 ||
            wanted > FLEET_MAX_NODES) {
            return err_set(err, ST_USAGE, "--nodes '%s' should be a number from 1 to %d", nodes,
                           FLEET_MAX_NODES);
        }
        size_t sent = count_names(cli, f);
        if (missing.count == 0 && sent < wanted) {
            *VEC_PUSH(cli->arena, &missing) = arena_fmt(
                cli->arena, "%zu of %zu nodes (--hosts would name them)", (size_t)wanted - sent,
                (size_t)wanted);
        }
    }
    *ret_missing = missing;
    *ret_strangers = strangers;
    return ST_OK;
}
