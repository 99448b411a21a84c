// SPDX-License-Identifier: Apache-2.0
/*
 * Folders that training writes, checked as a whole: whether their files belong together. What one file
 * says about itself is its reader's matter; files are opened here without issues of their own.
 *
 * To add a kind: a `const struct folder_kind` in a file of its own, a row in folder.c.
 */
#ifndef ASSAY_MODEL_FOLDER_H
#define ASSAY_MODEL_FOLDER_H

#include "base/file_map.h"
#include "base/tree.h"

#include "model/issue.h"
#include "model/torch_file.h"

struct folder {
    struct arena *arena;
    const char *path;
    const char *const *names; /* sorted */
    size_t count;
    struct issues *issues;
};

struct folder_kind {
    const char *name; /* "DeepSpeed ZeRO checkpoint" */
    bool (*matches)(const struct folder *f);
    void (*check)(const struct folder *f);
};

/* Finds the kinds a folder is of (it may be of several) and checks it as each. `ret_kinds` gets their
 * names. Half-written and empty files are reported for any folder. ST_ABSENT or ST_DENIED when the
 * folder cannot be listed. */
enum status folder_check(struct arena *a, const char *path, struct issues *issues,
                         struct text_list *ret_kinds, struct err *err) MUST_USE;

extern const struct folder_kind folder_kind_model;    /* config.json and weights */
extern const struct folder_kind folder_kind_trainer;  /* Hugging Face Trainer */
extern const struct folder_kind folder_kind_adapter;  /* PEFT */
extern const struct folder_kind folder_kind_zero;     /* DeepSpeed */
extern const struct folder_kind folder_kind_dcp;      /* torch.distributed.checkpoint */
extern const struct folder_kind folder_kind_megatron; /* Megatron-LM */

/* ---- for the kinds ---- */

bool folder_open(struct arena *a, const char *path, struct issues *issues, struct folder *ret,
                 struct err *err);
bool folder_has(const struct folder *f, const char *name);
const char *folder_join(const struct folder *f, const char *name);

/* An error or warning about `name` inside the folder. */
void folder_issue(const struct folder *f, enum severity severity, const char *id, const char *title,
                  const char *name, const char *fmt, ...) PRINTF_LIKE(6, 7);

/* A torch file of the folder; false when it is missing or unreadable. Close it. */
struct folder_torch {
    struct file_map map;
    struct torch_file file;
};

bool folder_torch_open(const struct folder *f, const char *name, struct folder_torch *ret);
void folder_torch_close(struct folder_torch *t);

/* A text file, trimmed; false when missing, larger than 512 MiB or unreadable. */
bool folder_text(const struct folder *f, const char *name, struct str *ret);

/* A JSON file as a document; false when missing or broken. */
bool folder_json(const struct folder *f, const char *name, const struct tree **ret);

/* "<prefix><digits><suffix>": the number; false when the name is of another form. */
bool folder_number(const char *name, const char *prefix, const char *suffix, uint64_t *ret);

/* Size of a regular file; false when it is none. */
bool folder_size(const struct folder *f, const char *name, uint64_t *ret_bytes);

#endif
