// SPDX-License-Identifier: Apache-2.0
/* One loop over windows, three ways to feed them. */
#include "base/digest.h"

#include <openssl/evp.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/attr.h"

enum {
    WINDOW = 8 << 20
};

static void to_hex(const unsigned char *bytes, size_t n, struct digest *ret_digest)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret_digest->hex[2 * i] = digits[bytes[i] >> 4];
        ret_digest->hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_digest->hex[2 * n] = '\0';
}

struct feed {
    EVP_MD_CTX *evp;
    XXH3_state_t *xxh;
};

static bool feed_start(struct feed *f, enum digest_kind kind)
{
    if (kind == DIGEST_XXH3) {
        f->xxh = XXH3_createState();
        return f->xxh != NULL && XXH3_128bits_reset(f->xxh) == XXH_OK;
    }
    f->evp = EVP_MD_CTX_new();
    const EVP_MD *md = kind == DIGEST_MD5 ? EVP_md5() : EVP_sha256();
    return f->evp != NULL && EVP_DigestInit_ex(f->evp, md, NULL) == 1;
}

static bool feed_bytes(struct feed *f, const unsigned char *p, size_t n)
{
    return f->xxh != NULL ? XXH3_128bits_update(f->xxh, p, n) == XXH_OK
                          : EVP_DigestUpdate(f->evp, p, n) == 1;
}

static bool feed_end(struct feed *f, struct digest *ret_digest)
{
    if (f->xxh != NULL) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(f->xxh));
        to_hex(canonical.digest, sizeof canonical.digest, ret_digest);
        return true;
    }
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_DigestFinal_ex(f->evp, bytes, &n) != 1 || n > 32) {
        return false;
    }
    to_hex(bytes, n, ret_digest);
    return true;
}

static enum status run(struct feed *f, const struct file_map *map, uint64_t from, uint64_t n,
                       void (*done)(void *ctx, uint64_t bytes), void *ctx, struct err *err)
{
    while (n != 0) {
        uint64_t part = n < WINDOW ? n : WINDOW;
        TRY(file_map_populate(map, from, part, err));
        if (!feed_bytes(f, map->p + from, (size_t)part)) {
            return err_set(err, ST_UNSUPPORTED, "the hash function of OpenSSL failed");
        }
        file_map_release(map, from, part);
        if (done != NULL) {
            done(ctx, part);
        }
        from += part;
        n -= part;
    }
    return ST_OK;
}

enum status digest_map(enum digest_kind kind, const struct file_map *map, uint64_t from, uint64_t n,
                       void (*done)(void *ctx, uint64_t bytes), void *ctx,
                       struct digest *ret_digest, struct err *err)
{
    struct feed f = {0};
    enum status status = feed_start(&f, kind)
                             ? run(&f, map, from, n, done, ctx, err)
                             : err_set(err, ST_UNSUPPORTED,
                                       "this hash function is switched off in OpenSSL");
    if (status == ST_OK && !feed_end(&f, ret_digest)) {
        status = err_set(err, ST_UNSUPPORTED, "the hash function of OpenSSL failed");
    }
    EVP_MD_CTX_free(f.evp);
    XXH3_freeState(f.xxh);
    return status;
}

uint64_t digest_quick(const void *p, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(n != 0 ? p : "", n, seed);
}
