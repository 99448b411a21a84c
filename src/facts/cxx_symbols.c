// SPDX-License-Identifier: Apache-2.0
/* Lookups go through each library's GNU hash table: thousands of names against hundreds of
 * libraries cost milliseconds. */
#include "facts/cxx_symbols.h"

#include <string.h>

#include "base/vec.h"

enum {
    MAX_MISSING_VERSIONS = 100,
    ENOUGH_EVIDENCE = 2000, /* symbols of one kind and none of the other */
    CLEAR_MAJORITY = 10,
    MAX_VERSION_LOOKUPS = 10000,
};

static bool anyone_defines(const struct ld_object *const *objects, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++) {
        if (objects[i]->state == LD_LOADED && elf_defines_symbol(&objects[i]->elf, name)) {
            return true;
        }
    }
    return false;
}

static bool is_python_api(struct str name)
{
    return str_starts(name, "Py") || str_starts(name, "_Py");
}

/* Symbols that the loader or the linker provides and no table lists. */
static bool is_provided(struct str name)
{
    static const char *const names[] = {"__tls_get_addr", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(name, names[i])) {
            return true;
        }
    }
    return false;
}

static size_t count_missing_libraries(const struct ld *ld, const struct ld_object *object,
                                      const struct ld_object *const *objects, size_t count)
{
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        missing += objects[i]->state != LD_LOADED && ld_is_needed_by(ld, objects[i], object);
    }
    return missing;
}

void cxx_missing_symbols(const struct ld *ld, struct arena *a, const struct ld_object *object,
                         struct missing_symbols *ret_missing)
{
    struct missing_symbols m = {0};
    size_t count;
    const struct ld_object *const *objects = ld_objects(ld, &count);
    if (object->state != LD_LOADED) {
        *ret_missing = m;
        return;
    }
    bool has_python = anyone_defines(objects, count, STR("_Py_NoneStruct"));
    struct elf_symbol s;
    for (size_t i = 0; i < object->elf.symbol_count; i++) {
        if (!elf_plain_symbol_at(&object->elf, i, &s) || s.defined || s.weak ||
            is_provided(s.name)) {
            continue;
        }
        if (!has_python && is_python_api(s.name)) {
            m.python_ignored = true;
            continue;
        }
        if (anyone_defines(objects, count, s.name)) {
            continue;
        }
        if (m.count < MAX_VERSION_LOOKUPS && elf_symbol_at(&object->elf, i, &s) &&
            str_starts(s.version, "GLIBC_")) {
            continue;
        }
        if (m.shown < CXX_SYMBOLS_SHOWN) {
            m.names[m.shown++] = str_dup(a, s.name);
        }
        m.count++;
    }
    m.missing_libraries = count_missing_libraries(ld, object, objects, count);
    *ret_missing = m;
}

struct version_check {
    const struct ld *ld;
    struct arena *arena;
    const struct ld_object *object;
    VEC_OF(struct missing_version) found;
};

static bool check_version(void *ctx, struct str library, struct str version, bool weak)
{
    struct version_check *c = ctx;
    const struct ld_object *provider = ld_find(c->ld, str_dup(c->arena, library));
    if (weak || provider == NULL || provider->state != LD_LOADED ||
        provider->elf.versions_defined_count == 0 || elf_has_version(&provider->elf, version)) {
        return true;
    }
    *VEC_PUSH(c->arena, &c->found) = (struct missing_version){.version = str_dup(c->arena, version),
                                                              .library = provider->path,
                                                              .needed_by = c->object->path};
    return c->found.count < MAX_MISSING_VERSIONS;
}

const struct missing_version *cxx_missing_versions(const struct ld *ld, struct arena *a,
                                                   size_t *ret_count)
{
    struct version_check c = {.ld = ld, .arena = a};
    size_t count;
    const struct ld_object *const *objects = ld_objects(ld, &count);
    for (size_t i = 0; i < count && c.found.count < MAX_MISSING_VERSIONS; i++) {
        if (objects[i]->state == LD_LOADED) {
            c.object = objects[i];
            elf_each_needed_version(&objects[i]->elf, check_version, &c);
        }
    }
    *ret_count = c.found.count;
    return c.found.items;
}

struct evidence_count {
    size_t new_abi;
    size_t old_abi;
};

/* std::string as a parameter: "Ss" in the old type's mangling (Itanium C++ ABI 5.1.8), where it
 * follows a reference, const or ends the list. Names inside namespace std are the library's own
 * and come with either type. */
static bool note_string(void *ctx, struct str name, bool defined, bool weak)
{
    (void)defined;
    (void)weak;
    struct evidence_count *e = ctx;
    if (!str_starts(name, "_Z") || str_starts(name, "_ZNS") || str_starts(name, "_ZNKS") ||
        str_starts(name, "_ZS") || str_starts(name, "_ZTIS") || str_starts(name, "_ZTVS")) {
        return true;
    }
    if (memmem(name.p, name.n, "St7__cxx11", 10) != NULL) {
        e->new_abi++;
    } else if (memmem(name.p, name.n, "RKSs", 4) != NULL ||
               memmem(name.p, name.n, "ERSs", 4) != NULL ||
               (name.n > 4 && memcmp(name.p + name.n - 3, "ESs", 3) == 0)) {
        e->old_abi++;
    }
    return e->new_abi + e->old_abi < ENOUGH_EVIDENCE;
}

enum cxx_string_abi cxx_string_abi_of(const struct elf *elf)
{
    struct evidence_count e = {0};
    elf_each_symbol(elf, note_string, &e);
    if (e.new_abi == 0 && e.old_abi == 0) {
        return CXX_STRING_NONE;
    }
    if (e.new_abi >= e.old_abi * CLEAR_MAJORITY) {
        return CXX_STRING_NEW;
    }
    return e.old_abi >= e.new_abi * CLEAR_MAJORITY ? CXX_STRING_OLD : CXX_STRING_MIXED;
}

const char *cxx_string_abi_name(enum cxx_string_abi abi)
{
    static const char *const names[CXX_STRING_COUNT] = {"none", "old", "new", "mixed"};
    return (unsigned)abi < CXX_STRING_COUNT ? names[abi] : "unknown";
}
