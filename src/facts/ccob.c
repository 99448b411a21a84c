// SPDX-License-Identifier: Apache-2.0
/* Two decompressors behind one call. Both stop when the wanted bytes are there. */
#include "facts/ccob.h"

#include <inttypes.h>
#include <zlib.h>
#include <zstd.h>

#include "base/bytes.h"

enum {
    MIN_HEADER = 8,
    MAX_WINDOW_LOG = 28
};

bool ccob_is(struct str bytes)
{
    return bytes.n >= 4 && memcmp(bytes.p, "CCOB", 4) == 0;
}

enum status ccob_parse(struct str bytes, struct ccob *ret_ccob, struct err *err)
{
    static const uint8_t header_sizes[] = {0, 20, 24, 32};
    if (!ccob_is(bytes) || bytes.n < MIN_HEADER) {
        return err_set(err, ST_FORMAT, "no compressed offload bundle at this place");
    }
    struct ccob c = {.version = bytes_le16(bytes.p + 4), .method = bytes_le16(bytes.p + 6)};
    if (c.version == 0 || c.version >= ARRAY_LEN(header_sizes)) {
        return err_set(err, ST_UNSUPPORTED,
                       "compressed offload bundle of version %u; versions 1 to 3 are known",
                       c.version);
    }
    if (c.method != CCOB_ZLIB && c.method != CCOB_ZSTD) {
        return err_set(err, ST_UNSUPPORTED,
                       "compressed offload bundle with method %u; 0 (zlib) and 1 (zstd) are known",
                       c.method);
    }
    c.header_size = header_sizes[c.version];
    if (bytes.n < c.header_size) {
        return err_set(err, ST_FORMAT, "the compressed offload bundle ends within its header");
    }
    switch (c.version) {
    case 1: c.plain_size = bytes_le32(bytes.p + 8); break;
    case 2:
        c.stored_size = bytes_le32(bytes.p + 8);
        c.plain_size = bytes_le32(bytes.p + 12);
        break;
    default:
        c.stored_size = bytes_le64(bytes.p + 8);
        c.plain_size = bytes_le64(bytes.p + 16);
        break;
    }
    if (c.version != 1 && (c.stored_size < c.header_size || c.stored_size > bytes.n)) {
        return err_set(err, ST_FORMAT,
                       "the compressed offload bundle claims %" PRIu64 " bytes where %zu are left",
                       c.stored_size, bytes.n);
    }
    *ret_ccob = c;
    return ST_OK;
}

static enum status inflate_zstd(struct str in, char *out, size_t want, size_t *ret_n,
                                struct err *err)
{
    ZSTD_DCtx *ctx = ZSTD_createDCtx();
    if (ctx == NULL) {
        return err_set(err, ST_LIMIT, "no memory for zstd");
    }
    ZSTD_DCtx_setParameter(ctx, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
    ZSTD_inBuffer src = {.src = in.p, .size = in.n};
    ZSTD_outBuffer dst = {.dst = out, .size = want};
    enum status status = ST_OK;
    while (dst.pos < dst.size) {
        size_t before = dst.pos + src.pos;
        size_t r = ZSTD_decompressStream(ctx, &dst, &src);
        if (ZSTD_isError(r)) {
            status = err_set(err, ST_FORMAT, "zstd: %s", ZSTD_getErrorName(r));
            break;
        }
        if (r == 0 || dst.pos + src.pos == before) {
            break; /* end of the frame, or of the input */
        }
    }
    ZSTD_freeDCtx(ctx);
    *ret_n = dst.pos;
    return status;
}

static enum status inflate_zlib(struct str in, char *out, size_t want, size_t *ret_n,
                                struct err *err)
{
    z_stream z = {0};
    if (inflateInit(&z) != Z_OK) {
        return err_set(err, ST_LIMIT, "no memory for zlib");
    }

    enum {
        STEP = 1 << 30
    };

    size_t taken = 0;
    size_t made = 0;
    int r = Z_OK;
    while (r == Z_OK && made < want) {
        z.next_in = (Bytef *)(uintptr_t)(in.p + taken);
        z.avail_in = (uInt)(in.n - taken < STEP ? in.n - taken : STEP);
        z.next_out = (Bytef *)out + made;
        z.avail_out = (uInt)(want - made < STEP ? want - made : STEP);
        r = inflate(&z, Z_NO_FLUSH);
        taken = (size_t)((const char *)z.next_in - in.p);
        made = (size_t)((char *)z.next_out - out);
    }
    enum status status = ST_OK;
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) {
        status = err_set(err, ST_FORMAT, "zlib: %s", z.msg != NULL ? z.msg : "damaged data");
    }
    inflateEnd(&z);
    *ret_n = made;
    return status;
}

enum status ccob_inflate(struct arena *a, struct str bytes, const struct ccob *ccob, uint64_t want,
                         struct str *ret_plain, struct err *err)
{
    uint64_t n = want < ccob->plain_size ? want : ccob->plain_size;
    if (n > CCOB_MAX_PLAIN) {
        return err_set(err, ST_LIMIT,
                       "the offload bundle would be %" PRIu64 " bytes; at most %" PRIu64
                       " are decompressed",
                       n, CCOB_MAX_PLAIN);
    }
    struct str in = str_slice(bytes, ccob->header_size,
                              ccob->stored_size != 0 ? ccob->stored_size : bytes.n);
    char *out = arena_alloc(a, (size_t)n);
    size_t made = 0;
    TRY(ccob->method == CCOB_ZSTD ? inflate_zstd(in, out, (size_t)n, &made, err)
                                  : inflate_zlib(in, out, (size_t)n, &made, err));
    if (made < n) {
        return err_set(err, ST_FORMAT,
                       "the compressed offload bundle holds %zu bytes instead of %" PRIu64, made,
                       ccob->plain_size);
    }
    *ret_plain = (struct str){.p = out, .n = made};
    return ST_OK;
}
