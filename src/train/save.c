// SPDX-License-Identifier: Apache-2.0
/* Checkpoints as folders: written beside their name, renamed, found again. The tensors are save_tensors.c's. */
#include "train/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "model/folder.h"
#include "model/manifest.h"
#include "model/safetensors_write.h"
#include "train/save_inside.h"

enum {
    MANIFEST_BYTES_MAX = 256 << 20,
    STATE_BYTES_MAX = 1 << 20
};

/* ---- folders ---- */

enum status save_make_folder(const char *path, struct err *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the folder '%s'", path);
    }
    return ST_OK;
}

enum status save_remove_folder(struct arena *scratch, const char *path, struct err *err)
{
    struct folder f;
    if (access(path, F_OK) != 0) {
        return ST_OK;
    }
    if (!folder_open(scratch, path, NULL, &f, err)) {
        return err->status;
    }
    for (size_t i = 0; i < f.count; i++) {
        const char *file = folder_join(&f, f.names[i]);
        if (unlink(file) != 0 && errno != ENOENT) {
            return err_sys(err, errno, "cannot remove '%s'", file);
        }
    }
    if (rmdir(path) != 0 && errno != ENOENT) {
        return err_sys(err, errno, "cannot remove the folder '%s'", path);
    }
    return ST_OK;
}

/* A folder that must go is first no checkpoint any more, then deleted. */
static enum status retire(struct arena *scratch, const char *path, struct err *err)
{
    const char *old = arena_fmt(scratch, "%s.old", path);
    TRY(save_remove_folder(scratch, old, err));
    if (rename(path, old) != 0) {
        return err_sys(err, errno, "cannot rename '%s' to '%s'", path, old);
    }
    return save_remove_folder(scratch, old, err);
}

/* Gives the finished folder its name. */
static enum status publish(struct arena *scratch, const char *part, const char *path,
                           const char *parent, struct err *err)
{
    TRY(safe_folder_sync(part, err));
    if (access(path, F_OK) == 0) {
        TRY(retire(scratch, path, err));
    }
    if (rename(part, path) != 0) {
        return err_sys(err, errno, "cannot rename '%s' to '%s'", part, path);
    }
    return safe_folder_sync(parent, err);
}

/* Numbers of the checkpoints in a folder, ascending. */
static enum status list_steps(struct arena *a, const char *output, uint64_t **ret_steps,
                              size_t *ret_count, struct err *err)
{
    struct folder f;
    size_t n = 0;
    if (!folder_open(a, output, NULL, &f, err)) {
        return err->status;
    }
    uint64_t *steps = arena_array(a, f.count, sizeof *steps);
    for (size_t i = 0; i < f.count; i++) {
        uint64_t step;
        size_t at = n;
        if (!folder_number(f.names[i], "checkpoint-", "", &step)) {
            continue;
        }
        for (n++; at != 0 && steps[at - 1] > step; at--) {
            steps[at] = steps[at - 1];
        }
        steps[at] = step;
    }
    *ret_steps = steps;
    *ret_count = n;
    return ST_OK;
}

static const char *step_path(struct arena *a, const char *output, uint64_t step)
{
    return arena_fmt(a, "%s/checkpoint-%" PRIu64, output, step);
}

static enum status drop_old(struct arena *scratch, const struct save_target *target,
                            struct err *err)
{
    uint64_t *steps;
    size_t count;
    if (target->keep == 0) {
        return ST_OK;
    }
    TRY(list_steps(scratch, target->output, &steps, &count, err));
    for (size_t i = 0; i + target->keep < count; i++) {
        TRY(retire(scratch, step_path(scratch, target->output, steps[i]), err));
    }
    return ST_OK;
}

enum status save_latest(struct arena *a, const char *output, const char **ret_path, struct err *err)
{
    struct folder f;
    uint64_t *steps;
    size_t count;
    *ret_path = NULL;
    if (access(output, F_OK) != 0) {
        return ST_OK;
    }
    if (!folder_open(a, output, NULL, &f, err)) {
        return err->status;
    }
    for (size_t i = 0; i < f.count; i++) {
        uint64_t step;
        if (folder_number(f.names[i], "checkpoint-", ".part", &step) ||
            folder_number(f.names[i], "checkpoint-", ".old", &step)) {
            TRY(save_remove_folder(a, folder_join(&f, f.names[i]), err));
        }
    }
    TRY(list_steps(a, output, &steps, &count, err));
    if (count != 0) {
        *ret_path = step_path(a, output, steps[count - 1]);
    }
    return ST_OK;
}

/* ---- writing ---- */

static enum status write_manifest(struct arena *scratch, const char *folder, struct err *err)
{
    struct issues issues;
    struct checkpoint c;
    struct strbuf text;
    struct manifest_options options = {0};
    issues_init(&issues, scratch, folder);
    TRY(checkpoint_open(scratch, folder, &issues, &c, err));
    strbuf_init(&text, scratch, MANIFEST_BYTES_MAX);
    enum status status = manifest_write(&c, &options, &text, err);
    checkpoint_close(&c);
    TRY(status);
    return safe_file_write(scratch, arena_fmt(scratch, "%s/%s", folder, MANIFEST_NAME),
                           strbuf_str(&text), err);
}

static enum status write_state(struct arena *scratch, const char *folder,
                               const struct save_target *target, const struct save_state *state,
                               struct err *err)
{
    struct strbuf text;
    strbuf_init(&text, scratch, STATE_BYTES_MAX);
    save_state_text(state, target, &text);
    return safe_file_write(scratch, arena_fmt(scratch, "%s/" SAVE_STATE_NAME, folder),
                           strbuf_str(&text), err);
}

static enum status write_folder(struct arena *scratch, const char *folder,
                                const struct save_target *target, const struct save_state *state,
                                struct err *err)
{
    bool adapter = target->lora != NULL && target->lora->rank != 0;
    TRY(save_copy_files(scratch, target->model_folder, folder, !adapter, err));
    if (adapter) {
        TRY(save_adapter_config(scratch, folder, target, err));
    }
    TRY(save_model_tensors(scratch, folder, target, err));
    if (state != NULL) {
        TRY(save_optim_tensors(scratch, folder, target, err));
        TRY(write_state(scratch, folder, target, state, err));
    }
    return write_manifest(scratch, folder, err);
}

/* Writes into `part`, which becomes `path`; on failure nothing is left. */
static enum status write_and_publish(struct arena *scratch, const char *path, const char *parent,
                                     const struct save_target *target,
                                     const struct save_state *state, struct err *err)
{
    struct err second;
    const char *part = arena_fmt(scratch, "%s.part", path);
    TRY(save_remove_folder(scratch, part, err));
    TRY(save_make_folder(part, err));
    enum status status = write_folder(scratch, part, target, state, err);
    if (status == ST_OK) {
        status = publish(scratch, part, path, parent, err);
    }
    if (status != ST_OK) {
        (void)!save_remove_folder(scratch, part, &second);
    }
    return status;
}

enum status save_checkpoint(struct arena *scratch, const struct save_target *target,
                            const struct save_state *state, const char **ret_path, struct err *err)
{
    const char *path = step_path(scratch, target->output, state->step);
    TRY(save_make_folder(target->output, err));
    TRY(write_and_publish(scratch, path, target->output, target, state, err));
    *ret_path = path;
    return drop_old(scratch, target, err);
}

enum status save_model(struct arena *scratch, const char *path, const struct save_target *target,
                       struct err *err)
{
    if (access(path, F_OK) == 0) {
        return err_set(err, ST_USAGE, "'%s' is there already; name a folder that is not", path);
    }
    const char *slash = strrchr(path, '/');
    const char *parent = slash == NULL   ? "."
                         : slash == path ? "/"
                                         : arena_fmt(scratch, "%.*s", (int)(slash - path), path);
    return write_and_publish(scratch, path, parent, target, NULL, err);
}

/* ---- reading ---- */

static enum status check_hashes(struct arena *scratch, const char *path, struct err *err)
{
    struct issues issues;
    struct checkpoint c;
    struct manifest_options options = {.fast = true};
    issues_init(&issues, scratch, path);
    TRY(checkpoint_open(scratch, path, &issues, &c, err));
    manifest_check(&c, &options);
    checkpoint_close(&c);
    for (size_t i = 0; i < issues.list.count; i++) {
        const struct finding *f = &issues.list.items[i];
        if (f->severity == SEVERITY_ERROR || f->severity == SEVERITY_UNKNOWN) {
            return err_set(err, ST_FORMAT, "'%s' cannot be resumed from: %s: %s", path, f->title,
                           f->claim);
        }
    }
    return ST_OK;
}

enum status save_load(struct arena *scratch, const char *path, const struct save_target *target,
                      struct optim *optim, struct save_state *ret_state, struct err *err)
{
    struct save_state state;
    const char *state_path = arena_fmt(scratch, "%s/" SAVE_STATE_NAME, path);
    TRY(save_state_read(scratch, state_path, target, &state, err));
    TRY(check_hashes(scratch, path, err));
    TRY(save_load_tensors(scratch, path, target, optim, err));
    optim->steps = state.step;
    *ret_state = state;
    return ST_OK;
}
