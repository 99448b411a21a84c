// SPDX-License-Identifier: Apache-2.0
/* Lines are cut at newlines, arrays at their elements; pages that were read are given back. */
#include "model/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "model/checkpoint.h"

enum {
    WINDOW = 4 << 20 /* bytes brought into memory and given back at once */
};

const char *dataset_form_name(enum dataset_form form)
{
    static const char *const names[DATASET_FORM_COUNT] = {"JSON Lines", "JSON array", "text"};
    return form < DATASET_FORM_COUNT ? names[form] : "?";
}

/* What no reader here takes, by its first bytes, and what of pyarrow gives its batches of records. */
static const struct foreign {
    const char *start;
    const char *what;
    const char *batches; /* NULL: there is no such line */
} foreigns[] = {
    {"PAR1", "a Parquet file", "pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches()"},
    {"ARROW1", "an Arrow file", "pyarrow.ipc.open_file(sys.argv[1]).read_all().to_batches()"},
    {"\xff\xff\xff\xff", "an Arrow file", "pyarrow.ipc.open_stream(sys.argv[1])"},
    {"PK\3\4", "a ZIP archive", NULL},
};

static const struct foreign *foreign(struct str head)
{
    for (size_t i = 0; i < ARRAY_LEN(foreigns); i++) {
        if (str_starts(head, foreigns[i].start)) {
            return &foreigns[i];
        }
    }
    return NULL;
}

/* Kinds that are told by the name alone, being text; a line that converts CSV. */
static const struct {
    const char *suffix;
    const char *what;
    const char *cut; /* between fields; NULL: there is no such line */
} named[] = {
    {".csv", "a CSV file", ","},    {".tsv", "a TSV file", "\\t"}, {".yaml", "a YAML file", NULL},
    {".yml", "a YAML file", NULL},  {".xml", "an XML file", NULL}, {".md", "a Markdown file", NULL},
    {".toml", "a TOML file", NULL},
};

static const char *named_kind(const char *path, const char **ret_cut)
{
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (str_ends(str_of(path), named[i].suffix)) {
            *ret_cut = named[i].cut;
            return named[i].what;
        }
    }
    return NULL;
}

static bool is_utf16(struct str head)
{
    return str_starts(head, "\xff\xfe") || str_starts(head, "\xfe\xff");
}

const char *dataset_conversion(struct arena *a, const char *path)
{
    struct file_map map;
    const char *cut = NULL;
    if (named_kind(path, &cut) != NULL && strchr(path, '\'') == NULL) {
        return cut == NULL ? NULL
                           : arena_fmt(a,
                                       "python3 -c 'import csv, json, sys; "
                                       "[print(json.dumps(r, ensure_ascii=False)) for r in "
                                       "csv.DictReader(open(sys.argv[1], newline=\"\"), "
                                       "delimiter=\"%s\")]' '%s' >'%s.jsonl'",
                                       cut, path, path);
    }
    if (strchr(path, '\'') != NULL || file_map_open(path, &map, NULL) != ST_OK) {
        return NULL;
    }
    struct str all = file_map_str(&map);
    const struct foreign *f = foreign(str_slice(all, 0, all.n < 16 ? all.n : 16));
    file_map_close(&map);
    if (f == NULL || f->batches == NULL) {
        return NULL;
    }
    return arena_fmt(a,
                     "python3 -c 'import json, sys, pyarrow.ipc, pyarrow.parquet; "
                     "[print(json.dumps(r, ensure_ascii=False, default=str)) for b in %s for r in "
                     "b.to_pylist()]' '%s' >'%s.jsonl'",
                     f->batches, path, path);
}

static enum status choose_form(struct dataset *d, struct err *err)
{
    struct str all = file_map_str(&d->map);
    struct str head = str_slice(all, 0, all.n < 4096 ? all.n : 4096);
    const struct foreign *what = foreign(head);
    const char *wrong = checkpoint_foreign(head);
    if (what != NULL) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' is %s, which is not read here; convert it to JSON Lines", d->map.path,
                       what->what);
    }
    if (wrong != NULL) {
        bool packed = str_starts(head, "\x1f\x8b") || str_starts(head, "(\xb5/\xfd");
        return err_set(err, packed ? ST_UNSUPPORTED : ST_FORMAT, "'%s' is %s, not training data%s",
                       d->map.path, wrong, packed ? " that can be read here; unpack it" : "");
    }
    const char *cut = NULL;
    const char *other = named_kind(d->map.path, &cut);
    if (other != NULL) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' is %s by its name, which is not read here; convert it to JSON Lines",
                       d->map.path, other);
    }
    if (is_utf16(head)) {
        return err_set(err, ST_FORMAT,
                       "'%s' is UTF-16 text; loaders read UTF-8 (iconv -f UTF-16 -t UTF-8)",
                       d->map.path);
    }
    d->has_mark = str_starts(head, "\xef\xbb\xbf");
    d->at = d->has_mark ? 3 : 0;
    size_t first = (size_t)d->at;
    while (first < head.n && strchr(" \t\r\n", head.p[first]) != NULL) {
        first++;
    }
    struct str path = str_of(d->map.path);
    d->form = str_ends(path, ".txt")                                                ? DATASET_TEXT
              : first < head.n && head.p[first] == '[' && !str_ends(path, ".jsonl") ? DATASET_ARRAY
                                                                                    : DATASET_LINES;
    return ST_OK;
}

/* A .json file that is one object over several lines: a configuration, or samples one level too deep. */
static enum status refuse_object(struct dataset *d, struct err *err)
{
    struct str all = file_map_str(&d->map);
    if (d->form != DATASET_LINES || !str_ends(str_of(d->map.path), ".json") ||
        all.n > DATASET_RECORD_MAX) {
        return ST_OK;
    }
    struct json_pull json;
    struct arena *scratch = arena_new(0);
    json_pull_init(&json, all, scratch);
    json.at = (size_t)d->at;
    bool one = json_pull_next(&json) == JSON_PULL_OBJECT &&
               json_pull_skip(&json, JSON_PULL_OBJECT) && json_pull_next(&json) == JSON_PULL_END &&
               str_find_char(str_trim(all), '\n', 0) != SIZE_MAX;
    arena_free(scratch);
    if (!one) {
        return ST_OK;
    }
    return err_set(err, ST_FORMAT,
                   "'%s' is one JSON object; training data are a list of samples, or one a line",
                   d->map.path);
}

enum status dataset_open(const char *path, struct dataset *ret_dataset, struct err *err)
{
    struct dataset d = {.line = 1};
    TRY(file_map_open(path, &d.map, err));
    uint64_t first = d.map.n < WINDOW ? d.map.n : WINDOW;
    enum status status = file_map_populate(&d.map, 0, first, err);
    if (status == ST_OK) {
        status = choose_form(&d, err);
    }
    if (status == ST_OK) {
        status = refuse_object(&d, err);
    }
    if (status != ST_OK) {
        file_map_close(&d.map);
        return status;
    }
    *ret_dataset = d;
    return ST_OK;
}

void dataset_close(struct dataset *d)
{
    file_map_close(&d->map);
}

/* Gives back whole windows that lie behind what is being read. */
static void release(struct dataset *d)
{
    while (d->at - d->released >= 2 * (uint64_t)WINDOW) {
        file_map_release(&d->map, d->released, WINDOW);
        d->released += WINDOW;
    }
}

static uint64_t lines_in(struct str s)
{
    uint64_t n = 0;
    for (const char *p = memchr(s.p, '\n', s.n); p != NULL;
         p = memchr(p + 1, '\n', s.n - (size_t)(p + 1 - s.p))) {
        n++;
    }
    return n;
}

/* ---- lines ---- */

/* The end of the line that begins at d->at, window by window. */
static enum status line_end(struct dataset *d, uint64_t *ret_end, struct err *err)
{
    uint64_t at = d->at;
    while (at < d->map.n) {
        if (at >= d->populated) {
            uint64_t ahead = d->map.n - at < WINDOW ? d->map.n - at : WINDOW;
            TRY(file_map_populate(&d->map, at, ahead, err));
            d->populated = at + ahead;
        }
        uint64_t n = d->populated - at;
        const unsigned char *p = memchr(d->map.p + at, '\n', (size_t)n);
        if (p != NULL) {
            *ret_end = (uint64_t)(p - d->map.p);
            return ST_OK;
        }
        at += n;
        if (at - d->at > DATASET_RECORD_MAX) { /* it will not be kept */
            file_map_release(&d->map, at - n, n);
        }
    }
    *ret_end = d->map.n;
    return ST_OK;
}

static enum status next_line(struct dataset *d, struct dataset_record *ret, bool *ret_any,
                             struct err *err)
{
    while (d->at < d->map.n) {
        uint64_t end = 0;
        uint64_t line = d->line;
        release(d);
        TRY(line_end(d, &end, err));
        struct str text = {.p = (const char *)d->map.p + d->at, .n = (size_t)(end - d->at)};
        bool oversized = text.n > DATASET_RECORD_MAX;
        text.n = oversized ? 4096 : text.n;
        d->at = end < d->map.n ? end + 1 : end;
        d->line++;
        if (!oversized && str_trim(text).n == 0) {
            continue;
        }
        *ret = (struct dataset_record){.line = line,
                                       .number = ++d->number,
                                       .text = str_trim(text),
                                       .is_text = d->form == DATASET_TEXT,
                                       .oversized = oversized};
        *ret_any = true;
        return ST_OK;
    }
    *ret_any = false;
    return ST_OK;
}

/* ---- an array ---- */

static enum status broken(struct dataset *d, struct err *err)
{
    uint64_t line = d->line + lines_in((struct str){.p = (const char *)d->map.p + d->at,
                                                    .n = (size_t)(d->json.at - d->at)});
    d->ended = true;
    d->line = line;
    return err_set(err, ST_FORMAT, "Line %" PRIu64 ": %s", line,
                   d->json.problem != NULL ? d->json.problem : "the array is not whole");
}

static enum status next_element(struct dataset *d, struct dataset_record *ret, bool *ret_any,
                                struct err *err)
{
    enum json_event e = json_pull_next(&d->json);
    if (e == JSON_PULL_LIST_END) {
        d->ended = true;
        *ret_any = false;
        return json_pull_next(&d->json) == JSON_PULL_END ? ST_OK : broken(d, err);
    }
    if (e == JSON_PULL_ERROR) {
        return broken(d, err);
    }
    /* An opening bracket has just been read; other values are looked for behind commas and spaces. */
    size_t from = d->json.at - 1;
    if (e != JSON_PULL_OBJECT && e != JSON_PULL_LIST) {
        from = (size_t)d->at;
        while (from < d->json.at && strchr(" \t\r\n,[", (char)d->map.p[from]) != NULL) {
            from++;
        }
    }
    if (!json_pull_skip(&d->json, e)) {
        return broken(d, err);
    }
    struct str before = {.p = (const char *)d->map.p + d->at, .n = from - (size_t)d->at};
    struct str text = {.p = (const char *)d->map.p + from, .n = d->json.at - from};
    uint64_t line = d->line + lines_in(before);
    d->line = line + lines_in(text);
    d->at = d->json.at;
    bool oversized = text.n > DATASET_RECORD_MAX;
    text.n = oversized ? 4096 : text.n;
    *ret = (struct dataset_record){
        .line = line, .number = ++d->number, .text = text, .oversized = oversized};
    *ret_any = true;
    release(d);
    return ST_OK;
}

static enum status next_of_array(struct dataset *d, struct arena *scratch,
                                 struct dataset_record *ret, bool *ret_any, struct err *err)
{
    if (d->ended) {
        *ret_any = false;
        return ST_OK;
    }
    if (d->json.source.p == NULL) {
        json_pull_init(&d->json, file_map_str(&d->map), scratch);
        d->json.at = (size_t)d->at;
        if (json_pull_next(&d->json) != JSON_PULL_LIST) {
            return broken(d, err);
        }
    }
    d->json.arena = scratch;
    return next_element(d, ret, ret_any, err);
}

enum status dataset_next(struct dataset *d, struct arena *scratch,
                         struct dataset_record *ret_record, bool *ret_any, struct err *err)
{
    return d->form == DATASET_ARRAY ? next_of_array(d, scratch, ret_record, ret_any, err)
                                    : next_line(d, ret_record, ret_any, err);
}
