// SPDX-License-Identifier: Apache-2.0
/* One file, one fact. */
#include "facts/read.h"

#include <string.h>

#include "base/str.h"

bool read_string_fact(struct collect *c, const char *key, const char *path)
{
    struct str text;
    struct err err = {0};
    if (fs_read_trimmed(c->fs, c->scratch, path, &text, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return false;
    }
    if (text.n == 0) {
        facts_set_state(c->facts, key, FACT_ABSENT, path, "the file is empty");
        return false;
    }
    facts_string(c->facts, key, text.p, path);
    return true;
}

enum status read_int(struct collect *c, const char *path, int64_t *ret_value, struct err *err)
{
    struct str text;
    TRY(fs_read_trimmed(c->fs, c->scratch, path, &text, err));
    int base = str_starts(text, "0x") ? 16 : 10;
    if (str_to_i64(text, base, ret_value) != ST_OK) {
        return err_set(err, ST_FORMAT, "'%s' holds '%.40s' where a number was expected", path,
                       text.p);
    }
    return ST_OK;
}

bool read_int_fact(struct collect *c, const char *key, const char *path, int64_t scale)
{
    int64_t value;
    int64_t scaled;
    struct err err = {0};
    if (read_int(c, path, &value, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return false;
    }
    if (__builtin_mul_overflow(value, scale, &scaled)) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, path, "the number is too large");
        return false;
    }
    facts_int(c->facts, key, scaled, path);
    return true;
}

struct str read_line_value(struct str text, const char *key, const char *separators)
{
    struct str line;
    size_t n = strlen(key);
    while (str_cut_line(&text, &line)) {
        if (str_starts(line, key) && line.n > n && strchr(separators, line.p[n]) != NULL) {
            struct str value = str_slice(line, n, line.n);
            while (value.n != 0 && strchr(separators, value.p[0]) != NULL) {
                value = str_slice(value, 1, value.n);
            }
            return str_trim(value);
        }
    }
    return (struct str){0};
}

void read_set_states(struct collect *c, const char *const *keys, size_t count,
                     enum fact_state state, const char *source, const char *reason)
{
    for (size_t i = 0; i < count; i++) {
        facts_set_state(c->facts, keys[i], state, source, reason);
    }
}
