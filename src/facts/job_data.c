// SPDX-License-Identifier: Apache-2.0
/*
 * The first data set of the configuration, when it is a local file: how many rows, which media. And
 * the checkpoint that a run would resume from. Only the first rows are looked at in detail.
 */
#include <string.h>

#include "base/json_scan.h"
#include "base/tree.h"
#include "base/vec.h"

#include "facts/job_parts.h"

enum {
    MAX_INFO = 8 << 20,
    MAX_DATA = 1 << 30,
    MAX_SAMPLED = 2000,
    MAX_SAMPLED_BYTES = 32 << 20,
    MAX_ROW = 4 << 20
};

struct media {
    size_t rows, without;
    bool image, video, audio;
    size_t images_max;
};

static const struct tree *dataset_info(const struct job *j, const char *dir, const char *name)
{
    struct tree_limits limits = {.bytes = MAX_INFO, .nodes = 200000, .depth = 16};
    const char *path = arena_fmt(j->arena, "%s/dataset_info.json", dir);
    struct str text;
    const struct tree *t;
    if (fs_read(j->fs, j->arena, path, MAX_INFO, &text, NULL) != ST_OK ||
        tree_from_json(j->arena, text, path, limits, &t, NULL) != ST_OK) {
        return NULL;
    }
    return tree_get(t, name);
}

/* Items of a media column: a list, one path, or nothing. */
static size_t media_count(const struct tree *row, const char *column)
{
    const struct tree *t = tree_get(row, column);
    if (t == NULL) {
        return 0;
    }
    if (t->kind != TREE_SCALAR) {
        return t->count;
    }
    return t->value.kind == VALUE_STRING && t->text[0] != '\0';
}

static void look_at_row(const struct job *j, struct str text, const char *const columns[3],
                        struct media *m)
{
    struct tree_limits limits = {.bytes = MAX_ROW, .nodes = 20000, .depth = 32};
    const struct tree *row;
    struct arena_mark mark = arena_mark(j->arena);
    if (tree_from_json(j->arena, text, "row", limits, &row, NULL) == ST_OK) {
        size_t images = media_count(row, columns[0]);
        images = images != 0 ? images : media_count(row, "image");
        size_t videos = media_count(row, columns[1]);
        size_t audios = media_count(row, columns[2]);
        m->rows++;
        m->without += images + videos + audios == 0;
        m->image |= images != 0;
        m->video |= videos != 0;
        m->audio |= audios != 0;
        m->images_max = images > m->images_max ? images : m->images_max;
    }
    arena_rewind(j->arena, mark);
}

/* Rows of a JSON list or of JSON lines; the count goes on after the sample is full. */
static bool walk_rows(const struct job *j, struct str text, const char *const columns[3],
                      struct media *m, size_t *ret_rows)
{
    struct json_scan s;
    struct str key;
    struct str row;
    size_t rows = 0;
    size_t seen = 0;
    struct str start = str_trim(str_slice(text, 0, 4096));
    if (start.n != 0 && start.p[0] == '[' && json_scan_open(&s, text)) {
        while (json_scan_next(&s, &key, &row)) {
            rows++;
            seen += row.n;
            if (rows <= MAX_SAMPLED && seen <= MAX_SAMPLED_BYTES) {
                look_at_row(j, row, columns, m);
            }
        }
        *ret_rows = rows;
        return !s.broken;
    }
    if (start.n == 0 || start.p[0] != '{') {
        return false;
    }
    while (str_cut_line(&text, &row)) {
        bool empty = row.n < 4 && str_trim(row).n == 0;
        rows += !empty;
        seen += row.n;
        if (!empty && rows <= MAX_SAMPLED && seen <= MAX_SAMPLED_BYTES) {
            look_at_row(j, row, columns, m);
        }
    }
    *ret_rows = rows;
    return true;
}

static void set_media(const struct job *j, const struct media *m, const char *source)
{
    if (m->rows == 0) {
        return;
    }
    const char *kinds[4];
    size_t count = 0;
    kinds[count++] = "text";
    if (m->image) {
        kinds[count++] = "image";
    }
    if (m->video) {
        kinds[count++] = "video";
    }
    if (m->audio) {
        kinds[count++] = "audio";
    }
    facts_strings(j->facts, "data.modalities", kinds, count, source);
    facts_bool(j->facts, "data.text_only_rows", m->without != 0, source);
    facts_int(j->facts, "data.images_per_sample_max", (int64_t)m->images_max, source);
}

static void read_dataset(const struct job *j, const char *path, const char *const columns[3])
{
    struct fs_map map;
    struct err err = {0};
    if (fs_map(j->fs, j->arena, path, &map, &err) != ST_OK) {
        facts_set_error(j->facts, "data.rows", path, &err);
        return;
    }
    struct media m = {0};
    size_t rows;
    bool whole = map.n <= MAX_DATA;
    struct str text = {.p = (const char *)map.p, .n = whole ? map.n : MAX_DATA};
    bool known = walk_rows(j, text, columns, &m, &rows);
    if (known && whole) {
        facts_int(j->facts, "data.rows", (int64_t)rows, path);
    } else {
        facts_set_state(j->facts, "data.rows", FACT_UNREADABLE, path,
                        whole ? "neither a JSON list nor JSON lines"
                              : "larger than 1 GiB: the rows were not counted");
    }
    set_media(j, &m, path);
    fs_unmap(&map);
}

static const char *first_dataset(const struct job *j)
{
    const struct fact *f = facts_get(j->facts, "config.dataset");
    bool any = f != NULL && f->value.kind == VALUE_LIST && f->value.list.count != 0;
    return any ? f->value.list.items[0].string : NULL;
}

void job_data_facts(const struct job *j)
{
    const char *name = first_dataset(j);
    if (name == NULL) {
        return;
    }
    const char *written = facts_get_string(j->facts, "config.dataset_dir", "data");
    const char *dir = job_config_find_path(j->arena, j->fs, j->config, j->cwd, written);
    if (dir == NULL) {
        facts_set_state(j->facts, "data.rows", FACT_ABSENT, written, "there is no such folder");
        return;
    }
    const struct tree *info = dataset_info(j, dir, name);
    if (info == NULL) {
        facts_set_state(j->facts, "data.rows", FACT_ABSENT,
                        arena_fmt(j->arena, "%s/dataset_info.json", dir),
                        arena_fmt(j->arena, "the data set '%.100s' is not defined there", name));
        return;
    }
    const char *file = tree_text(info, "file_name", NULL);
    if (file == NULL || strstr(file, "..") != NULL) {
        facts_set_state(j->facts, "data.rows", FACT_ABSENT, dir,
                        arena_fmt(j->arena, "the data set '%.100s' names no local file", name));
        return;
    }
    const struct tree *named = tree_get(info, "columns");
    const char *columns[3] = {tree_text(named, "images", "images"),
                              tree_text(named, "videos", "videos"),
                              tree_text(named, "audios", "audios")};
    read_dataset(j, file[0] == '/' ? file : arena_fmt(j->arena, "%s/%s", dir, file), columns);
}

/* Highest rank of "…zero_pp_rank_7_mp_rank_00_optim_states.pt" plus one, 0 when there is none. */
static int64_t ranks_of(const struct job *j, const char *folder)
{
    const char *const *names;
    size_t count;
    int64_t ranks = 0;
    if (fs_list(j->fs, j->arena, folder, &names, &count, NULL) != ST_OK) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(names[i], "zero_pp_rank_");
        if (at == NULL || strstr(at, "optim_states") == NULL) {
            continue;
        }
        at += strlen("zero_pp_rank_");
        size_t digits = strspn(at, "0123456789");
        int64_t rank;
        if (digits != 0 && digits < 7 && str_to_i64((struct str){at, digits}, 10, &rank) == ST_OK &&
            rank + 1 > ranks) {
            ranks = rank + 1;
        }
    }
    return ranks;
}

/* The newest checkpoint-N of a folder, or the folder itself when it is a checkpoint. */
static const char *newest_checkpoint(const struct job *j, const char *folder)
{
    const char *const *names;
    size_t count;
    const char *best = NULL;
    if (fs_list(j->fs, j->arena, folder, &names, &count, NULL) != ST_OK) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "latest") == 0) {
            return folder;
        }
        if (str_starts(str_of(names[i]), "checkpoint-") &&
            (best == NULL || strverscmp(names[i], best) > 0)) {
            best = names[i];
        }
    }
    return best != NULL ? arena_fmt(j->arena, "%s/%s", folder, best) : NULL;
}

void job_checkpoint_facts(const struct job *j)
{
    const char *folder = job_path(j, "resume_from_checkpoint");
    if (folder == NULL) {
        folder = job_path(j, "output_dir");
        folder = folder != NULL ? newest_checkpoint(j, folder) : NULL;
    }
    if (folder == NULL) {
        return;
    }
    struct str tag;
    int64_t ranks = ranks_of(j, folder);
    if (fs_read_trimmed(j->fs, j->arena, arena_fmt(j->arena, "%s/latest", folder), &tag, NULL) ==
            ST_OK &&
        tag.n != 0 && tag.n < 200 && !str_has(tag, "/")) {
        ranks = ranks_of(j, arena_fmt(j->arena, "%s/%.*s", folder, STR_ARG(tag)));
    }
    if (ranks != 0) {
        facts_int(j->facts, "ckpt.world_size", ranks, folder);
    } else {
        facts_set_state(j->facts, "ckpt.world_size", FACT_ABSENT, folder,
                        "no ZeRO shards in that checkpoint");
    }
}
