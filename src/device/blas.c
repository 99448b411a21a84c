// SPDX-License-Identifier: Apache-2.0
/*
 * Opening a CPU library and finding its matrix products. Calls are in blas_call.c, names and
 * versions in blas_family.c.
 */
#include "device/blas.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blas_library.h"

/* The interfaces looked for. A row of CBLAS serves both orders. */
static const struct entry_row {
    const char *base;
    enum blas_abi abi;
    enum dtype dtype_ab;
    enum dtype dtype_c;
} rows[] = {
    {"cblas_sgemm", BLAS_CBLAS_COLUMN, DTYPE_F32, DTYPE_F32},
    {"cblas_dgemm", BLAS_CBLAS_COLUMN, DTYPE_F64, DTYPE_F64},
    {"cblas_sbgemm", BLAS_CBLAS_COLUMN, DTYPE_BF16, DTYPE_F32},
    {"cblas_gemm_bf16bf16f32", BLAS_CBLAS_COLUMN, DTYPE_BF16, DTYPE_F32},
    {"cblas_gemm_f16f16f32", BLAS_CBLAS_COLUMN, DTYPE_F16, DTYPE_F32},
    {"cblas_sgemm_batch_strided", BLAS_CBLAS_BATCH, DTYPE_F32, DTYPE_F32},
    {"cblas_dgemm_batch_strided", BLAS_CBLAS_BATCH, DTYPE_F64, DTYPE_F64},
    {"sgemm_", BLAS_FORTRAN, DTYPE_F32, DTYPE_F32},
    {"dgemm_", BLAS_FORTRAN, DTYPE_F64, DTYPE_F64},
    {"dnnl_sgemm", BLAS_DNNL, DTYPE_F32, DTYPE_F32},
    {"dnnl_gemm_bf16bf16f32", BLAS_DNNL, DTYPE_BF16, DTYPE_F32},
    {"libxsmm_sgemm", BLAS_XSMM, DTYPE_F32, DTYPE_F32},
    {"libxsmm_dgemm", BLAS_XSMM, DTYPE_F64, DTYPE_F64},
    {"bli_sgemm", BLAS_BLI, DTYPE_F32, DTYPE_F32},
    {"bli_dgemm", BLAS_BLI, DTYPE_F64, DTYPE_F64},
};

const char *blas_abi_name(enum blas_abi abi)
{
    static const char *const names[BLAS_ABI_COUNT] = {
        "column-major", "row-major", "Fortran", "oneDNN", "LIBXSMM", "BLIS", "column-major batch",
    };
    return abi < BLAS_ABI_COUNT ? names[abi] : "unknown";
}

/* What builds put around a name; the suffixes say 64-bit integers. */
static const char *const prefixes[] = {"", "scipy_"};

static const struct spelling {
    const char *suffix;
    bool wide;
} suffixes[] = {{"", false}, {"64_", true}, {"_64", true}, {"_64_", true}};

enum {
    SPELLINGS = ARRAY_LEN(prefixes) * ARRAY_LEN(suffixes)
};

static void *find_spelling(void *handle, const char *base, size_t number, char *ret_name,
                           bool *ret_wide)
{
    const struct spelling *spelling = &suffixes[number % ARRAY_LEN(suffixes)];
    snprintf(ret_name, BLAS_SYMBOL_MAX, "%s%s%s", prefixes[number / ARRAY_LEN(suffixes)], base,
             spelling->suffix);
    *ret_wide = spelling->wide;
    return dlsym(handle, ret_name);
}

void *blas_symbol(void *handle, const char *base)
{
    void *found = NULL;
    for (size_t i = 0; i < SPELLINGS && found == NULL; i++) {
        char name[BLAS_SYMBOL_MAX];
        bool wide;
        found = find_spelling(handle, base, i, name, &wide);
    }
    return found;
}

bool blas_is_own(void *handle, void *address)
{
    struct link_map *map = NULL;
    Dl_info info;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || dladdr(address, &info) == 0) {
        return true;
    }
    return (uintptr_t)info.dli_fbase == (uintptr_t)map->l_addr;
}

static void add_entry(struct gemm_library *library, const struct entry_row *row, enum blas_abi abi,
                      const char *symbol, bool wide, void *address)
{
    if (library->entry_count == BLAS_ENTRIES_MAX) {
        return;
    }
    struct blas_entry *entry = &library->entries[library->entry_count++];
    *entry = (struct blas_entry){
        .dtype_ab = row->dtype_ab,
        .dtype_c = row->dtype_c,
        .abi = abi,
        .wide = wide || abi == BLAS_BLI || abi == BLAS_DNNL,
        .function.address = address,
    };
    memcpy(entry->symbol, symbol, sizeof entry->symbol);
}

static bool is_known(const struct gemm_library *library, void *address)
{
    for (size_t i = 0; i < library->entry_count; i++) {
        if (library->entries[i].function.address == address) {
            return true;
        }
    }
    return false;
}

/* Some libraries have both widths of integers under two names, or one function under several. */
static void find_entries(struct gemm_library *library)
{
    char *list = library->identity.symbols;
    size_t room = sizeof library->identity.symbols;
    size_t used = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows) * SPELLINGS; i++) {
        const struct entry_row *row = &rows[i / SPELLINGS];
        char symbol[BLAS_SYMBOL_MAX];
        bool wide = false;
        void *address = find_spelling(library->handle, row->base, i % SPELLINGS, symbol, &wide);
        /* A wrapper is not put on trial for what stands behind it. */
        if (address == NULL || is_known(library, address) ||
            !blas_is_own(library->handle, address)) {
            continue;
        }
        add_entry(library, row, row->abi, symbol, wide, address);
        if (row->abi == BLAS_CBLAS_COLUMN) {
            add_entry(library, row, BLAS_CBLAS_ROW, symbol, wide, address);
        }
        int n = snprintf(list + used, room - used, "%s%s", used != 0 ? ", " : "", symbol);
        used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
    }
}

/* A Python extension module leaves Python's symbols to its interpreter. Loading that interpreter's
 * library beside it serves the names; no Python code runs. */
static void *open_beside_python(const char *path, struct err *err)
{
    const char *tag = strstr(path, ".cpython-3");
    char library[64] = "";
    if (tag != NULL) {
        const char *minor = tag + strlen(".cpython-3");
        size_t n = strspn(minor, "0123456789");
        snprintf(library, sizeof library, "libpython3.%.*s.so.1.0", (int)(n < 3 ? n : 3), minor);
    }
    if (library[0] == '\0' || dlopen(library, RTLD_LAZY | RTLD_GLOBAL) == NULL) {
        err_set(err, ST_UNSUPPORTED,
                "'%s' is a Python extension module and needs %s, which is not installed", path,
                library[0] != '\0' ? library : "its interpreter's library");
        return NULL;
    }
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        err_set(err, ST_FORMAT, "cannot load '%s': %s", path, dlerror());
    }
    return handle;
}

static enum status load(const char *path, void **ret_handle, struct err *err)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        why = why != NULL ? why : "no reason given";
        if (strstr(why, "undefined symbol: Py") != NULL ||
            strstr(why, "undefined symbol: _Py") != NULL) {
            handle = open_beside_python(path, err);
            if (handle == NULL) {
                return ST_UNSUPPORTED;
            }
        } else if (strstr(why, "cannot open shared object file: No such file") != NULL) {
            return err_set(err, ST_ABSENT, "cannot load a library: %s", why);
        } else {
            const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
            bool part = strncmp(name, "libmkl_", strlen("libmkl_")) == 0;
            return err_set(err, ST_FORMAT, "cannot load a library: %s%s", why,
                           part ? " (a part of MKL: name the libmkl_rt.so beside it)" : "");
        }
    }
    *ret_handle = handle;
    return ST_OK;
}

static enum status blas_open(struct arena *a, struct device *device, const char *path,
                             struct gemm_library **ret_library, struct err *err)
{
    (void)device;
    void *handle = NULL;
    TRY(load(path, &handle, err));
    struct gemm_library *library = arena_alloc(a, sizeof *library);
    library->handle = handle;
    struct link_map *map = NULL;
    const char *file = path;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0') {
        file = map->l_name;
    }
    char real[PATH_MAX];
    snprintf(library->identity.file, sizeof library->identity.file, "%.*s",
             (int)sizeof library->identity.file - 1, realpath(file, real) != NULL ? real : file);
    find_entries(library);
    if (library->entry_count == 0) {
        dlclose(handle);
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' has no matrix product that is known here: no cblas_sgemm, sgemm_, "
                       "dnnl_sgemm, libxsmm_sgemm or bli_sgemm among its own symbols",
                       path);
    }
    blas_recognise(a, library);
    const struct blas_identity *identity = &library->identity;
    snprintf(library->summary, sizeof library->summary, "%s%s%s%s",
             identity->version[0] != '\0' ? identity->version : "version not told",
             identity->kernel[0] != '\0' ? " (" : "", identity->kernel,
             identity->kernel[0] != '\0' ? ")" : "");
    *ret_library = library;
    return ST_OK;
}

static void blas_close(struct gemm_library *library)
{
    /* Some libraries stop their threads only at exit and crash when unloaded: leave them mapped. */
    library->handle = NULL;
}

static const char *blas_version(const struct gemm_library *library)
{
    return library->summary;
}

void blas_identity(const struct gemm_library *library, struct blas_identity *ret_identity)
{
    *ret_identity = library->identity;
}

static bool fits(const struct blas_entry *entry, const struct gemm_shape *shape)
{
    if (entry->dtype_ab != shape->dtype_ab || entry->dtype_c != shape->dtype_c ||
        shape->epilogue != GEMM_EPILOGUE_NONE || shape->compute != GEMM_COMPUTE_DEFAULT ||
        (entry->abi == BLAS_CBLAS_BATCH) > (shape->batch > 1)) {
        return false;
    }
    /* Only BLAS promises C = beta C for an empty sum; these return before they look at C. */
    if (shape->k == 0 && (entry->abi == BLAS_DNNL || entry->abi == BLAS_XSMM)) {
        return false;
    }
    const int64_t sizes[] = {shape->m,   shape->n,   shape->k,    shape->lda,
                             shape->ldb, shape->ldc, shape->batch};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (!entry->wide && sizes[i] > INT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool blas_supports(const struct gemm_library *library, const struct gemm_shape *shape)
{
    for (size_t i = 0; i < library->entry_count; i++) {
        if (fits(&library->entries[i], shape)) {
            return true;
        }
    }
    return false;
}

static enum status blas_choices(struct gemm_library *library, const struct gemm_shape *shape,
                                struct gemm_choice *ret_choices, size_t capacity, size_t *ret_count,
                                struct err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < library->entry_count && count < capacity; i++) {
        const struct blas_entry *entry = &library->entries[i];
        if (!fits(entry, shape)) {
            continue;
        }
        struct gemm_choice *choice = &ret_choices[count++];
        *choice = (struct gemm_choice){.id = (int64_t)i};
        snprintf(choice->name, sizeof choice->name, "%s, %s", entry->symbol,
                 blas_abi_name(entry->abi));
    }
    if (count == 0) {
        return err_set(err, ST_UNSUPPORTED, "the library has no product of %s matrices into %s",
                       dtype_info(shape->dtype_ab)->name, dtype_info(shape->dtype_c)->name);
    }
    *ret_count = count;
    return ST_OK;
}

static const struct blas_entry *entry_of(const struct gemm_library *library, int64_t id)
{
    return id >= 0 && (size_t)id < library->entry_count ? &library->entries[id] : NULL;
}

bool blas_choice_abi(const struct gemm_library *library, const struct gemm_choice *choice,
                     enum blas_abi *ret_abi, const char **ret_symbol)
{
    const struct blas_entry *entry = entry_of(library, choice->id);
    if (entry == NULL) {
        return false;
    }
    *ret_abi = entry->abi;
    *ret_symbol = entry->symbol;
    return true;
}

static enum status blas_run(struct gemm_library *library, const struct gemm_shape *shape,
                            const struct gemm_operands *operands, const struct gemm_choice *choice,
                            struct err *err)
{
    const struct blas_entry *entry = entry_of(library, choice->id);
    if (entry == NULL || !fits(entry, shape)) {
        return err_set(err, ST_UNSUPPORTED, "the library has no such product");
    }
    return blas_call(entry, shape, operands, err);
}

const struct gemm_vendor gemm_vendor_blas = {
    .name = "blas",
    .open = blas_open,
    .close = blas_close,
    .version = blas_version,
    .supports = blas_supports,
    .choices = blas_choices,
    .run = blas_run,
};
