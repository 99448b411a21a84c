// SPDX-License-Identifier: Apache-2.0
/* The table is amdgpu_target.def; everything here is lookups and comparisons of names. */
#include "facts/amdgpu_target.h"

#include <string.h>

enum {
    MACH_MASK = 0xff,
    OS_ABI_HSA = 64,
    ABI_V3 = 1,
    X = 1, /* xnack may be switched */
    S = 2, /* sramecc may be switched */
};

struct target {
    uint8_t mach;
    uint8_t features;
    const char *name;
    const char *generic;
};

static const struct target targets[] = {
#define AMDGPU_TARGET(mach_, name_, generic_, features_) \
 {.mach = (mach_), .name = (name_), .generic = (generic_), .features = (features_)},
#include "facts/amdgpu_target.def"
#undef AMDGPU_TARGET
};

static const struct target *by_name(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        if (str_is(name, targets[i].name)) {
            return &targets[i];
        }
    }
    return NULL;
}

static struct str processor_of(const char *name)
{
    struct str s = str_of(name);
    struct str part = s;
    str_cut(&s, ':', &part);
    return part;
}

/* V4 fields: 0 unsupported, 1 any, 2 off, 3 on. */
static const char *field_suffix(unsigned field, const char *off, const char *on)
{
    return field == 3 ? on : field == 2 ? off : "";
}

const char *amdgpu_target_of_flags(struct arena *a, uint32_t flags, uint8_t os_abi,
                                   uint8_t abi_version)
{
    const struct target *t = NULL;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        if (targets[i].mach == (flags & MACH_MASK)) {
            t = &targets[i];
        }
    }
    if (t == NULL) {
        return NULL;
    }
    if (os_abi != OS_ABI_HSA) {
        return t->name;
    }
    unsigned xnack = flags >> 8 & 3;
    unsigned sramecc = flags >> 10 & 3;
    if (abi_version <= ABI_V3) {
        xnack = (flags & 0x100) != 0 ? 3 : 2;
        sramecc = (flags & 0x200) != 0 ? 3 : 2;
    }
    return arena_fmt(a, "%s%s%s", t->name,
                     (t->features & S) != 0 ? field_suffix(sramecc, ":sramecc-", ":sramecc+") : "",
                     (t->features & X) != 0 ? field_suffix(xnack, ":xnack-", ":xnack+") : "");
}

const char *amdgpu_target_generic(const char *name)
{
    const struct target *t = by_name(processor_of(name));
    return t != NULL ? t->generic : NULL;
}

bool amdgpu_target_known(struct str name)
{
    struct str processor = name;
    str_cut(&name, ':', &processor);
    return by_name(processor) != NULL;
}

size_t amdgpu_target_prefix(struct str text)
{
    size_t best = 0;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        size_t n = strlen(targets[i].name);
        if (n > best && str_starts(text, targets[i].name)) {
            best = n;
        }
    }
    return best;
}

/* '+' or '-' of a feature in "gfx90a:sramecc+:xnack-", or 0 when it is not spelled out. */
static char feature_of(const char *name, const char *feature)
{
    struct str rest = str_of(name);
    struct str part;
    size_t n = strlen(feature);
    while (str_cut(&rest, ':', &part)) {
        if (part.n == n + 1 && memcmp(part.p, feature, n) == 0) {
            return part.p[n];
        }
    }
    return 0;
}

static bool feature_fits(const char *code, const char *gpu, const char *feature)
{
    char c = feature_of(code, feature);
    char g = feature_of(gpu, feature);
    return c == 0 || g == 0 || c == g;
}

bool amdgpu_target_covers(const char *code, const char *gpu)
{
    struct str c = processor_of(code);
    struct str g = processor_of(gpu);
    if (str_is(c, "amdgcnspirv")) {
        return str_starts(g, "gfx");
    }
    const char *generic = amdgpu_target_generic(gpu);
    if (!str_eq(c, g) && (generic == NULL || !str_is(c, generic))) {
        return false;
    }
    return feature_fits(code, gpu, "xnack") && feature_fits(code, gpu, "sramecc");
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Length of "gfx" and its number at the start of `s`, generic targets included; 0 for none. */
static size_t name_length(struct str s)
{
    size_t n = amdgpu_target_prefix(s);
    size_t k = 3;
    while (k < s.n && is_hex(s.p[k])) {
        k++;
    }
    /* A longer number than the table knows is a newer GPU, not an old one with a suffix. */
    return k >= 6 && k > n ? k : n;
}

const char *amdgpu_target_in_name(struct arena *a, struct str name, size_t *from)
{
    for (size_t at = str_find(name, "gfx", *from); at != SIZE_MAX;
         at = str_find(name, "gfx", at + 3)) {
        struct str rest = str_slice(name, at, name.n);
        size_t n = name_length(rest);
        if (n == 0) {
            continue;
        }
        struct strbuf out;
        strbuf_init(&out, a, 128);
        strbuf_add(&out, str_slice(rest, 0, n));
        static const char *const features[] = {"sramecc", "xnack"};
        for (size_t i = 0; i < ARRAY_LEN(features); i++) {
            size_t k = strlen(features[i]);
            struct str tail = str_slice(rest, n, rest.n);
            if (tail.n > k + 1 && (tail.p[0] == '-' || tail.p[0] == ':') &&
                memcmp(tail.p + 1, features[i], k) == 0 &&
                (tail.p[k + 1] == '+' || tail.p[k + 1] == '-')) {
                strbuf_fmt(&out, ":%s%c", features[i], tail.p[k + 1]);
                n += k + 2;
            }
        }
        *from = at + n;
        return out.p;
    }
    return NULL;
}

/* gfx90a -> 0x90a, gfx1201 -> 0x1201: hexadecimal order is the order of the generations. */
static unsigned long rank_of(const char *name)
{
    unsigned long number = 0;
    const char *p = name;
    if (strncmp(p, "gfx", 3) != 0) {
        return 1ul << 40;
    }
    for (p += 3; is_hex(*p); p++) {
        number = number << 4 | (unsigned)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
        if (number > 0xffffff) {
            break;
        }
    }
    return strstr(name, "generic") != NULL ? number + (1ul << 32) : number;
}

static unsigned long sm_number(const char *name)
{
    unsigned long n = 0;
    const char *p = strchr(name, '_');
    for (p = p != NULL ? p + 1 : ""; *p >= '0' && *p <= '9' && n < 100000; p++) {
        n = n * 10 + (unsigned)(*p - '0');
    }
    return n;
}

int amdgpu_target_cmp(const char *a, const char *b)
{
    unsigned long ra = rank_of(a);
    unsigned long rb = rank_of(b);
    if (ra != rb) {
        return ra < rb ? -1 : 1;
    }
    if (ra == 1ul << 40) {
        unsigned long na = sm_number(a);
        unsigned long nb = sm_number(b);
        bool ptx_a = a[0] == 'c';
        bool ptx_b = b[0] == 'c';
        if (ptx_a != ptx_b) {
            return ptx_a ? 1 : -1;
        }
        if (na != nb) {
            return na < nb ? -1 : 1;
        }
    }
    return strcmp(a, b);
}
