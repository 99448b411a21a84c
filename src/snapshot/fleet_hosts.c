// SPDX-License-Identifier: Apache-2.0
/* Lists of nodes as Slurm and mpirun write them: slurm.conf(5) host list expressions, hostfiles of Open MPI. */
#include <string.h>

#include "base/vec.h"

#include "snapshot/fleet.h"

enum {
    NAME_MAX_BYTES = 255,
    DIGITS_MAX = 9
};

struct hosts {
    struct arena *arena;
    const char *name; /* of the list, for messages */
    struct text_list *to;
    struct err *err;
};

static enum status add_host(struct hosts *h, const char *host)
{
    if (h->to->count == FLEET_MAX_NODES) {
        return err_set(h->err, ST_LIMIT, "%s: more than %d nodes", h->name, FLEET_MAX_NODES);
    }
    if (strlen(host) > NAME_MAX_BYTES) {
        return err_set(h->err, ST_FORMAT, "%s: '%.40s...' is no name of a node", h->name, host);
    }
    *VEC_PUSH(h->arena, h->to) = host;
    return ST_OK;
}

static enum status bad_range(struct hosts *h, struct str word)
{
    return err_set(h->err, ST_FORMAT,
                   "%s: '%.*s' is no list of nodes: expected names and ranges such as "
                   "gpu[001-064,70]",
                   h->name, (int)(word.n < 200 ? word.n : 200), word.p);
}

/* "001-064" or "70", with the text around it. */
static enum status add_range(struct hosts *h, struct str word, struct str head, struct str range,
                             struct str tail)
{
    struct str first;
    uint64_t from;
    uint64_t to;
    bool two = str_find_char(range, '-', 0) != SIZE_MAX;
    if (!str_cut(&range, '-', &first)) {
        return bad_range(h, word);
    }
    if (first.n == 0 || first.n > DIGITS_MAX || str_to_u64(first, 10, &from) != ST_OK) {
        return bad_range(h, word);
    }
    to = from;
    if (two && (range.n > DIGITS_MAX || str_to_u64(range, 10, &to) != ST_OK || to < from)) {
        return bad_range(h, word);
    }
    for (uint64_t i = from; i <= to; i++) {
        TRY(add_host(h, arena_fmt(h->arena, "%.*s%0*llu%.*s", STR_ARG(head), (int)first.n,
                                  (unsigned long long)i, STR_ARG(tail))));
    }
    return ST_OK;
}

/* One name, with one pair of brackets at most. */
static enum status add_word(struct hosts *h, struct str word)
{
    size_t open = str_find_char(word, '[', 0);
    if (open == SIZE_MAX) {
        return str_find_char(word, ']', 0) != SIZE_MAX ? bad_range(h, word)
                                                       : add_host(h, str_dup(h->arena, word));
    }
    size_t close = str_find_char(word, ']', open);
    if (close == SIZE_MAX || word.n > NAME_MAX_BYTES * 16 ||
        str_find_char(word, '[', close) != SIZE_MAX) {
        return bad_range(h, word);
    }
    struct str ranges = str_slice(word, open + 1, close);
    struct str range;
    size_t before = h->to->count;
    while (str_cut(&ranges, ',', &range)) {
        TRY(add_range(h, word, str_slice(word, 0, open), range,
                      str_slice(word, close + 1, word.n)));
    }
    return h->to->count != before ? ST_OK : bad_range(h, word);
}

/* Takes one name off the front; commas inside brackets belong to it. */
static bool next_word(struct str *line, struct str *ret_word, bool *ret_comma)
{
    size_t n = 0;
    bool inside = false;
    *line = str_trim(*line);
    while (n < line->n &&
           (inside || (line->p[n] != ',' && line->p[n] != ' ' && line->p[n] != '\t'))) {
        inside = line->p[n] == '[' || (inside && line->p[n] != ']');
        n++;
    }
    *ret_word = str_slice(*line, 0, n);
    *ret_comma = n < line->n && line->p[n] == ',';
    *line = str_slice(*line, n + (n < line->n), line->n);
    return n != 0 || *ret_comma;
}

enum status fleet_hosts_read(struct arena *a, struct str text, const char *name,
                             struct text_list *ret_hosts, struct err *err)
{
    struct text_list list = {0};
    struct hosts h = {.arena = a, .name = name, .to = &list, .err = err};
    struct str line;
    struct str word;
    bool comma = true;
    while (str_cut_line(&text, &line)) {
        line = str_slice(line, 0, str_find_char(line, '#', 0));
        for (comma = true; comma && next_word(&line, &word, &comma);) {
            if (word.n != 0) {
                TRY(add_word(&h, word));
            }
        }
    }
    if (list.count == 0) {
        return err_set(err, ST_FORMAT, "%s names no node", name);
    }
    *ret_hosts = list;
    return ST_OK;
}

bool fleet_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    size_t m = strcspn(b, ".");
    if (a[n] == '\0' || b[m] == '\0') {
        return n == m && strncmp(a, b, n) == 0;
    }
    return strcmp(a, b) == 0;
}
