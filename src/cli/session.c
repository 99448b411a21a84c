// SPDX-License-Identifier: Apache-2.0
/* Shared steps of the commands. */
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"

#include "facts/collect.h"
#include "facts/facts_json.h"

enum {
    MAX_FACTS_FILE = 64 << 20
};

enum status session_knowledge(const struct cli *cli, const struct knowledge **ret_knowledge,
                              struct err *err)
{
    const char *dir = cli_value(cli, "knowledge", NULL);
    const char *language = cli_value(cli, "lang", NULL);
    const struct knowledge *k;
    if (dir != NULL) {
        TRY(knowledge_from_dir(cli->arena, dir, language, &k, err));
        k = knowledge_with_builtin_scanner(cli->arena, k);
    } else {
        TRY(knowledge_builtin(cli->arena, language, &k, err));
    }
    if (language != NULL && !knowledge_speaks(k, language)) {
        return err_set(err, ST_ABSENT,
                       "there are no texts in the language '%s'; knowledge/texts/ holds one file a "
                       "language, English is built in",
                       language);
    }
    *ret_knowledge = k;
    return ST_OK;
}

static struct str render(const struct cli *cli, const struct report *r, int status, bool color)
{
    const char *name = cli_flag(cli, "json") ? "json" : cli_value(cli, "format", "text");
    const struct report_format *format = report_format_find(name);
    struct report_options options = {.color = color, .width = cli->width, .version = ASSAY_VERSION};
    struct report judged = *r;
    if (judged.outcome == SEVERITY_OK && status != EXIT_FINE) {
        judged.outcome = status == EXIT_UNKNOWN ? SEVERITY_UNKNOWN : SEVERITY_ERROR;
    }
    struct strbuf out;
    strbuf_init(&out, cli->arena, (size_t)256 << 20);
    format->render(&judged, &options, &out);
    return strbuf_str(&out);
}

int session_report(const struct cli *cli, const struct report *r, int status)
{
    return cli_emit(cli, render(cli, r, status, cli->stdout_color), status);
}

int session_report_aside(const struct cli *cli, const struct report *r, int status)
{
    return cli_emit_aside(cli, render(cli, r, status, cli->stderr_color), status);
}

int session_exit(const struct finding_list *findings)
{
    int status = EXIT_FINE;
    for (size_t i = 0; i < findings->count; i++) {
        switch (findings->items[i].severity) {
        case SEVERITY_ERROR:
        case SEVERITY_WARNING: return EXIT_FAULT;
        case SEVERITY_UNKNOWN: status = EXIT_UNKNOWN; break;
        default: break;
        }
    }
    return status;
}

const char *session_counts(const struct cli *cli, const struct finding_list *findings)
{
    static const struct {
        enum severity severity;
        const char *one;
        const char *many;
    } rows[] = {{SEVERITY_ERROR, "error", "errors"},
                {SEVERITY_WARNING, "warning", "warnings"},
                {SEVERITY_UNKNOWN, "could not tell", "could not tell"},
                {SEVERITY_NOTE, "note", "notes"}};
    struct strbuf out;
    strbuf_init(&out, cli->arena, 400);
    for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
        size_t n = 0;
        for (size_t i = 0; i < findings->count; i++) {
            n += findings->items[i].severity == rows[r].severity;
        }
        if (n != 0) {
            strbuf_fmt(&out, "%s%zu %s", out.n != 0 ? ", " : "", n,
                       n == 1 ? rows[r].one : rows[r].many);
        }
    }
    return out.n != 0 ? out.p : "nothing wrong";
}

void session_add_health(const struct cli *cli, struct health *all, const struct health *part)
{
    double weight_all = 0;
    double weight_part = 0;
    for (size_t i = 0; i < all->count; i++) {
        weight_all += all->items[i].weight;
    }
    for (size_t i = 0; i < part->count; i++) {
        weight_part += part->items[i].weight;
        *VEC_PUSH(cli->arena, all) = part->items[i];
    }
    double sum = weight_all + weight_part;
    all->confidence = sum > 0
                          ? (all->confidence * weight_all + part->confidence * weight_part) / sum
                          : 0;
    all->score = health_score(all);
}

void session_score(const struct cli *cli, const struct health *health,
                   struct report_score *ret_score)
{
    struct report_points *rows = arena_array(cli->arena, health->count + 1, sizeof *rows);
    for (size_t i = 0; i < health->count; i++) {
        const struct health_row *r = &health->items[i];
        rows[i] = (struct report_points){
            .name = r->id, .severity = r->severity, .weight = r->weight, .lost = r->lost};
    }
    *ret_score = (struct report_score){.present = true,
                                       .points = health->score,
                                       .maximum = 100,
                                       .confidence = health->confidence,
                                       .rows = rows,
                                       .row_count = health->count};
}

enum status session_config(const struct cli *cli, struct facts *facts,
                           struct job_config *ret_config, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *scratch = arena_new(0);
    enum status status = ST_OK;
    const char *path;
    for (size_t i = 0; status == ST_OK && (path = cli_repeat(cli, "config", i)) != NULL; i++) {
        struct job_config one = {0};
        status = job_config_read(cli->arena, &live, path, &one, err);
        if (status != ST_OK) {
            break;
        }
        job_config_facts(&one, &live, facts, scratch);
        for (size_t e = 0; e < one.entries.count; e++) {
            *VEC_PUSH(cli->arena, &ret_config->entries) = one.entries.items[e];
        }
        for (size_t p = 0; p < one.problems.count; p++) {
            *VEC_PUSH(cli->arena, &ret_config->problems) = one.problems.items[p];
        }
        if (ret_config->file == NULL) {
            ret_config->file = one.file;
            ret_config->kind = one.kind;
        }
    }
    arena_free(scratch);
    return status;
}

static const char *type_of_key(void *ctx, const char *key)
{
    const struct fact_key *row = knowledge_fact_key(ctx, key);
    return row != NULL ? row->type : NULL;
}

const char *session_unit_of_key(void *knowledge, const char *key)
{
    const struct fact_key *row = knowledge_fact_key(knowledge, key);
    return row != NULL ? row->unit : NULL;
}

static bool any_known_key(const struct cli *cli, const struct knowledge *k,
                          const struct facts *facts)
{
    size_t count;
    const struct fact *const *all = facts_sorted(facts, cli->arena, &count);
    for (size_t i = 0; i < count; i++) {
        if (knowledge_fact_key(k, all[i]->key) != NULL) {
            return true;
        }
    }
    return false;
}

enum status session_facts_file(const struct cli *cli, const struct knowledge *k, const char *path,
                               struct facts **ret_facts, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    TRY(fs_read(&live, cli->arena, path, MAX_FACTS_FILE, &text, err));
    struct facts *facts = facts_new(cli->arena);
    TRY(facts_read_json(facts, text, path, type_of_key, (void *)k, err));
    if (!any_known_key(cli, k, facts)) { /* another JSON file: nothing could be wrong with it */
        return err_set(err, ST_FORMAT,
                       "%s holds no fact of a machine: expected what 'assay doctor --facts --json' "
                       "writes there",
                       path);
    }
    *ret_facts = facts;
    return ST_OK;
}

/* Names of all known variables, for the collector that looks for them in libraries. */
static const char *const *switch_names(const struct cli *cli, const struct knowledge *k)
{
    const char **names = arena_array(cli->arena, k->switches_count + 1, sizeof *names);
    for (size_t i = 0; i < k->switches_count; i++) {
        names[i] = k->switches[i].name;
    }
    return names;
}

enum status session_open_root(const struct cli *cli, const char *root, struct fs *ret_fs,
                              struct err *err)
{
    TRY(fs_open_root(cli->arena, root, ret_fs, err));
    if (!fs_is_dir(ret_fs, cli->arena, "/proc") && !fs_is_dir(ret_fs, cli->arena, "/sys") &&
        !fs_is_dir(ret_fs, cli->arena, "/etc")) {
        return err_set(err, ST_FORMAT,
                       "'%s' is not the root of a machine: neither proc nor sys nor etc is in it",
                       root);
    }
    return ST_OK;
}

enum status session_collect_with(const struct cli *cli, const struct knowledge *k, const char *root,
                                 const char *python, const char *binary, struct facts **ret_facts,
                                 struct err *err)
{
    struct fs *fs = arena_alloc(cli->arena, sizeof *fs);
    TRY(session_open_root(cli, root, fs, err));
    struct facts *facts = facts_new(cli->arena);
    struct arena *scratch = arena_new(0);
    struct collect c = {
        .fs = fs,
        .facts = facts,
        .scratch = scratch,
        .python = python,
        .binary = binary,
        .env = fs_is_live(fs) ? (const char *const *)environ : NULL,
        .user_home = fs_is_live(fs) ? getenv("HOME") : NULL,
        .switch_names = switch_names(cli, k),
    };
    collect_all(&c);
    arena_free(scratch);
    *ret_facts = facts;
    return ST_OK;
}

enum status session_collect(const struct cli *cli, const struct knowledge *k, const char *root,
                            const char *python, struct facts **ret_facts, struct err *err)
{
    return session_collect_with(cli, k, root, python, NULL, ret_facts, err);
}
