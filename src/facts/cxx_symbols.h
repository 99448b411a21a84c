// SPDX-License-Identifier: Apache-2.0
/*
 * Would the loader be content: symbols and versions that no loaded library defines, and which of
 * libstdc++'s two string types a library was built with. This is how an extension built for
 * another PyTorch shows before it is imported ("undefined symbol: _ZN3c10...").
 */
#ifndef ASSAY_FACTS_CXX_SYMBOLS_H
#define ASSAY_FACTS_CXX_SYMBOLS_H

#include "facts/ld_paths.h"

enum {
    CXX_SYMBOLS_SHOWN = 20
};

struct missing_symbols {
    size_t count;                         /* strong undefined symbols that nobody defines */
    const char *names[CXX_SYMBOLS_SHOWN]; /* the first of them, mangled, in file order */
    size_t shown;
    size_t
        missing_libraries; /* needed by the object and not loaded: their symbols are in `count` */
    bool python_ignored;   /* no interpreter was loaded, so names of its API were left out */
};

/* Symbols of `object` that no object of the process defines. Weak ones may be missing, those with
 * a glibc version are the business of cxx_missing_versions(). Load the interpreter and what the
 * extension's package imports first (torch), or everything of theirs is reported. */
void cxx_missing_symbols(const struct ld *ld, struct arena *a, const struct ld_object *object,
                         struct missing_symbols *ret_missing);

struct missing_version {
    const char *version;   /* "GLIBCXX_3.4.32" */
    const char *library;   /* path of the one that lacks it */
    const char *needed_by; /* path of the one that asks */
};

/* Versions that ld.so would refuse the process for ("version `GLIBCXX_3.4.32' not found"). At most
 * 100, in order of loading. */
const struct missing_version *cxx_missing_versions(const struct ld *ld, struct arena *a,
                                                   size_t *ret_count);

enum cxx_string_abi {
    CXX_STRING_NONE = 0, /* no std::string in the interface */
    CXX_STRING_OLD,      /* _GLIBCXX_USE_CXX11_ABI=0 */
    CXX_STRING_NEW,      /* std::__cxx11::string */
    CXX_STRING_MIXED,
    CXX_STRING_COUNT
};

/* From the mangled names of the dynamic symbols, defined and undefined, outside namespace std. */
enum cxx_string_abi cxx_string_abi_of(const struct elf *elf);

/* "none", "old", "new", "mixed". */
const char *cxx_string_abi_name(enum cxx_string_abi abi);

#endif
