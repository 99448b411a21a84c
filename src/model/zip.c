// SPDX-License-Identifier: Apache-2.0
/*
 * The end record, the central directory, and the local headers of a ZIP archive. Reading content is
 * in zip_read.c. Offsets are 64 bits and checked against the file before they are followed.
 */
#include "model/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"

enum {
    SIG_LOCAL = 0x04034b50,
    SIG_CENTRAL = 0x02014b50,
    SIG_END = 0x06054b50,
    SIG_END64 = 0x06064b50,
    SIG_LOCATOR = 0x07064b50,
    SIG_DESCRIPTOR = 0x08074b50,
    SIZE_LOCAL = 30,
    SIZE_CENTRAL = 46,
    SIZE_END = 22,
    SIZE_END64 = 56,
    SIZE_LOCATOR = 20,
    MAX_COMMENT = 65535,
    MAX_MEMBERS = 2000000,
    FLAG_ENCRYPTED = 1,
    FLAG_DESCRIPTOR = 8,
    EXTRA_ZIP64 = 1
};

/* What the end records say. */
struct end {
    uint64_t at;           /* of the first end record (zip64 when there is one) */
    uint64_t count;        /* members */
    uint64_t size;         /* of the directory */
    uint64_t directory_at; /* as stored, before any prefix is added */
};

bool zip_looks_like(struct str bytes)
{
    return bytes.n >= SIZE_LOCAL && bytes_le32(bytes.p) == SIG_LOCAL;
}

/* Offset of the last end record whose comment fits, or SIZE_MAX. */
static size_t find_end(struct str b, struct issues *issues)
{
    size_t found = SIZE_MAX;
    size_t floor = b.n > SIZE_END + MAX_COMMENT ? b.n - SIZE_END - MAX_COMMENT : 0;
    for (size_t at = b.n >= SIZE_END ? b.n - SIZE_END : 0; b.n >= SIZE_END; at--) {
        if (bytes_le32(b.p + at) == SIG_END) {
            size_t end = at + SIZE_END + bytes_le16(b.p + at + 20);
            if (found == SIZE_MAX && end <= b.n) {
                found = at;
                if (end < b.n) {
                    issue_add(issues, SEVERITY_ERROR, "zip-trailing-bytes",
                              "Bytes behind the end of the archive",
                              "%zu bytes follow the end record. Nothing reads them; an archive "
                              "that was written over a longer file or joined with another looks "
                              "like this.",
                              b.n - end);
                }
            } else if (end == b.n) {
                issue_add(issues, SEVERITY_ERROR, "zip-two-ends", "Two ends of the archive",
                          "End records at %zu and %zu both fit: readers differ in which one they "
                          "believe, and so in what the file holds.",
                          at, found);
            }
        }
        if (at == floor) {
            break;
        }
    }
    return found;
}

static enum status read_end64(struct str b, size_t at, struct end *end, struct issues *issues,
                              struct err *err)
{
    uint64_t where = bytes_le64(b.p + at - SIZE_LOCATOR + 8);
    /* Bytes in front of the archive shift it; the record then sits right before the locator. */
    uint64_t usual = at - SIZE_LOCATOR >= SIZE_END64 ? at - SIZE_LOCATOR - SIZE_END64 : UINT64_MAX;
    if (!bytes_has(b, where, SIZE_END64) || bytes_le32(b.p + where) != SIG_END64) {
        where = usual;
    }
    if (!bytes_has(b, where, SIZE_END64) || bytes_le32(b.p + where) != SIG_END64) {
        return err_set(err, ST_FORMAT, "the zip64 end record is not where its locator says");
    }
    uint64_t count = bytes_le64(b.p + where + 32);
    uint64_t size = bytes_le64(b.p + where + 40);
    uint64_t directory_at = bytes_le64(b.p + where + 48);
    bool same = (end->count == UINT16_MAX || end->count == count) &&
                (end->size == UINT32_MAX || end->size == size) &&
                (end->directory_at == UINT32_MAX || end->directory_at == directory_at);
    if (!same) {
        issue_add(issues, SEVERITY_ERROR, "zip-ends-disagree", "The two end records disagree",
                  "The end record says %" PRIu64 " members, %" PRIu64 " bytes at %" PRIu64
                  "; the zip64 one %" PRIu64 ", %" PRIu64 " and %" PRIu64
                  ". Readers that know zip64 and readers that do not see two different archives.",
                  end->count, end->size, end->directory_at, count, size, directory_at);
    }
    if (bytes_le32(b.p + where + 16) != 0 || bytes_le32(b.p + where + 20) != 0 ||
        bytes_le64(b.p + where + 24) != count) {
        return err_set(err, ST_UNSUPPORTED, "the archive is spread over several files");
    }
    *end = (struct end){.at = where, .count = count, .size = size, .directory_at = directory_at};
    return ST_OK;
}

static enum status read_end(struct str b, struct issues *issues, struct end *ret_end,
                            struct err *err)
{
    size_t at = find_end(b, issues);
    if (at == SIZE_MAX) {
        return err_set(err, ST_FORMAT,
                       "no end of the archive within the last %d bytes: the file is cut off, or "
                       "still being written; copy or download it again",
                       SIZE_END + MAX_COMMENT);
    }
    struct end end = {.at = at,
                      .count = bytes_le16(b.p + at + 10),
                      .size = bytes_le32(b.p + at + 12),
                      .directory_at = bytes_le32(b.p + at + 16)};
    bool has64 = at >= SIZE_LOCATOR && bytes_le32(b.p + at - SIZE_LOCATOR) == SIG_LOCATOR;
    if (has64) {
        TRY(read_end64(b, at, &end, issues, err));
    } else if (bytes_le16(b.p + at + 4) != 0 || bytes_le16(b.p + at + 6) != 0 ||
               bytes_le16(b.p + at + 8) != end.count) {
        return err_set(err, ST_UNSUPPORTED, "the archive is spread over several files");
    } else if (end.size == UINT32_MAX || end.directory_at == UINT32_MAX) {
        return err_set(err, ST_FORMAT, "the end record points to a zip64 one that is not there");
    }
    if (end.size > end.at || end.directory_at > end.at - end.size) {
        return err_set(err, ST_FORMAT,
                       "the directory (%" PRIu64 " bytes at %" PRIu64
                       ") reaches beyond the end record at %" PRIu64,
                       end.size, end.directory_at, end.at);
    }
    *ret_end = end;
    return ST_OK;
}

/* Takes the 64-bit values that replace fields of all ones, in their fixed order. */
static bool zip64_fields(struct str extra, uint64_t *const fields[], const bool wanted[], size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        any = any || wanted[i];
    }
    for (uint64_t at = 0; any && bytes_has(extra, at, 4);) {
        uint16_t id = bytes_le16(extra.p + at);
        uint16_t size = bytes_le16(extra.p + at + 2);
        struct str body;
        if (!bytes_view(extra, at + 4, size, &body)) {
            return false;
        }
        at += 4 + (uint64_t)size;
        if (id != EXTRA_ZIP64) {
            continue;
        }
        uint64_t used = 0;
        for (size_t i = 0; i < n; i++) {
            if (!wanted[i]) {
                continue;
            }
            if (!bytes_has(body, used, 8)) {
                return false;
            }
            *fields[i] = bytes_le64(body.p + used);
            used += 8;
        }
        return true;
    }
    return !any;
}

/* One record of the central directory; false when it does not fit. */
static bool read_central(struct str b, uint64_t at, uint64_t limit, struct zip_member *m,
                         uint64_t *ret_next)
{
    if (limit - at < SIZE_CENTRAL || bytes_le32(b.p + at) != SIG_CENTRAL) {
        return false;
    }
    const char *p = b.p + at;
    uint64_t name_n = bytes_le16(p + 28);
    uint64_t extra_n = bytes_le16(p + 30);
    uint64_t total = SIZE_CENTRAL + name_n + extra_n + bytes_le16(p + 32);
    if (total > limit - at) {
        return false;
    }
    *m = (struct zip_member){.name = {.p = p + SIZE_CENTRAL, .n = (size_t)name_n},
                             .flags = bytes_le16(p + 8),
                             .method = bytes_le16(p + 10),
                             .crc = bytes_le32(p + 16),
                             .packed = bytes_le32(p + 20),
                             .size = bytes_le32(p + 24),
                             .header_at = bytes_le32(p + 42)};
    struct str extra = {.p = p + SIZE_CENTRAL + name_n, .n = (size_t)extra_n};
    uint64_t *const fields[] = {&m->size, &m->packed, &m->header_at};
    const bool wanted[] = {m->size == UINT32_MAX, m->packed == UINT32_MAX,
                           m->header_at == UINT32_MAX};
    *ret_next = at + total;
    return zip64_fields(extra, fields, wanted, 3);
}

/* Sizes and CRC of the local header, when it has them, against the directory's. */
static bool local_agrees(const char *p, const struct zip_member *m, struct str extra)
{
    uint64_t packed = bytes_le32(p + 18);
    uint64_t size = bytes_le32(p + 22);
    uint32_t crc = bytes_le32(p + 14);
    uint64_t *const fields[] = {&size, &packed};
    const bool wanted[] = {size == UINT32_MAX, packed == UINT32_MAX};
    if (!zip64_fields(extra, fields, wanted, 2)) {
        return false;
    }
    if ((m->flags & FLAG_DESCRIPTOR) != 0 && packed == 0 && size == 0 && crc == 0) {
        return true; /* they follow the data */
    }
    return packed == m->packed && size == m->size && crc == m->crc;
}

/* Length of the record behind streamed data: 12 to 24 bytes, with or without its signature. */
static uint64_t descriptor_size(struct str b, const struct zip_member *m)
{
    uint64_t at = m->data_at + m->packed;
    if ((m->flags & FLAG_DESCRIPTOR) == 0) {
        return 0;
    }
    uint64_t mark = bytes_has(b, at, 4) && bytes_le32(b.p + at) == SIG_DESCRIPTOR ? 4 : 0;
    struct str d;
    if (bytes_view(b, at + mark, 20, &d) && bytes_le32(d.p) == m->crc &&
        bytes_le64(d.p + 4) == m->packed && bytes_le64(d.p + 12) == m->size) {
        return mark + 20;
    }
    if (bytes_view(b, at + mark, 12, &d) && bytes_le32(d.p) == m->crc &&
        bytes_le32(d.p + 4) == (uint32_t)m->packed && bytes_le32(d.p + 8) == (uint32_t)m->size) {
        return mark + 12;
    }
    return UINT64_MAX;
}

/* What is wrong with a member's local header, or NULL. */
static const char *check_local(struct str b, const struct zip *z, struct zip_member *m)
{
    if (m->header_at > z->directory_at || z->directory_at - m->header_at < SIZE_LOCAL) {
        return "its local header lies outside of the archive";
    }
    const char *p = b.p + m->header_at;
    if (bytes_le32(p) != SIG_LOCAL) {
        return "there is no local header where the directory says";
    }
    uint64_t name_n = bytes_le16(p + 26);
    uint64_t extra_n = bytes_le16(p + 28);
    struct str name;
    struct str extra;
    if (!bytes_view(b, m->header_at + SIZE_LOCAL, name_n, &name) ||
        !bytes_view(b, m->header_at + SIZE_LOCAL + name_n, extra_n, &extra)) {
        return "its local header reaches beyond the archive";
    }
    m->data_at = m->header_at + SIZE_LOCAL + name_n + extra_n;
    if (m->data_at > z->directory_at || m->packed > z->directory_at - m->data_at) {
        return "its data reach into the directory or beyond the file";
    }
    if (!str_eq(name, m->name)) {
        return "its local header has another name";
    }
    if (bytes_le16(p + 8) != m->method) {
        return "its local header has another compression method";
    }
    if (((bytes_le16(p + 6) ^ m->flags) & (FLAG_ENCRYPTED | FLAG_DESCRIPTOR)) != 0) {
        return "its local header has other flags";
    }
    if (!local_agrees(p, m, extra)) {
        return "its local header has another size or CRC";
    }
    uint64_t behind = descriptor_size(b, m);
    if (behind == UINT64_MAX) {
        return "the record behind its data has another size or CRC";
    }
    m->end_at = m->data_at + m->packed + behind;
    return NULL;
}

/* What is wrong with what the directory says alone, or NULL. */
static const char *check_member(const struct zip_member *m)
{
    if ((m->flags & FLAG_ENCRYPTED) != 0) {
        return "it is marked as encrypted; torch reads it all the same, other readers refuse it";
    }
    if (m->method != 0 && m->method != 8) {
        return "its compression method is neither 0 (stored) nor 8 (deflated)";
    }
    if (m->method == 0 && m->packed != m->size) {
        return "it is stored, but its two sizes differ";
    }
    return NULL;
}

static bool name_is_hostile(struct str name)
{
    struct str rest = name;
    struct str part;
    if (name.n == 0 || name.p[0] == '/' || memchr(name.p, '\\', name.n) != NULL ||
        memchr(name.p, '\0', name.n) != NULL) {
        return true;
    }
    while (str_cut(&rest, '/', &part)) {
        if (str_is(part, "..")) {
            return true;
        }
    }
    return name.n > 1 && name.p[1] == ':';
}

static void check_names(struct arena *a, const struct zip *z, struct issues *issues)
{
    struct map *seen = map_new(a);
    for (size_t i = 0; i < z->count; i++) {
        struct str name = z->members[i].name;
        if (name_is_hostile(name)) {
            issue_add(issues, SEVERITY_ERROR, "zip-hostile-name",
                      "A member's name leads out of the archive",
                      "Member %zu is named \"%s\". Nothing that saves weights writes such a name.",
                      i, issue_text(a, name));
        }
        if (map_get(seen, name) != NULL) {
            issue_add(issues, SEVERITY_ERROR, "zip-duplicate-name",
                      "Two members have the same name",
                      "\"%s\" is there more than once: readers differ in which one they take.",
                      issue_text(a, name));
        }
        map_put(seen, name, &z->members[i]);
    }
}

static int by_place(const void *left, const void *right)
{
    const struct zip_member *const *l = left;
    const struct zip_member *const *r = right;
    return ((*l)->header_at > (*r)->header_at) - ((*l)->header_at < (*r)->header_at);
}

/* Members must lie one behind the other; what lies between them is counted. */
static void check_layout(struct arena *a, struct zip *z, struct issues *issues)
{
    struct zip_member **order = arena_array(a, z->count, sizeof *order);
    size_t n = 0;
    for (size_t i = 0; i < z->count; i++) {
        if (z->members[i].readable) {
            order[n++] = &z->members[i];
        }
    }
    qsort(order, n, sizeof *order, by_place);
    uint64_t at = z->prefix;
    uint64_t unclaimed = 0;
    for (size_t i = 0; i < n; i++) {
        if (order[i]->header_at < at) {
            issue_add(issues, SEVERITY_ERROR, "zip-overlap", "Members overlap",
                      "\"%s\" begins at %" PRIu64 " inside the member before it, which ends at "
                      "%" PRIu64 ".",
                      issue_text(a, order[i]->name), order[i]->header_at, at);
            order[i]->readable = false;
        } else {
            unclaimed += order[i]->header_at - at;
        }
        at = order[i]->end_at > at ? order[i]->end_at : at;
    }
    unclaimed += n == z->count && z->directory_at > at ? z->directory_at - at : 0;
    if (unclaimed > 0) {
        issue_add(
            issues, SEVERITY_ERROR, "zip-unclaimed-bytes",
            "Bytes between the members that no member claims",
            "%" PRIu64 " bytes of the archive belong to no member of its directory. A member "
            "hidden from one kind of reader, or a file written over another, looks like this.",
            unclaimed);
    }
}

static enum status read_directory(struct arena *a, struct zip *z, const struct end *end,
                                  struct err *err)
{
    if (end->count > MAX_MEMBERS || end->count > end->size / SIZE_CENTRAL) {
        return err_set(err, ST_FORMAT,
                       "the directory of %" PRIu64 " bytes cannot hold %" PRIu64 " members",
                       end->size, end->count);
    }
    z->members = arena_array(a, (size_t)end->count + 1, sizeof *z->members);
    uint64_t at = z->directory_at;
    uint64_t limit = z->directory_at + end->size;
    for (z->count = 0; z->count < end->count; z->count++) {
        if (!read_central(z->bytes, at, limit, &z->members[z->count], &at)) {
            return err_set(err, ST_FORMAT,
                           "record %zu of the directory, at offset %" PRIu64 ", is damaged",
                           z->count, at);
        }
    }
    if (at != limit) {
        return err_set(err, ST_FORMAT,
                       "the directory ends at %" PRIu64 " after %zu members, its end record says "
                       "%" PRIu64,
                       at, z->count, limit);
    }
    return ST_OK;
}

enum status zip_open(struct arena *a, struct str bytes, struct issues *issues, struct zip *ret_zip,
                     struct err *err)
{
    struct end end = {0};
    TRY(read_end(bytes, issues, &end, err));
    struct zip z = {.bytes = bytes, .directory_at = end.at - end.size};
    z.prefix = z.directory_at - end.directory_at;
    TRY(read_directory(a, &z, &end, err));
    if (z.prefix > 0) {
        issue_add(issues, SEVERITY_ERROR, "zip-leading-bytes", "Bytes in front of the archive",
                  "The archive begins %" PRIu64 " bytes into the file: something was put in front "
                  "of it, and readers that begin at the first byte see another file.",
                  z.prefix);
    }
    bool sums = false;
    bool filled = false;
    for (size_t i = 0; i < z.count; i++) {
        struct zip_member *m = &z.members[i];
        sums = sums || m->crc != 0;
        filled = filled || m->size != 0;
        m->header_at = m->header_at <= bytes.n ? m->header_at + z.prefix : m->header_at;
        const char *local = check_local(bytes, &z, m);
        const char *alone = check_member(m);
        m->readable = local == NULL && alone == NULL;
        const char *wrong = local != NULL ? local : alone;
        if (wrong != NULL) {
            issue_add(issues, SEVERITY_ERROR, "zip-member-damaged", "A member contradicts itself",
                      "\"%s\": %s.", issue_text(a, m->name), wrong);
        }
    }
    z.without_sums = filled && !sums;
    check_names(a, &z, issues);
    check_layout(a, &z, issues);
    *ret_zip = z;
    return ST_OK;
}
