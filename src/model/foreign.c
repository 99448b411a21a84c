// SPDX-License-Identifier: Apache-2.0
/*
 * Containers that no checkpoint format uses, told by their first bytes: the tar archive of torch before
 * 0.1.10, and compressed files. They are refused by name, because some loaders open them all the same;
 * pickles in a tar archive and in zlib or gzip streams are looked at before.
 * Sources: POSIX ustar; RFC 1950 and 1952; torch/serialization.py (legacy_load of tar archives).
 */
#include <string.h>
#include <zlib.h>

#include "model/torch_file.h"

enum {
    TAR_BLOCK = 512,
    TAR_MAX_MEMBERS = 10000,
    MAX_UNPACKED = 16 << 20
};

static const struct {
    const char *magic;
    size_t n;
    const char *name;
} compressed[] = {
    {"\x1f\x8b", 2, "gzip"},
    {"BZh", 3, "bzip2"},
    {"\xfd"
     "7zXZ",
     5, "xz"},
    {"7z\xbc\xaf\x27\x1c", 6, "7z"},
    {"Rar!\x1a\x07", 6, "rar"},
    {"\x28\xb5\x2f\xfd", 4, "zstd"},
};

static bool is_tar(struct str b)
{
    return b.n >= TAR_BLOCK && memcmp(b.p + 257, "ustar", 5) == 0;
}

/* Two bytes with a check digit, and data that unpack. */
static bool is_zlib(struct str b)
{
    if (b.n < 6 || (b.p[0] & 0x0f) != 8 || (unsigned char)b.p[0] > 0x78 ||
        (((unsigned)(unsigned char)b.p[0] << 8) | (unsigned char)b.p[1]) % 31 != 0) {
        return false;
    }
    unsigned char out[64];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)b.p,
                  .avail_in = b.n < 4096 ? (uInt)b.n : 4096,
                  .next_out = out,
                  .avail_out = sizeof out};
    if (inflateInit(&z) != Z_OK) {
        return false;
    }
    int rc = inflate(&z, Z_NO_FLUSH);
    inflateEnd(&z);
    return rc == Z_OK || rc == Z_STREAM_END;
}

static const char *container_of(struct str b)
{
    for (size_t i = 0; i < ARRAY_LEN(compressed); i++) {
        if (b.n > compressed[i].n && memcmp(b.p, compressed[i].magic, compressed[i].n) == 0) {
            return compressed[i].name;
        }
    }
    return is_tar(b) ? "tar" : is_zlib(b) ? "zlib" : NULL;
}

static bool matches(struct str bytes, const char *path)
{
    (void)path;
    return container_of(bytes) != NULL;
}

static void look_into_tar(struct tensor_file *f, struct str b, struct issues *issues)
{
    uint64_t at = 0;
    for (unsigned n = 0; n < TAR_MAX_MEMBERS && b.n - at >= TAR_BLOCK; n++) {
        uint64_t size;
        struct str digits = {.p = b.p + at + 124, .n = strnlen(b.p + at + 124, 12)};
        if (str_to_u64(str_trim(digits), 8, &size) != ST_OK || size > b.n - at - TAR_BLOCK) {
            return;
        }
        struct str name = {.p = b.p + at, .n = strnlen(b.p + at, 100)};
        torch_check_hidden(f->arena, str_slice(b, at + TAR_BLOCK, at + TAR_BLOCK + size),
                           arena_fmt(f->arena, "tar member \"%s\"", issue_text(f->arena, name)),
                           issues);
        uint64_t whole = TAR_BLOCK + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (whole > b.n - at) {
            return;
        }
        at += whole;
    }
}

static void look_into_stream(struct tensor_file *f, struct str b, struct issues *issues)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)b.p,
                  .avail_in = b.n < MAX_UNPACKED ? (uInt)b.n : MAX_UNPACKED};
    if (inflateInit2(&z, 32 + MAX_WBITS) != Z_OK) {
        return;
    }
    char *out = arena_alloc(f->arena, MAX_UNPACKED);
    z.next_out = (Bytef *)out;
    z.avail_out = MAX_UNPACKED;
    (void)inflate(&z, Z_SYNC_FLUSH);
    struct str text = {.p = out, .n = MAX_UNPACKED - z.avail_out};
    inflateEnd(&z);
    torch_check_hidden(f->arena, text, "the compressed content", issues);
}

static enum status refuse(struct tensor_file *f, struct issues *issues, struct err *err)
{
    struct str bytes = file_map_str(&f->map);
    const char *name = container_of(bytes);
    if (strcmp(name, "tar") == 0) {
        look_into_tar(f, bytes, issues);
    } else if (strcmp(name, "gzip") == 0 || strcmp(name, "zlib") == 0) {
        look_into_stream(f, bytes, issues);
    }
    issue_add(issues, SEVERITY_ERROR, "foreign-container", "No checkpoint, but a container",
              "The file is a %s %s. No current checkpoint format uses one; a pickle inside of it "
              "would escape a look at the file.",
              name, strcmp(name, "tar") == 0 ? "archive (torch before 0.1.10 wrote such)" : "file");
    return err_set(err, ST_UNSUPPORTED, "'%s' is a %s file; unpack it, then check what is inside",
                   f->map.path, name);
}

const struct tensor_format tensor_format_foreign = {
    .name = "foreign container", .matches = matches, .read = refuse};
