// SPDX-License-Identifier: Apache-2.0
/* Which libraries assay probe puts on trial. Names only: nothing is opened here. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

#include "cli/probe/probe.h"
#include "facts/ld_cache.h"

enum {
    LD_CACHE_MAX = 64 << 20
};

/* What a program that links a generic BLAS gets, by way of the loader. */
static const char *const generic[] = {"libblas.so.3", "libcblas.so.3"};

/* Beginnings of names in the loader's cache. */
static const char *const families[] = {
    "libopenblas.so.", "libopenblas64.so.", "libblis.so.",      "libdnnl.so.",     "libmkl_rt.so.",
    "libxsmm.so.",     "libarmpl_lp64.so.", "libaocl-blis.so.", "libflexiblas.so."};

static void add(struct cli *cli, struct probe_library_list *list, const char *name,
                const char *path)
{
    static const struct fs live = {.prefix = ""};
    const char *real = path;
    if (fs_realpath(&live, cli->arena, path, &real, NULL) != ST_OK) {
        real = path;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].path, real) == 0) {
            return;
        }
    }
    *VEC_PUSH(cli->arena, list) = (struct probe_library){
        .vendor = &gemm_vendor_blas, .name = name, .path = real};
}

/* LD_LIBRARY_PATH comes before the cache for every program that is started from here. */
static void from_path(struct cli *cli, const char *name, struct probe_library_list *list)
{
    const char *value = getenv("LD_LIBRARY_PATH");
    struct str rest = str_of(value != NULL ? value : "");
    struct str folder;
    while (rest.n > 0 && str_cut(&rest, ':', &folder)) {
        const char *path = arena_fmt(cli->arena, "%.*s/%s", STR_ARG(folder), name);
        if (folder.n > 0 && access(path, R_OK) == 0) {
            add(cli, list, name, path);
            return;
        }
    }
}

static bool has_name(const struct probe_library_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void from_loader(struct cli *cli, struct probe_library_list *list)
{
    static const struct fs live = {.prefix = ""};
    struct str bytes;
    struct ld_cache cache;
    for (size_t i = 0; i < ARRAY_LEN(generic); i++) {
        from_path(cli, generic[i], list);
    }
    if (fs_read(&live, cli->arena, "/etc/ld.so.cache", LD_CACHE_MAX, &bytes, NULL) != ST_OK ||
        ld_cache_parse(cli->arena, bytes, &cache, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(generic); i++) {
        const char *path = ld_cache_lookup(&cache, generic[i], NULL, 0);
        if (path != NULL && !has_name(list, generic[i])) {
            add(cli, list, generic[i], path);
        }
    }
    for (size_t f = 0; f < ARRAY_LEN(families); f++) {
        for (size_t i = 0; i < cache.count; i++) {
            if (str_starts(str_of(cache.entries[i].name), families[f])) {
                add(cli, list, cache.entries[i].name, cache.entries[i].path);
            }
        }
    }
}

void probe_libraries_of_loader(struct cli *cli, struct probe_library_list *ret_list)
{
    struct probe_library_list list = {0};
    from_loader(cli, &list);
    *ret_list = list;
}

static const struct vendor_row {
    const struct gemm_vendor *vendor;
    enum device_kind kind;
} vendors[] = {
    {&gemm_vendor_cublaslt, DEVICE_CUDA},
    {&gemm_vendor_hipblaslt, DEVICE_HIP},
    {&gemm_vendor_rocblas, DEVICE_HIP},
    {&gemm_vendor_clblast, DEVICE_OPENCL},
};

/* A library of a device says by its name whose interface it has. */
static const struct gemm_vendor *vendor_of(enum device_kind kind, const char *path)
{
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < ARRAY_LEN(vendors); i++) {
        if (vendors[i].kind == kind &&
            strcasestr(slash != NULL ? slash : path, vendors[i].vendor->name) != NULL) {
            return vendors[i].vendor;
        }
    }
    return kind == DEVICE_CPU ? &gemm_vendor_blas : NULL;
}

enum status probe_libraries(struct cli *cli, enum device_kind kind,
                            struct probe_library_list *ret_list, struct err *err)
{
    struct probe_library_list list = {0};
    const char *path;
    for (size_t i = 0; (path = cli_repeat(cli, "library", i)) != NULL; i++) {
        const struct gemm_vendor *vendor = vendor_of(kind, path);
        if (vendor == NULL) {
            return err_set(err, ST_USAGE,
                           "--library '%s': no matrix library of %s is called so; cuBLASLt, "
                           "hipBLASLt, rocBLAS and CLBlast are known on devices",
                           path, device_kind_name(kind));
        }
        *VEC_PUSH(cli->arena,
                  &list) = (struct probe_library){.vendor = vendor, .name = path, .path = path};
    }
    for (size_t i = 0; i < ARRAY_LEN(vendors) && cli_repeat(cli, "library", 0) == NULL; i++) {
        if (vendors[i].kind == kind) {
            *VEC_PUSH(cli->arena, &list) = (struct probe_library){.vendor = vendors[i].vendor,
                                                                  .name = vendors[i].vendor->name};
        }
    }
    if (list.count == 0 && kind == DEVICE_CPU) {
        from_loader(cli, &list);
    }
    *ret_list = list;
    return ST_OK;
}
