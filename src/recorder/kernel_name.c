// SPDX-License-Identifier: Apache-2.0
/* See kernel_name.h. */
#include "recorder/kernel_name.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"

enum {
    ARGUMENTS_SHOWN = 2,
    TEXT_MAX = 400
};

/* A name with its length in front: "6native". NULL where none begins. */
static const char *source_name(const char *p, struct str *ret_name)
{
    size_t n = 0;
    const char *q = p;
    for (; isdigit((unsigned char)*q) && n < 10000; q++) {
        n = n * 10 + (size_t)(*q - '0');
    }
    if (q == p || n == 0 || strnlen(q, n) < n) {
        return NULL;
    }
    *ret_name = (struct str){.p = q, .n = n};
    return q + n;
}

static bool is_anonymous(struct str name)
{
    return str_starts(name, "_GLOBAL__N_");
}

/* Names of namespaces and of helpers that nearly every kernel of PyTorch has among its arguments. */
static bool tells_little(struct str name)
{
    static const char *const common[] = {"at",    "native", "c10",     "std",
                                         "cuda",  "detail", "array",   "memory",
                                         "Array", "thrust", "cutlass", "TensorIteratorBase"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        if (str_eq(name, str_of(common[i]))) {
            return true;
        }
    }
    return name.n < 4 || is_anonymous(name) || str_find(name, "OffsetCalculator", 0) != SIZE_MAX ||
           name.p[0] == '$';
}

/* Behind the qualified name: what stands between <>. */
static void add_arguments(struct strbuf *out, const char *p)
{
    struct str shown[ARGUMENTS_SHOWN];
    size_t count = 0;
    while (*p != '\0' && count < ARGUMENTS_SHOWN) {
        struct str name;
        /* "Li8E" is the number 8, and no name of 8 characters. */
        if (p[0] == 'L' && islower((unsigned char)p[1])) {
            p += 2;
            while (*p != '\0' && *p != 'E') {
                p++;
            }
            continue;
        }
        const char *behind = isdigit((unsigned char)*p) ? source_name(p, &name) : NULL;
        /* "S0_", "T1_": digits that are no length. */
        if ((*p == 'S' || *p == 'T') &&
            (isdigit((unsigned char)p[1]) || isupper((unsigned char)p[1]))) {
            p += 2;
            continue;
        }
        /* "UlvE1_": the second closure of its kind. */
        size_t digits = strspn(p, "0123456789");
        if (behind == NULL || (p[-1] == 'E' && p[digits] == '_' && p[digits + 1] != '_')) {
            p += digits + (digits == 0);
            continue;
        }
        bool known = tells_little(name);
        for (size_t i = 0; i < count; i++) {
            known = known || str_eq(shown[i], name);
        }
        if (!known) {
            shown[count++] = name;
        }
        p = behind;
    }
    for (size_t i = 0; i < count; i++) {
        strbuf_fmt(out, "%s%.*s", i == 0 ? "<" : ", ", (int)shown[i].n, shown[i].p);
    }
    if (count != 0) {
        strbuf_fmt(out, ">");
    }
}

const char *kernel_name(struct arena *a, const char *name)
{
    if (strncmp(name, "_Z", 2) != 0) {
        return name;
    }
    struct strbuf out;
    strbuf_init(&out, a, TEXT_MAX);
    const char *p = name + 2;
    bool nested = *p == 'N';
    p += nested;
    for (;;) {
        struct str part;
        const char *behind = source_name(p, &part);
        if (behind == NULL) {
            break;
        }
        if (!is_anonymous(part)) {
            strbuf_fmt(&out, "%s%.*s", out.n != 0 ? "::" : "", (int)part.n, part.p);
        }
        p = behind;
        if (!nested) {
            break;
        }
    }
    if (out.n == 0) {
        return name;
    }
    add_arguments(&out, p);
    return out.p;
}
