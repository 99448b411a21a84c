// SPDX-License-Identifier: Apache-2.0
/*
 * Dynamic symbols and GNU symbol versions of an opened ELF file.
 * Source: Ulrich Drepper, "ELF Symbol Versioning"; the GNU hash table as binutils writes it.
 */
#include "base/bytes.h"
#include "base/version.h"

#include "facts/elf.h"

enum {
    SYMBOL_SIZE = 24,
    BIND_LOCAL = 0,
    BIND_WEAK = 2,
    TYPE_FUNCTION = 2,
    VERSION_HIDDEN = 0x8000,
    VERSION_BASE = 1, /* VER_FLG_BASE: the entry that names the file, not a version */
    VERSION_WEAK = 2,
    MAX_VERSIONS = 65536,
};

/* One entry of the needed or defined versions, with its index as versions_of_symbols uses it. */
struct version_entry {
    struct str library; /* needed: file that must define it */
    struct str version;
    uint16_t index;
    uint16_t flags;
};

typedef bool version_visit(void *ctx, const struct version_entry *entry);

/* The auxiliary entries of one file. False when the visitor had enough. */
static bool each_needed_of_file(const struct elf *elf, uint64_t at, unsigned count,
                                struct str library, version_visit *visit, void *ctx)
{
    struct str aux;
    for (unsigned k = 0; k < count && bytes_view(elf->versions_needed, at, 16, &aux); k++) {
        struct version_entry e = {.library = library,
                                  .flags = bytes_le16(aux.p + 4),
                                  .index = bytes_le16(aux.p + 6) & ~VERSION_HIDDEN};
        if (bytes_text(elf->strings, bytes_le32(aux.p + 8), &e.version) && !visit(ctx, &e)) {
            return false;
        }
        uint32_t next = bytes_le32(aux.p + 12);
        if (next == 0) {
            break;
        }
        at += next;
    }
    return true;
}

static void each_needed(const struct elf *elf, version_visit *visit, void *ctx)
{
    uint64_t at = 0;
    unsigned budget = MAX_VERSIONS; /* overlapping lists must not multiply */
    struct str head;
    for (size_t i = 0;
         i < elf->versions_needed_count && bytes_view(elf->versions_needed, at, 16, &head); i++) {
        unsigned count = bytes_le16(head.p + 2);
        struct str library;
        if (count > budget) {
            return;
        }
        budget -= count + 1 < budget ? count + 1 : budget;
        if (bytes_text(elf->strings, bytes_le32(head.p + 4), &library) &&
            !each_needed_of_file(elf, at + bytes_le32(head.p + 8), count, library, visit, ctx)) {
            return;
        }
        uint32_t next = bytes_le32(head.p + 12);
        if (next == 0) {
            return;
        }
        at += next;
    }
}

static void each_defined(const struct elf *elf, version_visit *visit, void *ctx)
{
    uint64_t at = 0;
    struct str head;
    for (size_t i = 0; i < elf->versions_defined_count && i < MAX_VERSIONS &&
                       bytes_view(elf->versions_defined, at, 20, &head);
         i++) {
        struct version_entry e = {.flags = bytes_le16(head.p + 2),
                                  .index = bytes_le16(head.p + 4) & ~VERSION_HIDDEN};
        struct str aux;
        if (bytes_view(elf->versions_defined, at + bytes_le32(head.p + 12), 8, &aux) &&
            bytes_text(elf->strings, bytes_le32(aux.p), &e.version) && !visit(ctx, &e)) {
            return;
        }
        uint32_t next = bytes_le32(head.p + 16);
        if (next == 0) {
            return;
        }
        at += next;
    }
}

struct highest {
    const char *prefix;
    struct str best;
};

/* Names such as GLIBC_PRIVATE or CXXABI_TM_1 have no number and are not an age. */
static bool keep_highest(void *ctx, const struct version_entry *e)
{
    struct highest *h = ctx;
    if (!str_starts(e->version, h->prefix) || (e->flags & VERSION_BASE) != 0) {
        return true;
    }
    struct str number = str_slice(e->version, strlen(h->prefix), e->version.n);
    if (number.n != 0 && number.p[0] >= '0' && number.p[0] <= '9' &&
        (h->best.n == 0 || version_cmp(number, h->best) > 0)) {
        h->best = number;
    }
    return true;
}

const char *elf_needs_version(struct arena *a, const struct elf *elf, const char *prefix)
{
    struct highest h = {.prefix = prefix};
    each_needed(elf, keep_highest, &h);
    return h.best.n != 0 ? str_dup(a, h.best) : NULL;
}

const char *elf_defines_version(struct arena *a, const struct elf *elf, const char *prefix)
{
    struct highest h = {.prefix = prefix};
    each_defined(elf, keep_highest, &h);
    return h.best.n != 0 ? str_dup(a, h.best) : NULL;
}

struct needed_visit {
    bool (*visit)(void *ctx, struct str library, struct str version, bool weak);
    void *ctx;
};

static bool pass_needed(void *ctx, const struct version_entry *e)
{
    const struct needed_visit *v = ctx;
    return v->visit(v->ctx, e->library, e->version, (e->flags & VERSION_WEAK) != 0);
}

void elf_each_needed_version(const struct elf *elf,
                             bool (*visit)(void *ctx, struct str library, struct str version,
                                           bool weak),
                             void *ctx)
{
    struct needed_visit v = {.visit = visit, .ctx = ctx};
    each_needed(elf, pass_needed, &v);
}

struct wanted {
    struct str version;
    uint16_t index;
    bool found;
};

static bool match_name(void *ctx, const struct version_entry *e)
{
    struct wanted *w = ctx;
    w->found = str_eq(e->version, w->version);
    return !w->found;
}

static bool match_index(void *ctx, const struct version_entry *e)
{
    struct wanted *w = ctx;
    if (e->index == w->index) {
        w->found = true;
        w->version = e->version;
    }
    return !w->found;
}

bool elf_has_version(const struct elf *elf, struct str version)
{
    struct wanted w = {.version = version};
    each_defined(elf, match_name, &w);
    return w.found;
}

static struct str version_of(const struct elf *elf, size_t symbol, bool defined)
{
    struct str none = {.p = "", .n = 0};
    struct str v;
    if (!bytes_view(elf->versions_of_symbols, (uint64_t)symbol * 2, 2, &v)) {
        return none;
    }
    struct wanted w = {.index = bytes_le16(v.p) & (VERSION_HIDDEN - 1)};
    if (w.index <= 1) { /* local, or global without a version */
        return none;
    }
    if (defined) {
        each_defined(elf, match_index, &w);
    } else {
        each_needed(elf, match_index, &w);
    }
    return w.found ? w.version : none;
}

bool elf_plain_symbol_at(const struct elf *elf, size_t index, struct elf_symbol *ret)
{
    if (index >= elf->symbol_count) {
        return false;
    }
    const char *p = elf->symbols.p + index * SYMBOL_SIZE;
    unsigned bind = (unsigned char)p[4] >> 4;
    struct str name;
    if (bind == BIND_LOCAL || !bytes_text(elf->strings, bytes_le32(p), &name) || name.n == 0) {
        return false;
    }
    *ret = (struct elf_symbol){.name = name,
                               .defined = bytes_le16(p + 6) != 0,
                               .weak = bind == BIND_WEAK,
                               .version = {.p = "", .n = 0}};
    return true;
}

bool elf_symbol_at(const struct elf *elf, size_t index, struct elf_symbol *ret_symbol)
{
    if (!elf_plain_symbol_at(elf, index, ret_symbol)) {
        return false;
    }
    ret_symbol->version = version_of(elf, index, ret_symbol->defined);
    return true;
}

void elf_each_symbol(const struct elf *elf,
                     bool (*visit)(void *ctx, struct str name, bool defined, bool weak), void *ctx)
{
    struct elf_symbol s;
    for (size_t i = 0; i < elf->symbol_count; i++) {
        if (elf_plain_symbol_at(elf, i, &s) && !visit(ctx, s.name, s.defined, s.weak)) {
            return;
        }
    }
}

/* The same from the table that a file keeps until it is stripped: it has the static functions, too. */
static bool static_symbol_covering(const struct elf *elf, uint64_t address, struct str *ret_name)
{
    struct str table, strings;
    if (elf_section(elf, ".symtab", &table) != ST_OK ||
        elf_section(elf, ".strtab", &strings) != ST_OK) {
        return false;
    }
    for (size_t i = 0; i + SYMBOL_SIZE <= table.n; i += SYMBOL_SIZE) {
        const char *p = table.p + i;
        uint64_t value = bytes_le64(p + 8);
        struct str name;
        if (((unsigned char)p[4] & 15) == TYPE_FUNCTION && bytes_le16(p + 6) != 0 &&
            value <= address && address - value < bytes_le64(p + 16) &&
            bytes_text(strings, bytes_le32(p), &name) && name.n != 0) {
            *ret_name = name;
            return true;
        }
    }
    return false;
}

bool elf_symbol_covering(const struct elf *elf, uint64_t address, struct str *ret_name)
{
    bool found = false;
    uint64_t best = 0;
    for (size_t i = 0; i < elf->symbol_count; i++) {
        const char *p = elf->symbols.p + i * SYMBOL_SIZE;
        uint64_t value = bytes_le64(p + 8);
        struct elf_symbol s;
        if (value > address || address - value >= bytes_le64(p + 16) || (found && value < best) ||
            !elf_plain_symbol_at(elf, i, &s) || !s.defined) {
            continue;
        }
        found = true;
        best = value;
        *ret_name = s.name;
    }
    return found || static_symbol_covering(elf, address, ret_name);
}

static uint32_t gnu_hash_of(struct str name)
{
    uint32_t h = 5381;
    for (size_t i = 0; i < name.n; i++) {
        h = h * 33 + (unsigned char)name.p[i];
    }
    return h;
}

static bool defined_at(const struct elf *elf, size_t index, struct str name)
{
    struct elf_symbol s;
    return elf_plain_symbol_at(elf, index, &s) && s.defined && str_eq(s.name, name);
}

static bool defines_by_gnu_hash(const struct elf *elf, struct str head, struct str name)
{
    struct str t = elf->gnu_hash;
    uint64_t buckets = bytes_le32(head.p);
    uint64_t first = bytes_le32(head.p + 4);
    uint64_t bloom_words = bytes_le32(head.p + 8);
    unsigned shift = bytes_le32(head.p + 12) & 31;
    uint32_t h = gnu_hash_of(name);
    struct str v;
    if (bloom_words == 0 || buckets == 0 || !bytes_view(t, 16 + h / 64 % bloom_words * 8, 8, &v)) {
        return false;
    }
    uint64_t bloom = bytes_le64(v.p);
    if ((bloom >> (h % 64) & bloom >> ((h >> shift) % 64) & 1) == 0 ||
        !bytes_view(t, 16 + bloom_words * 8 + h % buckets * 4, 4, &v)) {
        return false;
    }
    uint64_t chains = 16 + bloom_words * 8 + buckets * 4;
    for (uint64_t i = bytes_le32(v.p); i >= first && i < elf->symbol_count; i++) {
        if (!bytes_view(t, chains + (i - first) * 4, 4, &v)) {
            return false;
        }
        uint32_t link = bytes_le32(v.p);
        if ((link | 1) == (h | 1) && defined_at(elf, (size_t)i, name)) {
            return true;
        }
        if ((link & 1) != 0) {
            return false;
        }
    }
    return false;
}

bool elf_defines_symbol(const struct elf *elf, struct str name)
{
    struct str head;
    if (bytes_view(elf->gnu_hash, 0, 16, &head)) {
        return defines_by_gnu_hash(elf, head, name);
    }
    for (size_t i = 0; i < elf->symbol_count; i++) {
        if (defined_at(elf, i, name)) {
            return true;
        }
    }
    return false;
}
