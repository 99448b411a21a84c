// SPDX-License-Identifier: Apache-2.0
/*
 * What torch.save writes, in its forms: the ZIP archive of torch 1.6 and later, the legacy stream of
 * pickles and storages, a bare pickle; the tar archive of torch 0.1 and TorchScript are told apart
 * and refused. Tensors are views of storages: type, offset and strides come from the pickle, bytes
 * from the storage. No value is converted or copied.
 *
 * Sources: torch/serialization.py (save, _save, _legacy_save, _legacy_load), torch/_utils.py
 * (_rebuild_*), caffe2/serialize/inline_container.cc.
 */
#ifndef ASSAY_MODEL_TORCH_FILE_H
#define ASSAY_MODEL_TORCH_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

#include "model/pickle.h"
#include "model/tensor_file.h"
#include "model/zip.h"

enum torch_form {
    TORCH_ZIP = 0,
    TORCH_LEGACY,
    TORCH_PICKLE, /* one or more pickles, no storages */
    TORCH_FORM_COUNT
};

enum {
    TORCH_WALK_DEPTH = 64,
    TORCH_WALK_VALUES = 20000000 /* shared values count each time they are met */
};

struct torch_storage {
    struct str key;
    const char *class_name; /* "FloatStorage" */
    const struct tensor_type *type;
    uint64_t elements;
    uint64_t at; /* in the file */
    uint64_t bytes;
    bool present; /* all its bytes are in the file, as many as elements ask for */
    bool used;    /* by a tensor */
};

struct torch_file {
    struct arena *arena;
    struct str bytes;
    enum torch_form form;
    struct pickle pickle;
    struct zip zip;         /* TORCH_ZIP */
    struct str folder;      /* TORCH_ZIP: the one folder all members lie in, without "/" */
    bool big_endian;        /* storages are of the other byte order */
    struct map *storages;   /* key to struct torch_storage */
    struct tensor *tensors; /* offset and bytes in the file; present false when they are not */
    size_t count;
    size_t capacity;
    struct map *by_name; /* name to index + 1 into tensors */
};

/* True for the first bytes of any form, the refused ones included. */
bool torch_looks_like(struct str bytes);

/*
 * Reads the structure: archive, pickle, storages, tensors. Everything wrong becomes an issue; fails
 * when there is no tensor list to be had. `bytes` must stay mapped.
 */
enum status torch_read(struct arena *a, struct str bytes, struct issues *issues,
                       struct torch_file *ret_file, struct err *err) MUST_USE;

/* CRC-32 of the members of the ZIP form: how many there are, and whether a member has its own.
 * `at` is where the file's bytes lie in `map`. ST_FORMAT: the bytes are not those that were written. */
size_t torch_sum_count(const struct torch_file *f);
enum status torch_check_sum(const struct torch_file *f, const struct file_map *map, uint64_t at,
                            size_t index, struct err *err) MUST_USE;

/* A tensor by its path in the pickle ("model.wte.weight", "state.0.exp_avg"); NULL when absent. */
const struct tensor *torch_find(const struct torch_file *f, const char *name);

/* The one element of a tensor, or an int or real in the pickle itself. */
bool torch_number(const struct torch_file *f, const struct pickle_value *v, double *ret_value);

extern const struct tensor_format tensor_format_torch;
extern const struct tensor_format tensor_format_foreign; /* tar, gzip, 7z, ...: refused by name */

/* ---- private to torch_*.c ---- */

/* Fills f->storages' bytes and f->tensors from the pickle's root. */
void torch_collect(struct torch_file *f, const struct pickle_value *root, struct issues *issues);

/* The storage a persistent id names, made on first sight; NULL (with an issue) when it is none. */
struct torch_storage *torch_storage_of(struct torch_file *f, const struct pickle_value *id,
                                       struct issues *issues);

/* The tensor a value stands for, through parameters and wrappers; false when it stands for none. */
bool torch_tensor_of(struct torch_file *f, const struct pickle_value *v, struct tensor *ret_tensor,
                     struct issues *issues);

enum status torch_read_zip(struct torch_file *f, struct issues *issues, struct err *err) MUST_USE;
enum status torch_read_legacy(struct torch_file *f, struct issues *issues,
                              struct err *err) MUST_USE;

/* Reads the pickles that stand one behind the other from `at`; counts what is behind the last. */
enum status torch_read_pickles(struct torch_file *f, uint64_t at, struct issues *issues,
                               struct err *err) MUST_USE;

/* Pickles where none belong: in a storage, in a member of another name, in a tar member. Adds the
 * issue torch-hidden-pickle when one names something outside the list. */
void torch_check_hidden(struct arena *a, struct str bytes, const char *where,
                        struct issues *issues);

#endif
