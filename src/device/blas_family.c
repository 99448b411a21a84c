// SPDX-License-Identifier: Apache-2.0
/*
 * Which library this is, its version, and the kernels it chose. Each family exports functions for
 * that; builds that hide them (Debian's libblas.so.3 of BLIS) are recognised by a text that only
 * their family contains, and then tell no version.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

#include "device/blas_library.h"

/* oneDNN's public struct begins with these (dnnl_version_t, since 0.14). */
struct dnnl_version {
    int major, minor, patch;
};

union text_function {
    void *address;
    const char *(*text)(void);
    int (*number)(void);
    const char *(*text_of)(int number);
    void (*fill)(char *buffer, int size);
    const struct dnnl_version *(*dnnl)(void);
};

static union text_function find(const struct gemm_library *library, const char *base)
{
    void *address = blas_symbol(library->handle, base);
    bool taken = address != NULL && (library->asks_needed || blas_is_own(library->handle, address));
    return (union text_function){.address = taken ? address : NULL};
}

static void put(char *to, size_t size, struct str text)
{
    text = str_trim(text);
    snprintf(to, size, "%.*s", STR_ARG(text));
}

static bool is_openblas(struct gemm_library *library)
{
    union text_function config = find(library, "openblas_get_config");
    union text_function core = find(library, "openblas_get_corename");
    if (config.address == NULL) {
        return false;
    }
    struct blas_identity *id = &library->identity;
    struct str text = str_of(config.text());
    struct str name = {0};
    struct str version = {0};
    str_cut(&text, ' ', &name);
    str_cut(&text, ' ', &version);
    put(id->version, sizeof id->version, version);
    if (str_has(text, "USE64BITINT")) {
        for (size_t i = 0; i < library->entry_count; i++) {
            library->entries[i].wide = true;
        }
    }
    if (core.address != NULL) {
        put(id->kernel, sizeof id->kernel, str_of(core.text()));
    }
    return true;
}

static bool is_blis(struct gemm_library *library)
{
    union text_function version = find(library, "bli_info_get_version_str");
    union text_function query = find(library, "bli_arch_query_id");
    union text_function name = find(library, "bli_arch_string");
    if (version.address == NULL && query.address == NULL) {
        return false;
    }
    struct blas_identity *id = &library->identity;
    if (version.address != NULL) {
        put(id->version, sizeof id->version, str_of(version.text()));
    }
    if (query.address != NULL && name.address != NULL) {
        /* The library chooses when it starts, which the wheels do at the first call. */
        union text_function start = find(library, "bli_init");
        if (start.address != NULL) {
            start.number();
        }
        put(id->kernel, sizeof id->kernel, str_of(name.text_of(query.number())));
    }
    return true;
}

static bool is_mkl(struct gemm_library *library)
{
    union text_function version = find(library, "mkl_get_version_string");
    if (version.address == NULL) {
        return false;
    }
    char buffer[256] = "";
    version.fill(buffer, sizeof buffer - 1);
    /* "Intel(R) oneAPI Math Kernel Library Version 2026.0-Product Build ... for Intel(R) 64 ..." */
    struct str text = str_of(buffer);
    size_t at = str_find(text, "Version ", 0);
    if (at != SIZE_MAX) {
        text = str_slice(text, at + strlen("Version "), text.n);
        size_t end = str_find(text, " for ", 0);
        text = str_slice(text, 0, end != SIZE_MAX ? end : text.n);
    }
    put(library->identity.version, sizeof library->identity.version, text);
    union text_function branch = find(library, "mkl_cbwr_get_auto_branch");
    if (branch.address != NULL) {
        /* mkl_types.h: MKL_CBWR_COMPATIBLE 3, SSE2 4, SSE3 5, SSSE3 6, SSE4_1 7, SSE4_2 8, AVX 9,
         * AVX2 10, AVX512_MIC 11, AVX512 12. The best branch of this CPU, not always the chosen. */
        static const char *const branches[] = {"",     "",           "",       "compatible", "SSE2",
                                               "SSE3", "SSSE3",      "SSE4.1", "SSE4.2",     "AVX",
                                               "AVX2", "AVX512_MIC", "AVX512"};
        int n = branch.number();
        if (n > 2 && (size_t)n < ARRAY_LEN(branches)) {
            put(library->identity.kernel, sizeof library->identity.kernel, str_of(branches[n]));
        }
    }
    return true;
}

static bool is_onednn(struct gemm_library *library)
{
    union text_function version = find(library, "dnnl_version");
    if (version.address == NULL) {
        return false;
    }
    struct blas_identity *id = &library->identity;
    const struct dnnl_version *v = version.dnnl();
    snprintf(id->version, sizeof id->version, "%d.%d.%d", v->major, v->minor, v->patch);
    union text_function isa = find(library, "dnnl_get_effective_cpu_isa");
    if (isa.address != NULL) {
        /* dnnl_types.h: a set of bits that grows with the instruction set. */
        static const struct {
            int isa;
            const char *name;
        } names[] = {{0x0, "any"},
                     {0x1, "sse41"},
                     {0x3, "avx"},
                     {0x7, "avx2"},
                     {0xf, "avx2_vnni"},
                     {0x27, "avx512_core"},
                     {0x67, "avx512_core_vnni"},
                     {0xe7, "avx512_core_bf16"}};

        int value = isa.number();
        snprintf(id->kernel, sizeof id->kernel, "isa %#x", (unsigned)value);
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            if (names[i].isa == value) {
                put(id->kernel, sizeof id->kernel, str_of(names[i].name));
            }
        }
    }
    return true;
}

static bool is_libxsmm(struct gemm_library *library)
{
    union text_function target = find(library, "libxsmm_get_target_arch");
    if (target.address == NULL) {
        return false;
    }
    union text_function start = find(library, "libxsmm_init");
    if (start.address != NULL) {
        start.number();
    }
    put(library->identity.kernel, sizeof library->identity.kernel, str_of(target.text()));
    return true;
}

/* By the bytes of the file: names of variables that only one family reads. */
static const char *family_by_text(struct arena *a, const char *file)
{
    static const struct fs live = {.prefix = ""};

    static const struct {
        const char *text;
        const char *family;
    } marks[] = {{"BLIS_ARCH_TYPE", "blis"},
                 {"OPENBLAS_CORETYPE", "openblas"},
                 {"MKL_ENABLE_INSTRUCTIONS", "mkl"}};
    struct fs_map map;
    const char *family = NULL;
    if (fs_map(&live, a, file, &map, NULL) != ST_OK) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(marks) && family == NULL; i++) {
        if (memmem(map.p, map.n, marks[i].text, strlen(marks[i].text)) != NULL) {
            family = marks[i].family;
        }
    }
    fs_unmap(&map);
    return family;
}

void blas_recognise(struct arena *a, struct gemm_library *library)
{
    static const struct {
        const char *family;
        bool (*is)(struct gemm_library *library);
    } families[] = {{"openblas", is_openblas},
                    {"blis", is_blis},
                    {"mkl", is_mkl},
                    {"onednn", is_onednn},
                    {"libxsmm", is_libxsmm}};

    const char *family = NULL;
    /* The library itself is asked first: one that falls back on another is not that other one. Those that
     * are nothing but an interface answer with the library behind them. */
    for (size_t i = 0; i < 2 * ARRAY_LEN(families) && family == NULL; i++) {
        library->asks_needed = i >= ARRAY_LEN(families);
        if (families[i % ARRAY_LEN(families)].is(library)) {
            family = families[i % ARRAY_LEN(families)].family;
        }
    }
    if (family == NULL) {
        family = family_by_text(a, library->identity.file);
    }
    put(library->identity.family, sizeof library->identity.family,
        str_of(family != NULL ? family : "blas"));
}

void blas_single_thread(void)
{
    static const char *const variables[][2] = {
        {"OMP_NUM_THREADS", "1"},  {"OPENBLAS_NUM_THREADS", "1"},         {"BLIS_NUM_THREADS", "1"},
        {"MKL_NUM_THREADS", "1"},  {"MKL_THREADING_LAYER", "SEQUENTIAL"}, {"MKL_DYNAMIC", "FALSE"},
        {"GOTO_NUM_THREADS", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        setenv(variables[i][0], variables[i][1], 1);
    }
}

const struct blas_forcing *blas_forcing_of(const char *family)
{
    /* BLIS numbers its configurations by version; the library names the one it took. */
    static const char *const blis[] = {"0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",
                                       "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
                                       "20", "21", "22", "23", "24", "25", "26", "27", NULL};
    static const char *const openblas[] = {
        "Prescott",  "Core2",      "Penryn",      "Dunnington",     "Nehalem",   "Sandybridge",
        "Haswell",   "SkylakeX",   "Cooperlake",  "Sapphirerapids", "Barcelona", "Bobcat",
        "Bulldozer", "Piledriver", "Steamroller", "Excavator",      "Zen",       NULL};
    static const char *const mkl[] = {"SSE4_2", "AVX", "AVX2", "AVX512", NULL};
    static const char *const onednn[] = {"SSE41", "AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16",
                                         NULL};
    static const char *const libxsmm[] = {"generic", "wsm", "snb", "hsw",
                                          "skx",     "clx", "cpx", NULL};
    static const struct blas_forcing rows[] = {
        {"blis", "BLIS_ARCH_TYPE", blis},        {"openblas", "OPENBLAS_CORETYPE", openblas},
        {"mkl", "MKL_ENABLE_INSTRUCTIONS", mkl}, {"onednn", "ONEDNN_MAX_CPU_ISA", onednn},
        {"libxsmm", "LIBXSMM_TARGET", libxsmm},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].family, family) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}
