// SPDX-License-Identifier: Apache-2.0
/*
 * A bounds-checked reader of 64-bit little-endian ELF files over mapped bytes. Only what assay asks
 * of libraries: sections, dynamic entries, needed versions, symbols, machine and flags. Addresses
 * are followed through the program headers, as ld.so does, so libraries without a section table or
 * rewritten by patchelf read the same.
 * Source: System V ABI, gABI 4.1 and the GNU symbol-versioning and GNU hash extensions.
 */
#ifndef ASSAY_FACTS_ELF_H
#define ASSAY_FACTS_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    ELF_MACHINE_X86_64 = 62,
    ELF_MACHINE_CUDA = 190,
    ELF_MACHINE_AMDGPU = 224
};

struct elf {
    struct str file;  /* all bytes; borrowed, must outlive the struct */
    const char *name; /* as given to elf_open */
    uint16_t type;
    uint16_t machine; /* 62 x86-64, 190 CUDA, 224 AMDGPU */
    uint8_t os_abi;
    uint8_t abi_version;
    uint32_t flags;
    bool truncated;     /* a segment or the section table lies beyond the end of the file */
    const char *soname; /* NULL when it has none */
    const char *rpath;  /* DT_RPATH, NULL; ld.so ignores it when there is a runpath */
    const char *runpath;
    const char *interpreter; /* PT_INTERP: a program; NULL for most libraries */
    const char *build_id;    /* lower-case hex, NULL */
    const char *const *needed;
    size_t needed_count;
    bool no_default_dirs; /* linked with -z nodefaultlib */
    uint64_t section_count;
    uint64_t section_table; /* file offset */
    struct str section_names;
    uint64_t segment_count;
    uint64_t segment_table; /* file offset */
    struct str strings;     /* of the dynamic symbols */
    struct str symbols;     /* whole entries only */
    size_t symbol_count;
    struct str gnu_hash;
    struct str versions_of_symbols;
    struct str versions_needed;
    size_t versions_needed_count;
    struct str versions_defined;
    size_t versions_defined_count;
};

/* True when the bytes begin as an ELF file does, of any class. */
bool elf_is(struct str file);

/* Parses headers and the dynamic section. Everything is on the arena except the file's bytes.
 * ST_FORMAT when it is not ELF or its headers lie; ST_UNSUPPORTED for 32-bit and big-endian files.
 */
enum status elf_open(struct arena *a, struct str file, const char *name, struct elf *ret_elf,
                     struct err *err) MUST_USE;

/* Content of a section by name; ST_ABSENT when there is none or it has no bytes in the file,
 * ST_FORMAT when it lies beyond the end of the file. */
enum status elf_section(const struct elf *elf, const char *name, struct str *ret_bytes) MUST_USE;

struct elf_section {
    struct str name;
    uint32_t type;
    uint64_t flags;
    struct str bytes; /* empty when it has none in the file or lies beyond its end */
};

/* Section by index below section_count; false for a broken entry. */
bool elf_section_at(const struct elf *elf, uint64_t index, struct elf_section *ret_section);

/* Highest version a library needs of a family: elf_needs_version(a, e, "GLIBC_") -> "2.34".
 * NULL when it needs none. */
const char *elf_needs_version(struct arena *a, const struct elf *elf, const char *prefix);

/* Highest version the library itself defines, e.g. "GLIBCXX_" of libstdc++. NULL for none. */
const char *elf_defines_version(struct arena *a, const struct elf *elf, const char *prefix);

/* Calls visit for each version the file needs ("libc.so.6", "GLIBC_2.34"); stops on false. */
void elf_each_needed_version(const struct elf *elf,
                             bool (*visit)(void *ctx, struct str library, struct str version,
                                           bool weak),
                             void *ctx);

/* True when the library defines exactly this version. False also when it defines none at all;
 * ld.so then accepts any (test versions_defined_count). */
bool elf_has_version(const struct elf *elf, struct str version);

struct elf_symbol {
    struct str name;
    bool defined;
    bool weak;
    struct str version; /* empty when it has none */
};

/* Dynamic symbol by index below symbol_count; false for local and broken entries. */
bool elf_symbol_at(const struct elf *elf, size_t index, struct elf_symbol *ret_symbol);

/* The same with `version` left empty, which is cheaper: finding it walks the list of versions. */
bool elf_plain_symbol_at(const struct elf *elf, size_t index, struct elf_symbol *ret_symbol);

/* Calls visit for each dynamic symbol; stops when it returns false. */
void elf_each_symbol(const struct elf *elf,
                     bool (*visit)(void *ctx, struct str name, bool defined, bool weak), void *ctx);

/* True when the file defines a dynamic symbol of this name (any version). Uses the GNU hash table
 * when there is one, so asking for thousands of names is cheap. */
bool elf_defines_symbol(const struct elf *elf, struct str name);

/* Name of the function that covers a virtual address of the image, from the dynamic symbols (what is
 * exported; the nearest one below that reaches it), else from .symtab. False when none does. */
bool elf_symbol_covering(const struct elf *elf, uint64_t address, struct str *ret_name);

/*
 * Which of `count` texts the file's data holds as a whole NUL-terminated word: "does this library
 * contain the name of this variable". Looks at every section that is not code (CPU or GPU), in one
 * pass. The linker merges "XNACK" into the end of "HSA_XNACK": such a tail counts only when the
 * character in front of it could not belong to a name. Texts are 3 to 200 characters; others are
 * never found. Sets ret_found[i] and never clears it.
 */
void elf_find_literals(const struct elf *elf, const char *const *literals, size_t count,
                       bool *ret_found);

/* The same for one. */
bool elf_has_literal(const struct elf *elf, const char *literal);

#endif
