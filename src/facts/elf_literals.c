// SPDX-License-Identifier: Apache-2.0
/*
 * Names of variables inside a library: which of a few hundred words occur NUL-terminated in its
 * data. One pass from NUL to NUL, so that the cost does not grow with the number of words.
 */
#include "base/bytes.h"

#include "facts/elf.h"

enum {
    SHT_PROGBITS = 1,
    SHF_ALLOC = 2,
    SHF_EXECINSTR = 4,
    PT_LOAD = 1,
    PF_X = 1,
    SEGMENT_SIZE = 56,
    MIN_LENGTH = 3,
    MAX_LENGTH = 200,
    SLOTS = 4096, /* a power of two, at least twice BATCH */
    BATCH = 1024,
    EMPTY = 0xffff,
};

struct word_table {
    const char *const *words;
    bool *found;
    uint16_t slot[SLOTS];
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static uint32_t hash_of(const char *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)p[i]) * 16777619u;
    }
    return h ^ h >> 15;
}

static void table_fill(struct word_table *t, const char *const *words, size_t count, bool *found)
{
    t->words = words;
    t->found = found;
    for (size_t i = 0; i < SLOTS; i++) {
        t->slot[i] = EMPTY;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(words[i]);
        if (n < MIN_LENGTH || n > MAX_LENGTH) {
            continue;
        }
        uint32_t at = hash_of(words[i], n) & (SLOTS - 1);
        while (t->slot[at] != EMPTY) {
            at = (at + 1) & (SLOTS - 1);
        }
        t->slot[at] = (uint16_t)i;
    }
}

static void table_match(struct word_table *t, const char *p, size_t n)
{
    for (uint32_t at = hash_of(p, n) & (SLOTS - 1); t->slot[at] != EMPTY;
         at = (at + 1) & (SLOTS - 1)) {
        const char *word = t->words[t->slot[at]];
        if (strncmp(word, p, n) == 0 && word[n] == '\0') {
            t->found[t->slot[at]] = true; /* no break: the caller may list a word twice */
        }
    }
}

/* The word in front of the NUL at `end`, if it is one. */
static void word_at(struct word_table *t, struct str data, size_t end)
{
    size_t start = end;
    while (start > 0 && end - start <= MAX_LENGTH && is_name_char(data.p[start - 1])) {
        start--;
    }
    if (end - start >= MIN_LENGTH && end - start <= MAX_LENGTH) {
        table_match(t, data.p + start, end - start);
    }
}

/* Tables of numbers are full of NULs, so eight bytes are looked at together: a zero byte among them
 * sets its top bit in `zeros` (and perhaps the next one's, which the loop checks). */
static void scan(struct word_table *t, struct str data)
{
    static const uint64_t ones = 0x0101010101010101u;
    size_t at = 0;
    for (; data.n - at >= 8; at += 8) {
        uint64_t w = bytes_le64(data.p + at);
        uint64_t zeros = (w - ones) & ~w & (ones << 7);
        if (w == 0) {
            zeros = 0x80; /* only the first of a run can end a word */
        }
        for (; zeros != 0; zeros &= zeros - 1) {
            size_t end = at + (unsigned)__builtin_ctzll(zeros) / 8;
            if (end != 0 && data.p[end] == '\0' && is_name_char(data.p[end - 1])) {
                word_at(t, data, end);
            }
        }
    }
    for (; at < data.n; at++) {
        if (data.p[at] == '\0') {
            word_at(t, data, at);
        }
    }
}

static bool is_plain_data(const struct elf_section *s)
{
    static const char *const others[] = {".hip_fatbin", ".nv_fatbin",    "__nv_relfatbin",
                                         ".eh_frame",   ".eh_frame_hdr", ".gcc_except_table"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (str_is(s->name, others[i])) {
            return false;
        }
    }
    return s->type == SHT_PROGBITS && (s->flags & SHF_ALLOC) != 0 &&
           (s->flags & SHF_EXECINSTR) == 0;
}

static void scan_file(struct word_table *t, const struct elf *elf)
{
    struct elf_section s;
    for (uint64_t i = 0; i < elf->section_count; i++) {
        if (elf_section_at(elf, i, &s) && is_plain_data(&s)) {
            scan(t, s.bytes);
        }
    }
    if (elf->section_count != 0) {
        return;
    }
    struct str g;
    for (uint64_t i = 0;
         i < elf->segment_count &&
         bytes_view(elf->file, elf->segment_table + i * SEGMENT_SIZE, SEGMENT_SIZE, &g);
         i++) {
        if (bytes_le32(g.p) == PT_LOAD && (bytes_le32(g.p + 4) & PF_X) == 0) {
            scan(t, bytes_clip(elf->file, bytes_le64(g.p + 8), bytes_le64(g.p + 32)));
        }
    }
}

void elf_find_literals(const struct elf *elf, const char *const *literals, size_t count,
                       bool *ret_found)
{
    struct word_table t;
    for (size_t from = 0; from < count; from += BATCH) {
        size_t n = count - from < BATCH ? count - from : BATCH;
        table_fill(&t, literals + from, n, ret_found + from);
        scan_file(&t, elf);
    }
}

bool elf_has_literal(const struct elf *elf, const char *literal)
{
    bool found = false;
    elf_find_literals(elf, &literal, 1, &found);
    return found;
}
