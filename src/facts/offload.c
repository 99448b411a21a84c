// SPDX-License-Identifier: Apache-2.0
/* Start reading at offload_read_bundles(). */
#include "facts/offload.h"

#include <inttypes.h>

#include "base/bytes.h"

#include "facts/ccob.h"

#define BUNDLE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define END_UNKNOWN  UINT64_MAX

enum {
    BUNDLE_MAGIC_SIZE = 24,
    ENTRY_SIZE = 24,
    PAGE = 4096,
    MAX_ENTRIES = 4096,
    MAX_ID = 512,
    FIRST_PREFIX = 64 * 1024,
    SECOND_PREFIX = 16 * 1024 * 1024,
    MAX_GAP = 16 * 1024 * 1024, /* searched for the next bundle behind one */
    IMAGE_HEADER = 32,
    IMAGE_ENTRY = 40,
    MAX_STRINGS = 64,
};

static bool is_plain_bundle(struct str bytes)
{
    return bytes.n >= BUNDLE_MAGIC_SIZE && memcmp(bytes.p, BUNDLE_MAGIC, BUNDLE_MAGIC_SIZE) == 0;
}

bool offload_is_bundle(struct str bytes)
{
    return is_plain_bundle(bytes) || ccob_is(bytes);
}

struct str offload_target_of_id(struct str id)
{
    static const char *const starts[] = {"-gfx", "-amdgcnspirv", "-sm_"};
    struct str none = {.p = "", .n = 0};
    if (str_starts(id, "host-")) {
        return none;
    }
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        size_t at = str_find(id, starts[i], 0);
        if (at != SIZE_MAX) {
            return str_slice(id, at + 1, id.n);
        }
    }
    return none;
}

/*
 * One plain bundle. `head` holds its beginning, `total` is its whole size as far as known: the two
 * differ for compressed bundles. *ret_end is where its last entry ends. ST_LIMIT when the table of
 * entries is longer than `head`.
 */
static enum status read_entries(struct str head, uint64_t total, enum gpu_code_form form,
                                struct gpu_code_sink *sink, uint64_t *ret_end, struct err *err)
{
    struct str s;
    if (!is_plain_bundle(head) || !bytes_view(head, BUNDLE_MAGIC_SIZE, 8, &s)) {
        return err_set(err, ST_FORMAT, "no offload bundle where one was expected");
    }
    uint64_t count = bytes_le64(s.p);
    if (count > MAX_ENTRIES) {
        return err_set(err, ST_FORMAT, "the offload bundle claims %" PRIu64 " entries", count);
    }
    uint64_t at = BUNDLE_MAGIC_SIZE + 8;
    uint64_t end = at;
    /* Two rounds, so that a damaged table reports nothing of itself. */
    for (int round = 0; round < 2; round++) {
        at = BUNDLE_MAGIC_SIZE + 8;
        for (uint64_t i = 0; i < count; i++) {
            struct str id;
            if (!bytes_view(head, at, ENTRY_SIZE, &s) ||
                !bytes_view(head, at + ENTRY_SIZE, bytes_le64(s.p + 16), &id)) {
                return err_set(err, head.n < total ? ST_LIMIT : ST_FORMAT,
                               "the offload bundle ends within its table");
            }
            uint64_t offset = bytes_le64(s.p);
            uint64_t size = bytes_le64(s.p + 8);
            if (id.n > MAX_ID || offset > total || size > total - offset) {
                return err_set(err, ST_FORMAT,
                               "an entry of the offload bundle lies beyond its end at %" PRIu64,
                               total);
            }
            at += ENTRY_SIZE + id.n;
            end = offset + size > end ? offset + size : end;
            struct str target = offload_target_of_id(id);
            if (round == 1 && target.n != 0 && size != 0) {
                sink->found(sink->ctx, target, form, size);
            }
        }
    }
    *ret_end = end > at ? end : at;
    return ST_OK;
}

static enum status read_compressed(struct str bytes, struct gpu_code_sink *sink, uint64_t *ret_end,
                                   struct err *err)
{
    struct ccob c;
    TRY(ccob_parse(bytes, &c, err));
    /* The end is known even when the content turns out to be damaged. */
    *ret_end = c.stored_size != 0 ? c.stored_size : END_UNKNOWN;
    enum status status = ST_LIMIT;
    for (uint64_t want = FIRST_PREFIX; want <= SECOND_PREFIX && status == ST_LIMIT;
         want *= SECOND_PREFIX / FIRST_PREFIX) {
        struct arena_mark mark = arena_mark(sink->scratch);
        struct str head;
        uint64_t end;
        status = ccob_inflate(sink->scratch, bytes, &c, want, &head, err);
        if (status == ST_OK) {
            status = read_entries(head, c.plain_size, GPU_CODE_COMPRESSED, sink, &end, err);
        }
        arena_rewind(sink->scratch, mark);
    }
    return status;
}

/* Offset of the next bundle at or after `from`, or SIZE_MAX. Bundles begin on pages in a linked
 * library; the byte-wise search is for files put together by others. */
static size_t next_bundle(struct str bytes, size_t from)
{
    if (from >= bytes.n) {
        return SIZE_MAX;
    }
    size_t page = (from + PAGE - 1) & ~(size_t)(PAGE - 1);
    if (offload_is_bundle(str_slice(bytes, from, bytes.n))) {
        return from;
    }
    if (page < bytes.n && offload_is_bundle(str_slice(bytes, page, bytes.n))) {
        return page;
    }
    struct str gap = bytes_clip(bytes, from, MAX_GAP);
    const char *plain = memmem(gap.p, gap.n, BUNDLE_MAGIC, BUNDLE_MAGIC_SIZE);
    size_t best = plain != NULL ? from + (size_t)(plain - gap.p) : SIZE_MAX;
    for (const char *p = memmem(gap.p, gap.n, "CCOB", 4); p != NULL;) {
        size_t at = (size_t)(p - gap.p);
        struct ccob c;
        /* Four letters occur by chance inside compressed data: the header must make sense. */
        if (ccob_parse(str_slice(bytes, from + at, bytes.n), &c, NULL) == ST_OK) {
            return from + at < best ? from + at : best;
        }
        p = memmem(p + 4, gap.n - at - 4, "CCOB", 4);
    }
    return best;
}

/* The next page that begins with a bundle. Behind a compressed bundle that does not say its size
 * only pages count: its data may hold the magic as plain text. */
static size_t next_bundle_page(struct str bytes, size_t from)
{
    for (size_t at = (from / PAGE + 1) * PAGE; at < bytes.n; at += PAGE) {
        if (offload_is_bundle(str_slice(bytes, at, bytes.n))) {
            return at;
        }
    }
    return SIZE_MAX;
}

void offload_read_bundles(struct str bytes, struct gpu_code_sink *sink)
{
    for (size_t at = next_bundle(bytes, 0); at != SIZE_MAX;) {
        struct str rest = str_slice(bytes, at, bytes.n);
        uint64_t end = 4;
        struct err err = {0};
        enum status status = ccob_is(rest)
                                 ? read_compressed(rest, sink, &end, &err)
                                 : read_entries(rest, rest.n, GPU_CODE_BUNDLE, sink, &end, &err);
        sink->containers++;
        if (status != ST_OK) {
            gpu_code_unreadable(sink, &err);
        }
        at = end == END_UNKNOWN ? next_bundle_page(bytes, at)
             : end < rest.n     ? next_bundle(bytes, at + (size_t)end)
                                : SIZE_MAX;
    }
}

/* Value of "arch" among an image's strings; offsets count from the image's header. */
static struct str image_arch(struct str image, uint64_t strings, uint64_t count)
{
    struct str pair;
    for (uint64_t i = 0; i < count && i < MAX_STRINGS; i++) {
        struct str key;
        struct str value;
        if (!bytes_view(image, strings + i * 16, 16, &pair) ||
            !bytes_text(image, bytes_le64(pair.p), &key) ||
            !bytes_text(image, bytes_le64(pair.p + 8), &value)) {
            break;
        }
        if (str_is(key, "arch")) {
            return value;
        }
    }
    return (struct str){.p = "", .n = 0};
}

static const char image_magic[] = {0x10, (char)0xff, 0x10, (char)0xad};

static enum status read_image(struct str bytes, struct gpu_code_sink *sink, uint64_t *ret_size,
                              struct err *err)
{
    struct str head;
    struct str image;
    struct str entry;
    if (!bytes_view(bytes, 0, IMAGE_HEADER, &head) ||
        !bytes_view(bytes, 0, bytes_le64(head.p + 8), &image) || image.n < IMAGE_HEADER ||
        !bytes_view(image, bytes_le64(head.p + 16), IMAGE_ENTRY, &entry)) {
        return err_set(err, ST_FORMAT, "an image of .llvm.offloading lies beyond its end");
    }
    struct str arch = image_arch(image, bytes_le64(entry.p + 8), bytes_le64(entry.p + 16));
    uint64_t size = bytes_le64(entry.p + 32);
    if (arch.n != 0 && arch.n <= MAX_ID && size != 0) {
        sink->found(sink->ctx, arch, GPU_CODE_OFFLOAD_BINARY, size);
    }
    *ret_size = image.n;
    return ST_OK;
}

void offload_read_binaries(struct str bytes, struct gpu_code_sink *sink)
{
    size_t at = 0;
    while (at < bytes.n) {
        struct str rest = str_slice(bytes, at, bytes.n);
        const char *p = memmem(rest.p, rest.n, image_magic, sizeof image_magic);
        if (p == NULL) {
            return;
        }
        at += (size_t)(p - rest.p);
        uint64_t size = sizeof image_magic;
        struct err err = {0};
        sink->containers++;
        if (read_image(str_slice(bytes, at, bytes.n), sink, &size, &err) != ST_OK) {
            gpu_code_unreadable(sink, &err);
        }
        at += (size_t)size;
    }
}
