// SPDX-License-Identifier: Apache-2.0
/*
 * Training launchers that run at the same time, and dead processes that nobody reaped. A launcher
 * that another one started (llamafactory-cli runs torchrun) is not counted again.
 */
#include "facts/launchers.h"

#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "facts/read.h"

enum {
    MAX_TEXT = 1 << 20,
    MAX_PROCESSES = 65536,
    MAX_DEPTH = 64,
    LOOK_AT = 5 /* words: interpreter, its options, script or "-m module" */
};

struct process {
    uint64_t pid;
    uint64_t parent;
    bool launcher;
};

struct processes {
    struct process *items; /* sorted as /proc lists them, by name */
    size_t count;
    size_t capacity;
    bool zombies;
};

static struct str base_name(struct str path)
{
    size_t slash = path.n;
    while (slash != 0 && path.p[slash - 1] != '/') {
        slash--;
    }
    return str_slice(path, slash, path.n);
}

static bool is_one_of(struct str word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_is(word, names[i])) {
            return true;
        }
    }
    return false;
}

/* By the words of the command line, not by its text: an editor with torchrun's log open is none. */
static bool is_launcher(struct str cmdline)
{
    static const char *const programs[] = {"torchrun", "deepspeed", "accelerate-launch",
                                           "llamafactory-cli"};
    static const char *const modules[] = {"torch.distributed.run", "torch.distributed.launch",
                                          "accelerate.commands.launch",
                                          "deepspeed.launcher.runner"};
    struct str word;
    struct str before = {0};
    for (int i = 0; i < LOOK_AT && str_cut(&cmdline, '\0', &word); i++) {
        struct str name = base_name(word);
        if (i == 0 && !str_starts(name, "python") &&
            !is_one_of(name, programs, ARRAY_LEN(programs)) && !str_is(name, "accelerate")) {
            return false;
        }
        if (is_one_of(name, programs, ARRAY_LEN(programs)) ||
            (str_is(before, "-m") && is_one_of(word, modules, ARRAY_LEN(modules))) ||
            (str_is(base_name(before), "accelerate") && str_is(word, "launch"))) {
            return true;
        }
        before = word;
    }
    return false;
}

/* "pid (comm) S ppid ...": comm may hold anything, so what counts stands after the last bracket. */
static bool parse_stat(struct str text, char *ret_state, uint64_t *ret_parent)
{
    const char *close = text.n != 0 ? memrchr(text.p, ')', text.n) : NULL;
    if (close == NULL) {
        return false;
    }
    struct str rest = str_slice(text, (size_t)(close - text.p) + 1, text.n);
    struct str state;
    struct str parent;
    rest = str_trim(rest);
    if (!str_cut(&rest, ' ', &state) || state.n != 1 || !str_cut(&rest, ' ', &parent) ||
        str_to_u64(parent, 10, ret_parent) != ST_OK) {
        return false;
    }
    *ret_state = state.p[0];
    return true;
}

static void read_process(struct collect *c, const char *name, struct processes *all)
{
    struct arena_mark mark = arena_mark(c->scratch);
    struct process p = {0};
    struct str text;
    char process_state = '?';
    bool read = str_to_u64(str_of(name), 10, &p.pid) == ST_OK &&
                fs_read(c->fs, c->scratch, arena_fmt(c->scratch, "/proc/%s/stat", name), MAX_TEXT,
                        &text, NULL) == ST_OK &&
                parse_stat(text, &process_state, &p.parent);
    all->zombies = all->zombies || (read && process_state == 'Z');
    if (read && fs_read(c->fs, c->scratch, arena_fmt(c->scratch, "/proc/%s/cmdline", name),
                        MAX_TEXT, &text, NULL) == ST_OK) {
        p.launcher = is_launcher(text);
    }
    arena_rewind(c->scratch, mark);
    if (read && all->count < MAX_PROCESSES) {
        all->items[all->count++] = p;
    }
}

static const struct process *find(const struct processes *all, uint64_t pid)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].pid == pid) {
            return &all->items[i];
        }
    }
    return NULL;
}

static bool started_by_launcher(const struct processes *all, const struct process *p)
{
    for (int depth = 0; depth < MAX_DEPTH && p != NULL; depth++) {
        p = p->parent != 0 && p->parent != p->pid ? find(all, p->parent) : NULL;
        if (p != NULL && p->launcher) {
            return true;
        }
    }
    return false;
}

void launchers_facts(struct collect *c)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, "/proc", &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "proc.zombies_present", "/proc", &err);
        facts_set_error(c->facts, "proc.launchers", "/proc", &err);
        return;
    }
    struct processes all = {0};
    all.items = arena_array(c->scratch, (count < MAX_PROCESSES ? count : MAX_PROCESSES) + 1,
                            sizeof *all.items);
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] >= '0' && names[i][0] <= '9') {
            read_process(c, names[i], &all);
        }
    }
    int64_t launchers = 0;
    for (size_t i = 0; i < all.count; i++) {
        launchers += all.items[i].launcher && !started_by_launcher(&all, &all.items[i]);
    }
    facts_bool(c->facts, "proc.zombies_present", all.zombies, "/proc/*/stat");
    facts_int(c->facts, "proc.launchers", launchers, "/proc/*/cmdline");
}
