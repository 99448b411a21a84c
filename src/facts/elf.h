// SPDX-License-Identifier: Apache-2.0
/*
 * A bounds-checked reader of 64-bit little-endian ELF files over mapped bytes. Only what assay asks
 * of libraries: sections, dynamic entries, needed versions, symbols, machine and flags.
 * Source: System V ABI, gABI 4.1 and the GNU symbol-versioning extension (elf.h values).
 */
#ifndef ASSAY_FACTS_ELF_H
#define ASSAY_FACTS_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct elf {
    struct str file; /* all bytes; borrowed, must outlive the struct */
    uint16_t type;
    uint16_t machine; /* 62 x86-64, 224 AMDGPU */
    uint8_t os_abi;
    uint8_t abi_version;
    uint32_t flags;
    const char *soname; /* NULL when it has none */
    const char *rpath;  /* DT_RPATH, NULL */
    const char *runpath;
    const char *build_id; /* lower-case hex, NULL */
    const char *const *needed;
    size_t needed_count;
    uint64_t section_count;
    uint64_t section_table; /* file offset */
    struct str section_names;
};

/* Parses headers and the dynamic section. Everything is on the arena except the file's bytes. */
enum status elf_open(struct arena *a, struct str file, const char *name, struct elf *ret_elf,
                     struct err *err) MUST_USE;

/* Content of a section by name; ST_ABSENT when there is none or it has no bytes in the file. */
enum status elf_section(const struct elf *elf, const char *name, struct str *ret_bytes) MUST_USE;

/* Highest version a library needs of a family: elf_needs_version(e, "GLIBC_") -> "2.34". */
const char *elf_needs_version(struct arena *a, const struct elf *elf, const char *prefix);

/* Highest version the library itself defines, e.g. "GLIBCXX_" of libstdc++. */
const char *elf_defines_version(struct arena *a, const struct elf *elf, const char *prefix);

/* Calls visit for each dynamic symbol; stops when it returns false. */
void elf_each_symbol(const struct elf *elf,
                     bool (*visit)(void *ctx, struct str name, bool defined, bool weak), void *ctx);

/* True when the NUL-terminated text `literal` occurs in the file's read-only data (any section that
 * is not code): "does this library contain the name of this variable". */
bool elf_has_literal(const struct elf *elf, const char *literal);

#endif
