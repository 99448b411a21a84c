// SPDX-License-Identifier: Apache-2.0
/* Version comparison. */
#include "base/version.h"

enum {
    MAX_PARTS = 6
};

struct parsed {
    long part[MAX_PARTS];
    unsigned count;
    int rank; /* 0 release, <0 pre-release: dev -4, a -3, b -2, rc -1 */
    long serial;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static long take_number(struct str *s)
{
    long v = 0;
    while (s->n != 0 && is_digit(s->p[0])) {
        if (v < 1000000000000L) {
            v = v * 10 + (s->p[0] - '0');
        }
        *s = str_slice(*s, 1, s->n);
    }
    return v;
}

static void take_prerelease(struct str s, struct parsed *v)
{
    static const struct {
        const char *mark;
        int rank;
    } marks[] = {{"dev", -4}, {"alpha", -3}, {"a", -3},  {"beta", -2},
                 {"b", -2},   {"rc", -1},    {"git", -1}};

    if (s.n != 0 && (s.p[0] == '.' || s.p[0] == '-' || s.p[0] == '_')) {
        s = str_slice(s, 1, s.n);
    }
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t n = str_of(marks[i].mark).n;
        if (str_starts(s, marks[i].mark) && (s.n == n || is_digit(s.p[n]))) {
            v->rank = marks[i].rank;
            s = str_slice(s, n, s.n);
            v->serial = take_number(&s);
            return;
        }
    }
}

static struct parsed parse(struct str s)
{
    struct parsed v = {0};
    s = str_trim(s);
    if (s.n != 0 && (s.p[0] == 'v' || s.p[0] == 'V')) {
        s = str_slice(s, 1, s.n);
    }
    while (s.n != 0 && is_digit(s.p[0]) && v.count < MAX_PARTS) {
        v.part[v.count++] = take_number(&s);
        if (s.n < 2 || s.p[0] != '.' || !is_digit(s.p[1])) {
            break;
        }
        s = str_slice(s, 1, s.n);
    }
    take_prerelease(s, &v);
    return v;
}

bool version_valid(struct str s)
{
    return parse(s).count != 0;
}

int version_cmp(struct str a, struct str b)
{
    struct parsed x = parse(a);
    struct parsed y = parse(b);
    for (unsigned i = 0; i < MAX_PARTS; i++) {
        if (x.part[i] != y.part[i]) {
            return x.part[i] < y.part[i] ? -1 : 1;
        }
    }
    if (x.rank != y.rank) {
        return x.rank < y.rank ? -1 : 1;
    }
    return (x.serial > y.serial) - (x.serial < y.serial);
}

long version_part(struct str s, unsigned index)
{
    struct parsed v = parse(s);
    return index < v.count ? v.part[index] : -1;
}
