// SPDX-License-Identifier: Apache-2.0
/*
 * Headers, sections and the dynamic section. Symbols and versions are in elf_symbols.c, the search
 * for literals in elf_literals.c. Start reading at elf_open().
 */
#include "facts/elf.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/vec.h"

enum {
    HEADER_SIZE = 64,
    SEGMENT_SIZE = 56,
    SECTION_SIZE = 64,
    DYNAMIC_SIZE = 16,
    SYMBOL_SIZE = 24,
    PT_LOAD = 1,
    PT_DYNAMIC = 2,
    PT_INTERP = 3,
    PT_NOTE = 4,
    PN_XNUM = 0xffff,
    SHN_XINDEX = 0xffff,
    SHT_NULL = 0,
    SHT_NOBITS = 8,
    SHT_DYNSYM = 11,
    NOTE_BUILD_ID = 3,
    FLAG_1_NODEFLIB = 0x800,
    MAX_SECTIONS = 1 << 20,
    MAX_NEEDED = 4096,
    MAX_DYNAMIC = 65536,
    MAX_BUILD_ID = 64,
};

/* Tags of the dynamic section that are read. */
enum dynamic_tag {
    TAG_NULL = 0,
    TAG_NEEDED = 1,
    TAG_HASH = 4,
    TAG_STRTAB = 5,
    TAG_SYMTAB = 6,
    TAG_STRSZ = 10,
    TAG_SONAME = 14,
    TAG_RPATH = 15,
    TAG_RUNPATH = 29,
    TAG_GNU_HASH = 0x6ffffef5,
    TAG_VERSYM = 0x6ffffff0,
    TAG_FLAGS_1 = 0x6ffffffb,
    TAG_VERDEF = 0x6ffffffc,
    TAG_VERDEFNUM = 0x6ffffffd,
    TAG_VERNEED = 0x6ffffffe,
    TAG_VERNEEDNUM = 0x6fffffff,
};

struct segment {
    uint32_t type;
    uint64_t offset;
    uint64_t address;
    uint64_t file_size;
    uint64_t alignment;
};

bool elf_is(struct str file)
{
    return file.n >= 4 && memcmp(file.p, "\177ELF", 4) == 0;
}

static bool segment_at(const struct elf *elf, uint64_t index, struct segment *ret)
{
    struct str s;
    if (index >= elf->segment_count ||
        !bytes_view(elf->file, elf->segment_table + index * SEGMENT_SIZE, SEGMENT_SIZE, &s)) {
        return false;
    }
    *ret = (struct segment){.type = bytes_le32(s.p),
                            .offset = bytes_le64(s.p + 8),
                            .address = bytes_le64(s.p + 16),
                            .file_size = bytes_le64(s.p + 32),
                            .alignment = bytes_le64(s.p + 48)};
    return true;
}

/* File bytes from a virtual address to the end of its segment; empty when no segment has it. */
static struct str at_address(const struct elf *elf, uint64_t address)
{
    struct segment g;
    for (uint64_t i = 0; segment_at(elf, i, &g); i++) {
        if (g.type == PT_LOAD && address >= g.address && address - g.address < g.file_size) {
            struct str whole = bytes_clip(elf->file, g.offset, g.file_size);
            return bytes_clip(whole, address - g.address, UINT64_MAX);
        }
    }
    return (struct str){.p = "", .n = 0};
}

static bool section_header(const struct elf *elf, uint64_t index, struct str *ret_header)
{
    return index < elf->section_count &&
           bytes_view(elf->file, elf->section_table + index * SECTION_SIZE, SECTION_SIZE,
                      ret_header);
}

/* Number of sections and the names' section, both with their escapes for more than 65,279. */
static void read_section_table(struct elf *elf, struct str header)
{
    elf->section_names = (struct str){.p = "", .n = 0};
    elf->section_table = bytes_le64(header.p + 40);
    uint64_t count = bytes_le16(header.p + 60);
    uint64_t names = bytes_le16(header.p + 62);
    struct str first;
    if (elf->section_table == 0) {
        return;
    }
    if (bytes_le16(header.p + 58) != SECTION_SIZE ||
        !bytes_view(elf->file, elf->section_table, SECTION_SIZE, &first)) {
        elf->truncated = true;
        return;
    }
    if (count == 0) {
        count = bytes_le64(first.p + 32);
    }
    if (names == SHN_XINDEX) {
        names = bytes_le32(first.p + 40);
    }
    if (count > MAX_SECTIONS || !bytes_has(elf->file, elf->section_table, count * SECTION_SIZE)) {
        elf->truncated = true;
        return;
    }
    elf->section_count = count;
    struct str h;
    if (section_header(elf, names, &h)) {
        elf->section_names = bytes_clip(elf->file, bytes_le64(h.p + 24), bytes_le64(h.p + 32));
    }
}

bool elf_section_at(const struct elf *elf, uint64_t index, struct elf_section *ret_section)
{
    struct str h;
    struct elf_section s = {.bytes = {.p = "", .n = 0}};
    if (!section_header(elf, index, &h) ||
        !bytes_text(elf->section_names, bytes_le32(h.p), &s.name)) {
        return false;
    }
    s.type = bytes_le32(h.p + 4);
    s.flags = bytes_le64(h.p + 8);
    if (s.type != SHT_NOBITS && s.type != SHT_NULL &&
        !bytes_view(elf->file, bytes_le64(h.p + 24), bytes_le64(h.p + 32), &s.bytes)) {
        s.bytes = (struct str){.p = "", .n = 0};
    }
    *ret_section = s;
    return true;
}

enum status elf_section(const struct elf *elf, const char *name, struct str *ret_bytes)
{
    for (uint64_t i = 0; i < elf->section_count; i++) {
        struct str h;
        struct str text;
        if (!section_header(elf, i, &h) ||
            !bytes_text(elf->section_names, bytes_le32(h.p), &text) || !str_is(text, name)) {
            continue;
        }
        uint64_t size = bytes_le64(h.p + 32);
        if (bytes_le32(h.p + 4) == SHT_NOBITS || size == 0) {
            return ST_ABSENT;
        }
        return bytes_view(elf->file, bytes_le64(h.p + 24), size, ret_bytes) ? ST_OK : ST_FORMAT;
    }
    return ST_ABSENT;
}

/* What the dynamic section says, before addresses are followed. 0 stands for "not there". */
struct dynamic {
    uint64_t strings;
    uint64_t strings_size;
    uint64_t symbols;
    uint64_t hash;
    uint64_t gnu_hash;
    uint64_t versym;
    uint64_t verneed;
    uint64_t verneed_count;
    uint64_t verdef;
    uint64_t verdef_count;
    uint64_t flags_1;
    /* Offsets into the strings, plus one. */
    uint64_t soname;
    uint64_t rpath;
    uint64_t runpath;
    VEC_OF(uint64_t) needed;
};

static void take_entry(struct arena *a, struct dynamic *d, uint64_t tag, uint64_t value)
{
    switch (tag) {
    case TAG_NEEDED:
        if (d->needed.count < MAX_NEEDED) {
            *VEC_PUSH(a, &d->needed) = value;
        }
        break;
    case TAG_HASH: d->hash = value; break;
    case TAG_STRTAB: d->strings = value; break;
    case TAG_SYMTAB: d->symbols = value; break;
    case TAG_STRSZ: d->strings_size = value; break;
    case TAG_SONAME: d->soname = value + 1; break;
    case TAG_RPATH: d->rpath = value + 1; break;
    case TAG_RUNPATH: d->runpath = value + 1; break;
    case TAG_GNU_HASH: d->gnu_hash = value; break;
    case TAG_VERSYM: d->versym = value; break;
    case TAG_FLAGS_1: d->flags_1 = value; break;
    case TAG_VERDEF: d->verdef = value; break;
    case TAG_VERDEFNUM: d->verdef_count = value; break;
    case TAG_VERNEED: d->verneed = value; break;
    case TAG_VERNEEDNUM: d->verneed_count = value; break;
    default: break;
    }
}

static const char *string_at(struct arena *a, const struct elf *elf, uint64_t offset_plus_one)
{
    struct str s;
    if (offset_plus_one == 0 || !bytes_text(elf->strings, offset_plus_one - 1, &s)) {
        return NULL;
    }
    return str_dup(a, s);
}

/* Highest symbol index the GNU hash table reaches, plus one. Its last chain tells; the number of
 * symbols is written nowhere. */
static uint64_t gnu_hash_symbols(struct str table)
{
    struct str head;
    if (!bytes_view(table, 0, 16, &head)) {
        return 0;
    }
    uint64_t buckets = bytes_le32(head.p);
    uint64_t first = bytes_le32(head.p + 4);
    uint64_t at_buckets = 16 + (uint64_t)bytes_le32(head.p + 8) * 8;
    struct str list;
    if (!bytes_view(table, at_buckets, buckets * 4, &list)) {
        return 0;
    }
    uint64_t highest = 0;
    for (uint64_t i = 0; i < buckets; i++) {
        uint64_t v = bytes_le32(list.p + i * 4);
        highest = v > highest ? v : highest;
    }
    if (highest < first) {
        return first;
    }
    struct str link;
    for (uint64_t i = highest;; i++) {
        if (!bytes_view(table, at_buckets + buckets * 4 + (i - first) * 4, 4, &link) ||
            (bytes_le32(link.p) & 1) != 0) {
            return i + 1;
        }
    }
}

/* How many dynamic symbols there are. The section table knows; files without one have hashes. */
static uint64_t count_symbols(const struct elf *elf, const struct dynamic *d)
{
    for (uint64_t i = 0; i < elf->section_count; i++) {
        struct str h;
        if (section_header(elf, i, &h) && bytes_le32(h.p + 4) == SHT_DYNSYM &&
            bytes_le64(h.p + 16) == d->symbols) {
            return bytes_le64(h.p + 32) / SYMBOL_SIZE;
        }
    }
    struct str head;
    if (d->hash != 0 && bytes_view(at_address(elf, d->hash), 0, 8, &head)) {
        return bytes_le32(head.p + 4);
    }
    return gnu_hash_symbols(elf->gnu_hash);
}

static void follow_addresses(struct arena *a, struct elf *elf, const struct dynamic *d)
{
    struct str none = {.p = "", .n = 0};
    elf->strings = bytes_clip(at_address(elf, d->strings), 0, d->strings_size);
    elf->gnu_hash = d->gnu_hash != 0 ? at_address(elf, d->gnu_hash) : none;
    struct str symbols = d->symbols != 0 ? at_address(elf, d->symbols) : none;
    uint64_t count = count_symbols(elf, d);
    elf->symbol_count = count < symbols.n / SYMBOL_SIZE ? (size_t)count : symbols.n / SYMBOL_SIZE;
    elf->symbols = str_slice(symbols, 0, elf->symbol_count * SYMBOL_SIZE);
    elf->versions_of_symbols = d->versym != 0 ? at_address(elf, d->versym) : none;
    elf->versions_needed = d->verneed != 0 ? at_address(elf, d->verneed) : none;
    elf->versions_needed_count = d->verneed_count;
    elf->versions_defined = d->verdef != 0 ? at_address(elf, d->verdef) : none;
    elf->versions_defined_count = elf->versions_defined.n != 0 ? d->verdef_count : 0;
    elf->no_default_dirs = (d->flags_1 & FLAG_1_NODEFLIB) != 0;
    elf->soname = string_at(a, elf, d->soname);
    elf->rpath = string_at(a, elf, d->rpath);
    elf->runpath = string_at(a, elf, d->runpath);
    VEC_OF(const char *) needed = {0};
    for (size_t i = 0; i < d->needed.count; i++) {
        const char *name = string_at(a, elf, d->needed.items[i] + 1);
        if (name != NULL && name[0] != '\0') {
            *VEC_PUSH(a, &needed) = name;
        }
    }
    elf->needed = needed.items;
    elf->needed_count = needed.count;
}

static void read_dynamic(struct arena *a, struct elf *elf, struct str table)
{
    struct dynamic d = {0};
    for (size_t i = 0; i < MAX_DYNAMIC && (i + 1) * DYNAMIC_SIZE <= table.n; i++) {
        uint64_t tag = bytes_le64(table.p + i * DYNAMIC_SIZE);
        if (tag == TAG_NULL) {
            break;
        }
        take_entry(a, &d, tag, bytes_le64(table.p + i * DYNAMIC_SIZE + 8));
    }
    follow_addresses(a, elf, &d);
}

/* The build id among the notes in `notes`, or NULL. */
static const char *build_id_in(struct arena *a, struct str notes, uint64_t alignment)
{
    uint64_t round = alignment == 8 ? 7 : 3;
    struct str head;
    for (uint64_t at = 0; bytes_view(notes, at, 12, &head);) {
        uint64_t name_size = bytes_le32(head.p);
        uint64_t size = bytes_le32(head.p + 4);
        uint64_t desc = (at + 12 + name_size + round) & ~round;
        struct str name;
        struct str id;
        if (!bytes_view(notes, at + 12, name_size, &name) || !bytes_view(notes, desc, size, &id)) {
            return NULL;
        }
        if (bytes_le32(head.p + 8) == NOTE_BUILD_ID && name.n == 4 &&
            memcmp(name.p, "GNU", 4) == 0 && size <= MAX_BUILD_ID) {
            struct strbuf hex;
            strbuf_init(&hex, a, MAX_BUILD_ID * 2 + 1);
            for (size_t i = 0; i < id.n; i++) {
                strbuf_fmt(&hex, "%02x", (unsigned char)id.p[i]);
            }
            return hex.p;
        }
        at = (desc + size + round) & ~round;
    }
    return NULL;
}

static void read_segments(struct arena *a, struct elf *elf)
{
    struct segment g;
    for (uint64_t i = 0; segment_at(elf, i, &g); i++) {
        if ((g.type == PT_LOAD || g.type == PT_DYNAMIC) &&
            !bytes_has(elf->file, g.offset, g.file_size)) {
            elf->truncated = true;
        }
        struct str bytes = bytes_clip(elf->file, g.offset, g.file_size);
        struct str text;
        if (g.type == PT_INTERP && bytes_text(bytes, 0, &text)) {
            elf->interpreter = str_dup(a, text);
        } else if (g.type == PT_NOTE && elf->build_id == NULL) {
            elf->build_id = build_id_in(a, bytes, g.alignment);
        } else if (g.type == PT_DYNAMIC && elf->symbols.p == NULL) {
            /* By address, as ld.so does: separate debug files keep offsets that mean nothing. */
            struct str table = bytes_clip(at_address(elf, g.address), 0, g.file_size);
            read_dynamic(a, elf, table.n != 0 ? table : bytes);
        }
    }
}

static enum status check_ident(struct str file, const char *name, struct err *err)
{
    if (file.n == 0) {
        return err_set(err, ST_FORMAT, "'%s' is empty; an ELF library was expected", name);
    }
    if (!elf_is(file)) {
        return err_set(err, ST_FORMAT, "'%s' is not an ELF file", name);
    }
    if (file.n < HEADER_SIZE) {
        return err_set(err, ST_FORMAT, "'%s' ends within its ELF header (%zu bytes)", name, file.n);
    }
    if (file.p[4] != 2 || file.p[5] != 1) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' is a %s ELF file; only 64-bit little-endian is read", name,
                       file.p[4] != 2 ? "32-bit" : "big-endian");
    }
    return ST_OK;
}

enum status elf_open(struct arena *a, struct str file, const char *name, struct elf *ret_elf,
                     struct err *err)
{
    TRY(check_ident(file, name, err));
    const char *p = file.p;
    struct elf elf = {
        .file = file,
        .name = arena_strdup(a, name),
        .os_abi = (uint8_t)p[7],
        .abi_version = (uint8_t)p[8],
        .type = bytes_le16(p + 16),
        .machine = bytes_le16(p + 18),
        .flags = bytes_le32(p + 48),
        .segment_table = bytes_le64(p + 32),
        .segment_count = bytes_le16(p + 56),
    };
    struct str header = str_slice(file, 0, HEADER_SIZE);
    read_section_table(&elf, header);
    struct str first;
    if (elf.segment_count == PN_XNUM && section_header(&elf, 0, &first)) {
        elf.segment_count = bytes_le32(first.p + 44);
    }
    if (elf.segment_count != 0 &&
        (bytes_le16(p + 54) != SEGMENT_SIZE ||
         !bytes_has(file, elf.segment_table, elf.segment_count * SEGMENT_SIZE))) {
        return err_set(err, ST_FORMAT,
                       "'%s' is damaged: its program headers (%" PRIu64 " at offset %" PRIu64
                       ") lie beyond its end at %zu",
                       name, elf.segment_count, elf.segment_table, file.n);
    }
    read_segments(a, &elf);
    struct str notes;
    if (elf.build_id == NULL && elf_section(&elf, ".note.gnu.build-id", &notes) == ST_OK) {
        elf.build_id = build_id_in(a, notes, 4);
    }
    *ret_elf = elf;
    return ST_OK;
}
