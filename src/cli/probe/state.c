// SPDX-License-Identifier: Apache-2.0
/* The state file of assay probe. What a choice's number means is the library's business; faults are
 * run again when they are explained, so nothing here is believed beyond counting. */
#include "cli/probe/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/vec.h"

#define HEADING "assay-probe-state 2"

enum {
    STATE_FILE_MAX = 64 << 20,
    LIBRARIES_MAX = 256
};

struct entry {
    const char *library;
    struct gemm_result *result;
};

struct probe_state {
    struct arena *arena;
    const char *path;
    uint64_t digest;
    VEC_OF(struct entry) entries;
};

struct gemm_result *probe_state_find(const struct probe_state *state, const char *library)
{
    for (size_t i = 0; i < state->entries.count; i++) {
        if (strcmp(state->entries.items[i].library, library) == 0) {
            return state->entries.items[i].result;
        }
    }
    return NULL;
}

static struct gemm_result *entry_of(struct probe_state *state, const char *library)
{
    struct gemm_result *known = probe_state_find(state, library);
    if (known != NULL) {
        return known;
    }
    struct entry *e = VEC_PUSH(state->arena, &state->entries);
    e->library = arena_strdup(state->arena, library);
    e->result = arena_alloc(state->arena, sizeof *e->result);
    return e->result;
}

/* --- reading ----------------------------------------------------------------------------------- */

struct reader {
    struct probe_state *state;
    struct gemm_result *result;
    size_t plan_count;
    bool plan_seen;
};

static bool number(struct str *line, uint64_t *ret_value)
{
    struct str word;
    return str_cut(line, ' ', &word) && str_to_u64(word, 10, ret_value) == ST_OK;
}

static bool read_fault(struct str rest, struct reader *r)
{
    uint64_t v[5];
    struct str word;
    int64_t distance = 0;
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        if (!number(&rest, &v[i])) {
            return false;
        }
    }
    if (!str_cut(&rest, ' ', &word) || str_to_i64(word, 10, &distance) != ST_OK ||
        v[0] >= r->plan_count || v[1] == 0 || v[1] >= GEMM_FAULT_KIND_COUNT ||
        v[2] > GEMM_OPERAND_NONE || v[3] >= GUARD_SIDE_COUNT ||
        r->result->fault_count == GEMM_FAULTS_KEPT) {
        return false;
    }
    r->result->faults[r->result->fault_count++] = (struct gemm_fault){
        .index = (size_t)v[0],
        .kind = (enum gemm_fault_kind)v[1],
        .operand = (enum gemm_operand)v[2],
        .side = (enum guard_side)v[3],
        .signal = (int)(v[4] & 0x7f),
        .distance = distance,
        .row = -1,
        .column = -1,
    };
    return true;
}

static bool read_counts(struct str rest, struct reader *r)
{
    struct gemm_result *to = r->result;
    uint64_t next;
    bool fine = number(&rest, &next) && number(&rest, &to->probes) &&
                number(&rest, &to->declined) && number(&rest, &to->skipped) &&
                number(&rest, &to->faulty) && next <= r->plan_count;
    to->next = fine ? (size_t)next : 0;
    return fine && str_to_double(rest, &to->worst) == ST_OK && to->worst >= 0 && to->worst <= 1;
}

static bool read_way(struct str rest, struct reader *r)
{
    uint64_t kind;
    uint64_t operand;
    uint64_t count;
    if (!number(&rest, &kind) || kind >= GEMM_FAULT_KIND_COUNT || !number(&rest, &operand) ||
        operand > GEMM_OPERAND_NONE || !number(&rest, &count) || count > r->plan_count) {
        return false;
    }
    r->result->by_way[kind][operand] = count;
    r->result->by_kind[kind] += count;
    return true;
}

static enum status read_line(struct str line, struct reader *r, struct err *err)
{
    struct str all = line;
    struct str word;
    uint64_t digest;
    str_cut(&line, ' ', &word);
    if (str_is(word, "plan")) {
        if (str_to_u64(line, 16, &digest) != ST_OK || digest != r->state->digest) {
            return err_set(err, ST_USAGE,
                           "it belongs to another plan: give the --level, --seed, --dtype and "
                           "--shapes of that run, or remove the file");
        }
        r->plan_seen = true;
        return ST_OK;
    }
    bool fine = r->plan_seen;
    if (fine && str_is(word, "library")) {
        fine = line.n > 0 && r->state->entries.count < LIBRARIES_MAX;
        r->result = fine ? entry_of(r->state, str_dup(r->state->arena, line)) : NULL;
    } else if (fine && r->result != NULL && str_is(word, "counts")) {
        fine = read_counts(line, r);
    } else if (fine && r->result != NULL && str_is(word, "way")) {
        fine = read_way(line, r);
    } else if (fine && r->result != NULL && str_is(word, "fault")) {
        fine = read_fault(line, r);
    } else {
        fine = false;
    }
    if (!fine) {
        return err_set(err, ST_FORMAT, "'%.*s' is not a line of a state file",
                       (int)(all.n < 80 ? all.n : 80), all.p);
    }
    return ST_OK;
}

enum status probe_state_open(struct arena *a, const char *path, uint64_t plan_digest,
                             size_t plan_count, struct probe_state **ret_state, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct probe_state *state = arena_alloc(a, sizeof *state);
    *state = (struct probe_state){.arena = a, .path = path, .digest = plan_digest};
    struct str text;
    struct str line;
    enum status st = fs_read(&live, a, path, STATE_FILE_MAX, &text, err);
    if (st == ST_ABSENT) {
        *ret_state = state;
        return ST_OK;
    }
    TRY(st);
    if (!str_cut_line(&text, &line) || !str_is(line, HEADING)) {
        return err_set(err, ST_FORMAT,
                       "'%s' is not a state file of this assay probe: name another, or remove it",
                       path);
    }
    struct reader r = {.state = state, .plan_count = plan_count};
    for (size_t n = 2; str_cut_line(&text, &line); n++) {
        if (read_line(line, &r, err) != ST_OK) {
            return err_context(err, "cannot resume from '%s', line %zu", path, n);
        }
    }
    *ret_state = state;
    return ST_OK;
}

/* --- writing ----------------------------------------------------------------------------------- */

static void print(const struct probe_state *state, struct strbuf *out)
{
    strbuf_fmt(out, HEADING "\nplan %llx\n", (unsigned long long)state->digest);
    for (size_t e = 0; e < state->entries.count; e++) {
        const struct gemm_result *r = state->entries.items[e].result;
        strbuf_fmt(out, "library %s\n", state->entries.items[e].library);
        strbuf_fmt(out, "counts %zu %llu %llu %llu %llu %.17g\n", r->next,
                   (unsigned long long)r->probes, (unsigned long long)r->declined,
                   (unsigned long long)r->skipped, (unsigned long long)r->faulty, r->worst);
        for (size_t k = 0; k < GEMM_FAULT_KIND_COUNT; k++) {
            for (size_t o = 0; o <= GEMM_OPERAND_NONE; o++) {
                if (r->by_way[k][o] != 0) {
                    strbuf_fmt(out, "way %zu %zu %llu\n", k, o,
                               (unsigned long long)r->by_way[k][o]);
                }
            }
        }
        for (size_t i = 0; i < r->fault_count; i++) {
            const struct gemm_fault *f = &r->faults[i];
            strbuf_fmt(out, "fault %zu %d %d %d %d %lld\n", f->index, f->kind, f->operand, f->side,
                       f->signal, (long long)f->distance);
        }
    }
}

static enum status write_file(const char *path, struct str text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return err_sys(err, errno, "cannot write '%s'", path);
    }
    while (text.n != 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            int saved = errno;
            close(fd);
            return err_sys(err, saved, "cannot write '%s'", path);
        }
        text = str_slice(text, (size_t)n, text.n);
    }
    if (close(fd) != 0) {
        return err_sys(err, errno, "cannot write '%s'", path);
    }
    return ST_OK;
}

enum status probe_state_save(struct probe_state *state, const char *library,
                             const struct gemm_result *result, size_t next, struct err *err)
{
    struct gemm_result *kept = entry_of(state, library);
    memcpy(kept, result, sizeof *kept);
    kept->next = next;
    struct arena *scratch = arena_new(0);
    struct strbuf out;
    strbuf_init(&out, scratch, STATE_FILE_MAX);
    print(state, &out);
    const char *beside = arena_fmt(scratch, "%s.part", state->path);
    enum status st = write_file(beside, strbuf_str(&out), err);
    if (st == ST_OK && rename(beside, state->path) != 0) {
        st = err_sys(err, errno, "cannot rename '%s' to '%s'", beside, state->path);
    }
    arena_free(scratch);
    return st;
}
