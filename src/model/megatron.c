// SPDX-License-Identifier: Apache-2.0
/*
 * A Megatron-LM checkpoint folder: latest_checkpointed_iteration.txt names iter_NNNNNNN, which holds
 * one folder a model rank (mp_rank_TT[_PPP[_EEE]]) or a distributed checkpoint with metadata.json.
 * Source: megatron/training/checkpointing.py (get_checkpoint_name, ensure_directory_exists).
 */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"

#include "model/folder.h"

static const char LATEST[] = "latest_checkpointed_iteration.txt";
static const char RANK_FILE[] = "model_optim_rng.pt";

static bool is_iteration(const struct folder *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (str_starts(str_of(f->names[i]), "mp_rank_") && !str_ends(str_of(f->names[i]), ".pt")) {
            return true;
        }
    }
    return false;
}

static bool matches(const struct folder *f)
{
    return folder_has(f, LATEST) || is_iteration(f);
}

/* Up to three numbers of "mp_rank_00_001_002"; false for other names. */
static bool parse_rank(const char *name, uint64_t ret[3])
{
    struct str rest = str_of(name);
    struct str part;
    if (!str_starts(rest, "mp_rank_")) {
        return false;
    }
    rest = str_slice(rest, 8, rest.n);
    for (unsigned i = 0; str_cut(&rest, '_', &part); i++) {
        if (i == 3 || str_to_u64(part, 10, &ret[i]) != ST_OK || ret[i] >= 65536) {
            return false;
        }
    }
    return true;
}

static void check_rank_file(const struct folder *iteration, const char *rank, bool has_number,
                            uint64_t number)
{
    struct folder_torch t;
    uint64_t size;
    const char *name = arena_fmt(iteration->arena, "%s/%s", rank, RANK_FILE);
    if (!folder_size(iteration, name, &size)) {
        folder_issue(iteration, SEVERITY_ERROR, "megatron-rank-missing",
                     "Files of some ranks are missing", name, "%s has no %s.", rank, RANK_FILE);
        return;
    }
    if (!folder_torch_open(iteration, name, &t)) {
        folder_issue(iteration, SEVERITY_ERROR, "megatron-rank-broken",
                     "A rank's file is unreadable", name,
                     "It cannot be read: a save that stopped, or a damaged file.");
        return;
    }
    int64_t n;
    if (has_number && pickle_int(pickle_get(t.file.pickle.root, "iteration"), &n) &&
        (uint64_t)n != number) {
        folder_issue(iteration, SEVERITY_ERROR, "megatron-step-mismatch",
                     "Files of different steps", name,
                     "It is of iteration %" PRId64 ", its folder of %" PRIu64 ".", n, number);
    }
    folder_torch_close(&t);
}

static void check_iteration(const struct folder *parent, const char *path)
{
    struct folder f;
    if (!folder_open(parent->arena, path, parent->issues, &f, NULL)) {
        folder_issue(parent, SEVERITY_ERROR, "megatron-iteration-missing",
                     "The newest save is not there", LATEST, "Its folder \"%s\" cannot be listed.",
                     issue_text(parent->arena, str_of(path)));
        return;
    }
    const char *slash = strrchr(path, '/');
    uint64_t number = 0;
    bool has_number = folder_number(slash != NULL ? slash + 1 : path, "iter_", "", &number);
    uint64_t ranks = 0;
    uint64_t most[3] = {0};
    for (size_t i = 0; i < f.count; i++) {
        uint64_t at[3] = {0};
        if (parse_rank(f.names[i], at)) {
            ranks++;
            for (unsigned d = 0; d < 3; d++) {
                most[d] = at[d] > most[d] ? at[d] : most[d];
            }
            check_rank_file(&f, f.names[i], has_number, number);
        }
    }
    uint64_t all = (most[0] + 1) * (most[1] + 1) * (most[2] + 1);
    if (ranks > 0 && ranks != all) {
        folder_issue(&f, SEVERITY_ERROR, "megatron-rank-missing", "Files of some ranks are missing",
                     ".", "There are folders of %" PRIu64 " model ranks, %" PRIu64 " are expected.",
                     ranks, all);
    }
    if (ranks == 0 && !(folder_has(&f, "metadata.json") && folder_has(&f, ".metadata"))) {
        folder_issue(&f, SEVERITY_ERROR, "megatron-incomplete", "The save is incomplete", ".",
                     "There are neither mp_rank folders nor metadata.json and .metadata.");
    } else if (ranks == 0) {
        folder_kind_dcp.check(&f);
    }
}

static void check(const struct folder *f)
{
    struct str text;
    uint64_t n;
    if (!folder_has(f, LATEST)) {
        check_iteration(f, f->path);
        return;
    }
    if (!folder_text(f, LATEST, &text) ||
        (!str_is(text, "release") && str_to_u64(text, 10, &n) != ST_OK)) {
        folder_issue(f, SEVERITY_ERROR, "megatron-iteration-missing",
                     "The newest save is not named", LATEST, "It holds no iteration number.");
        return;
    }
    const char *name = str_is(text, "release") ? "release"
                                               : arena_fmt(f->arena, "iter_%07" PRIu64, n);
    check_iteration(f, folder_join(f, name));
}

const struct folder_kind folder_kind_megatron = {
    .name = "Megatron-LM checkpoint", .matches = matches, .check = check};
