// SPDX-License-Identifier: Apache-2.0
/* /etc/passwd and /etc/group as text. */
#include "facts/users.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "facts/read.h"

enum {
    MAX_ACCOUNTS = 8 << 20
};

/* Splits "name:x:id:..." ; false when the line is something else. */
static bool account(struct str line, struct str *ret_name, uint64_t *ret_id)
{
    struct str rest = line;
    struct str password;
    struct str id;
    return str_cut(&rest, ':', ret_name) && str_cut(&rest, ':', &password) &&
           str_cut(&rest, ':', &id) && str_to_u64(id, 10, ret_id) == ST_OK;
}

static const char *name_of(struct collect *c, const char *path, uint64_t id)
{
    struct str text;
    if (fs_read(c->fs, c->scratch, path, MAX_ACCOUNTS, &text, NULL) == ST_OK) {
        struct str line;
        struct str name;
        uint64_t number;
        while (str_cut_line(&text, &line)) {
            if (account(line, &name, &number) && number == id) {
                return str_dup(c->scratch, name);
            }
        }
    }
    return arena_fmt(c->scratch, "%" PRIu64, id);
}

const char *users_group_name(struct collect *c, uint64_t gid)
{
    return name_of(c, "/etc/group", gid);
}

const char *users_user_name(struct collect *c, uint64_t uid)
{
    return name_of(c, "/etc/passwd", uid);
}

bool users_group_id(struct collect *c, const char *name, uint64_t *ret_gid)
{
    struct str text;
    if (fs_read(c->fs, c->scratch, "/etc/group", MAX_ACCOUNTS, &text, NULL) != ST_OK) {
        return false;
    }
    struct str line;
    struct str found;
    while (str_cut_line(&text, &line)) {
        if (account(line, &found, ret_gid) && str_is(found, name)) {
            return true;
        }
    }
    return false;
}

enum status users_in_namespace(struct collect *c, const char *map_file, bool *ret_inside,
                               struct err *err)
{
    struct str text;
    TRY(fs_read_trimmed(c->fs, c->scratch, map_file, &text, err));
    uint64_t numbers[3] = {0};
    size_t count = 0;
    struct str word;
    bool one_line = str_find_char(text, '\n', 0) == SIZE_MAX;
    while (count < 3 && str_cut(&text, ' ', &word)) {
        if (word.n != 0 && str_to_u64(word, 10, &numbers[count++]) != ST_OK) {
            return err_set(err, ST_FORMAT, "'%s' does not hold three numbers a line", map_file);
        }
    }
    *ret_inside = !one_line || numbers[0] != 0 || numbers[1] != 0 || numbers[2] != UINT32_MAX;
    return ST_OK;
}

struct users_self users_self(struct collect *c)
{
    struct users_self self = {.memlock = -1, .cpus = 1};
    struct str text;
    if (fs_read(c->fs, c->scratch, USERS_SELF_FILE, 65536, &text, NULL) != ST_OK) {
        return self;
    }
    uint64_t uid;
    if (str_to_u64(read_line_value(text, "uid", " \t"), 10, &uid) != ST_OK) {
        return self;
    }
    self.known = true;
    self.uid = uid;
    if (str_to_i64(read_line_value(text, "memlock", " \t"), 10, &self.memlock) != ST_OK) {
        self.memlock = -1;
    }
    if (str_to_i64(read_line_value(text, "cpus", " \t"), 10, &self.cpus) != ST_OK) {
        self.cpus = 1;
    }
    VEC_OF(uint64_t) groups = {0};
    struct str rest = read_line_value(text, "groups", " \t");
    struct str word;
    uint64_t gid;
    while (str_cut(&rest, ' ', &word)) {
        if (str_to_u64(word, 10, &gid) == ST_OK) {
            *VEC_PUSH(c->scratch, &groups) = gid;
        }
    }
    if (users_in_namespace(c, "/proc/self/uid_map", &self.userns, NULL) != ST_OK) {
        self.userns = false;
    }
    self.groups = groups.items;
    self.group_count = groups.count;
    return self;
}
