// SPDX-License-Identifier: Apache-2.0
/* Source: glibc elf/dl-load.c (_dl_map_object, open_verify) and ld.so(8). Start at find(). */
#include "facts/ld_paths.h"

#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/ld_system.h"

enum {
    MAX_OBJECTS = 4096,
    MIN_ELF = 64,
    MAX_EXPANDED = 8192
};

struct loaded {
    struct ld_object object;
    const char *origin; /* what $ORIGIN stands for in its paths */
    struct fs_map map;
    dev_t device;
    ino_t inode;
    bool superseded; /* was missing, and was then loaded by path */
};

struct loaded_list {
    struct loaded **items;
    size_t count;
    size_t capacity;
};

struct ld {
    const struct fs *fs;
    struct arena *arena;
    struct ld_options options;
    bool started;
    struct ld_system system;
    struct loaded_list objects;
    struct map *by_name; /* every name asked for, and sonames -> struct loaded */
    struct map *dirs;    /* directory -> "y" or "n": is it there */
    const char *loader_path;
};

/* What a search came to. */
struct search {
    const char *path;
    const char *found_by;
    struct fs_map map;
    struct stat st;
    enum status status; /* ST_OK, ST_ABSENT, ST_FORMAT */
    struct err *err;
};

struct ld *ld_new(const struct fs *fs, struct arena *a, struct ld_options options)
{
    struct ld *ld = arena_alloc(a, sizeof *ld);
    *ld = (struct ld){
        .fs = fs, .arena = a, .options = options, .by_name = map_new(a), .dirs = map_new(a)};
    return ld;
}

void ld_free(struct ld *ld)
{
    for (size_t i = 0; ld != NULL && i < ld->objects.count; i++) {
        fs_unmap(&ld->objects.items[i]->map);
    }
}

static const struct loaded *loaded_of(const struct ld_object *object)
{
    return (const struct loaded *)object; /* its first member */
}

static const char *dir_of(struct arena *a, const char *path)
{
    struct str s = str_of(path);
    while (s.n > 1 && s.p[s.n - 1] != '/') {
        s.n--;
    }
    while (s.n > 1 && s.p[s.n - 1] == '/') {
        s.n--;
    }
    return str_dup(a, s);
}

static bool dir_exists(struct ld *ld, const char *dir)
{
    struct str key = str_of(dir);
    const char *known = map_get(ld->dirs, key);
    if (known == NULL) {
        known = fs_is_dir(ld->fs, ld->arena, dir) ? "y" : "n";
        map_put(ld->dirs, key, (void *)(uintptr_t)known);
    }
    return known[0] == 'y';
}

/* Length of the token at `s` ("$NAME" or "${NAME}"), 0 when it is another one. */
static size_t token_length(struct str s, const char *name)
{
    size_t n = strlen(name);
    if (str_starts(s, "${") && s.n >= n + 3 && memcmp(s.p + 2, name, n) == 0 && s.p[n + 2] == '}') {
        return n + 3;
    }
    if (s.n >= n + 1 && memcmp(s.p + 1, name, n) == 0) {
        char next = s.n > n + 1 ? s.p[n + 1] : '\0';
        bool goes_on = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') ||
                       (next >= '0' && next <= '9') || next == '_';
        return goes_on ? 0 : n + 1;
    }
    return 0;
}

/* One element of a path list with $ORIGIN, $LIB and $PLATFORM replaced. */
static const char *expand(struct ld *ld, struct str text, const char *origin)
{
    const struct {
        const char *name;
        const char *value;
    } tokens[] = {
        {"ORIGIN", origin != NULL ? origin : ""},
        {"LIB", ld->system.lib},
        {"PLATFORM", ld->system.platform},
    };
    struct strbuf out;
    strbuf_init(&out, ld->arena, MAX_EXPANDED);
    for (size_t i = 0; i < text.n;) {
        size_t n = 0;
        if (text.p[i] == '$') {
            for (size_t k = 0; k < ARRAY_LEN(tokens) && n == 0; k++) {
                n = token_length(str_slice(text, i, text.n), tokens[k].name);
                if (n != 0) {
                    strbuf_addz(&out, tokens[k].value);
                }
            }
        }
        if (n == 0) {
            strbuf_addc(&out, text.p[i]);
            n = 1;
        }
        i += n;
    }
    while (out.n > 1 && out.p[out.n - 1] == '/') {
        out.p[--out.n] = '\0';
    }
    return out.p;
}

/* Tries one file. True ends the search: taken, or in the way. Files of another class or machine
 * are passed over, as are unreadable ones; a file that is no ELF at all stops ld.so. */
static bool try_file(struct ld *ld, const char *path, const char *found_by, struct search *s)
{
    struct fs_map map;
    struct arena_mark mark = arena_mark(ld->arena);
    if (fs_map(ld->fs, ld->arena, path, &map, NULL) != ST_OK) {
        arena_rewind(ld->arena, mark);
        return false;
    }
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    s->path = path;
    s->found_by = found_by;
    if (bytes.n < MIN_ELF || !elf_is(bytes)) {
        s->status = err_set(s->err, ST_FORMAT, "'%s' is %s, and the search ends there", path,
                            bytes.n < MIN_ELF ? "too short for a library" : "not an ELF file");
        fs_unmap(&map);
        return true;
    }
    unsigned machine = (unsigned char)bytes.p[18] | (unsigned)(unsigned char)bytes.p[19] << 8;
    if (bytes.p[4] != 2 || bytes.p[5] != 1 || machine != ELF_MACHINE_X86_64) {
        fs_unmap(&map);
        return false;
    }
    if (fs_stat(ld->fs, ld->arena, path, &s->st, NULL) != ST_OK) {
        fs_unmap(&map);
        return false;
    }
    s->status = ST_OK;
    s->map = map;
    return true;
}

static bool try_dir(struct ld *ld, const char *dir, const char *name, const char *found_by,
                    struct search *s)
{
    if (!dir_exists(ld, dir)) {
        return false;
    }
    const char *slash = strcmp(dir, "/") == 0 ? "" : "/";
    for (size_t i = 0; i < ld->system.subfolder_count; i++) {
        const char *sub = arena_fmt(ld->arena, "%s%s%s", dir, slash, ld->system.subfolders[i]);
        if (dir_exists(ld, sub) &&
            try_file(ld, arena_fmt(ld->arena, "%s/%s", sub, name), found_by, s)) {
            return true;
        }
    }
    return try_file(ld, arena_fmt(ld->arena, "%s%s%s", dir, slash, name), found_by, s);
}

static bool try_list(struct ld *ld, const char *list, const char *separators, const char *origin,
                     const char *name, const char *found_by, struct search *s)
{
    struct str rest = str_of(list);
    while (rest.n != 0) {
        size_t n = 0;
        while (n < rest.n && strchr(separators, rest.p[n]) == NULL) {
            n++;
        }
        struct str part = str_slice(rest, 0, n);
        rest = str_slice(rest, n + (n < rest.n), rest.n);
        if (part.n == 0) {
            continue;
        }
        const char *dir = expand(ld, part, origin);
        if (dir[0] == '/' && try_dir(ld, dir, name, found_by, s)) {
            return true;
        }
    }
    return false;
}

static bool uses_rpath(const struct loaded *l)
{
    return l->object.state == LD_LOADED && l->object.elf.runpath == NULL &&
           l->object.elf.rpath != NULL;
}

/* RPATH of the requester, of who asked for it, and so on; then the program's. None of them counts
 * when the requester itself has a RUNPATH. */
static bool try_rpaths(struct ld *ld, const struct loaded *requester, const char *name,
                       struct search *s)
{
    const struct loaded *program = ld->objects.count != 0 ? ld->objects.items[0] : NULL;
    bool did_program = false;
    if (requester != NULL && requester->object.elf.runpath != NULL) {
        return false;
    }
    for (const struct loaded *l = requester; l != NULL; l = loaded_of(l->object.requester)) {
        did_program |= l == program;
        if (uses_rpath(l) && try_list(ld, l->object.elf.rpath, ":", l->origin, name,
                                      arena_fmt(ld->arena, "RPATH of %s", l->object.path), s)) {
            return true;
        }
    }
    return !did_program && program != NULL && uses_rpath(program) &&
           try_list(ld, program->object.elf.rpath, ":", program->origin, name,
                    arena_fmt(ld->arena, "RPATH of %s", program->object.path), s);
}

static bool in_system_dir(const struct ld *ld, const char *path)
{
    for (size_t i = 0; i < ld->system.dir_count; i++) {
        size_t n = strlen(ld->system.dirs[i]);
        if (strncmp(path, ld->system.dirs[i], n) == 0 && path[n] == '/') {
            return true;
        }
    }
    return false;
}

static bool try_system(struct ld *ld, const struct loaded *requester, const char *name,
                       struct search *s)
{
    bool no_default = requester != NULL && requester->object.elf.no_default_dirs;
    if (ld->system.has_cache) {
        const char *cached = ld_cache_lookup(&ld->system.cache, name, ld->system.levels,
                                             ld->system.level_count);
        if (cached != NULL && !(no_default && in_system_dir(ld, cached)) &&
            try_file(ld, cached, "ld.so.cache", s)) {
            return true;
        }
    }
    for (size_t i = 0; i < ld->system.conf_dir_count; i++) {
        if (try_dir(ld, ld->system.conf_dirs[i], name, "/etc/ld.so.conf", s)) {
            return true;
        }
    }
    for (size_t i = 0; i < ld->system.dir_count && !no_default; i++) {
        if (try_dir(ld, ld->system.dirs[i], name, "default directory", s)) {
            return true;
        }
    }
    return false;
}

/* The whole search of ld.so(8), for a name that is not loaded yet. */
static void find(struct ld *ld, const char *name, const struct loaded *requester, struct search *s)
{
    const struct loaded *program = ld->objects.count != 0 ? ld->objects.items[0] : NULL;
    const struct loaded *who = requester != NULL ? requester : program;
    if (strchr(name, '/') != NULL) {
        const char *path = expand(ld, str_of(name), who != NULL ? who->origin : NULL);
        if (try_file(ld, path, "path", s)) {
            return;
        }
        s->status = err_set(s->err, ST_ABSENT, "'%s' is not there or cannot be opened", path);
        return;
    }
    if (try_rpaths(ld, who, name, s) ||
        (ld->options.library_path != NULL &&
         try_list(ld, ld->options.library_path, ":;", program != NULL ? program->origin : NULL,
                  name, "LD_LIBRARY_PATH", s)) ||
        (who != NULL && who->object.elf.runpath != NULL &&
         try_list(ld, who->object.elf.runpath, ":", who->origin, name,
                  arena_fmt(ld->arena, "RUNPATH of %s", who->object.path), s)) ||
        try_system(ld, who, name, s)) {
        return;
    }
    s->status = err_set(s->err, ST_ABSENT, "'%s' is in none of the places ld.so looks into", name);
}

/* A name stays with the first object that was loaded under it. */
static void remember(struct ld *ld, const char *name, struct loaded *l)
{
    const struct loaded *before = name != NULL ? map_get(ld->by_name, str_of(name)) : NULL;
    if (name != NULL && (before == NULL || before->object.state != LD_LOADED)) {
        map_put(ld->by_name, str_of(name), l);
    }
}

/* ld.so forgets a failed search: the next who asks may have other paths. */
static struct loaded *known(const struct ld *ld, const char *name)
{
    struct loaded *l = map_get(ld->by_name, str_of(name));
    return l != NULL && l->object.state != LD_MISSING ? l : NULL;
}

static struct loaded *same_file(struct ld *ld, const struct stat *st)
{
    for (size_t i = 0; i < ld->objects.count; i++) {
        struct loaded *l = ld->objects.items[i];
        if (l->map.base != NULL && l->device == st->st_dev && l->inode == st->st_ino) {
            return l;
        }
    }
    return NULL;
}

/* Puts one object into the list, whatever came of the search. NULL when the list is full. */
static struct loaded *add_object(struct ld *ld, const char *name, const struct ld_object *requester)
{
    struct err err = {0};
    struct search s = {.err = &err};
    find(ld, name, loaded_of(requester), &s);
    struct loaded *l = s.status == ST_OK ? same_file(ld, &s.st) : NULL;
    if (l == NULL && s.status == ST_ABSENT) {
        l = map_get(ld->by_name, str_of(name)); /* missing once more: said already */
    }
    if (l != NULL || ld->objects.count >= MAX_OBJECTS) {
        fs_unmap(&s.map);
        if (l != NULL) {
            remember(ld, name, l);
        }
        return l;
    }
    l = arena_alloc(ld->arena, sizeof *l);
    l->object = (struct ld_object){.name = arena_strdup(ld->arena, name),
                                   .path = s.path,
                                   .found_by = s.found_by,
                                   .requester = requester};
    if (s.status == ST_OK) {
        l->map = s.map;
        l->device = s.st.st_dev;
        l->inode = s.st.st_ino;
        struct str bytes = {.p = (const char *)s.map.p, .n = s.map.n};
        s.status = elf_open(ld->arena, bytes, s.path, &l->object.elf, &err);
        l->origin = dir_of(ld->arena, s.path);
    }
    if (s.status != ST_OK) {
        l->object.state = s.status == ST_ABSENT ? LD_MISSING : LD_BROKEN;
        l->object.problem = arena_strdup(ld->arena, err.text);
    }
    *VEC_PUSH(ld->arena, &ld->objects) = l;
    remember(ld, name, l);
    remember(ld, l->object.elf.soname, l);
    return l;
}

static void load_needed(struct ld *ld, size_t from)
{
    for (size_t i = from; i < ld->objects.count; i++) {
        const struct ld_object *o = &ld->objects.items[i]->object;
        for (size_t k = 0; o->state == LD_LOADED && k < o->elf.needed_count; k++) {
            if (known(ld, o->elf.needed[k]) == NULL) {
                (void)add_object(ld, o->elf.needed[k], o);
            }
        }
    }
}

static void load_preloads(struct ld *ld, const char *list)
{
    struct str rest = str_of(list);
    while (rest.n != 0) {
        size_t n = 0;
        while (n < rest.n && strchr(": \t\n", rest.p[n]) == NULL) {
            n++;
        }
        if (n != 0) {
            struct loaded *l = add_object(ld, str_dup(ld->arena, str_slice(rest, 0, n)), NULL);
            if (l != NULL && l != ld->objects.items[0] && l->object.found_by != NULL) {
                l->object.found_by = "LD_PRELOAD or /etc/ld.so.preload";
            }
        }
        rest = str_slice(rest, n + (n < rest.n), rest.n);
    }
}

/* The first object is the program: its interpreter decides the directories, and its own path is
 * the one behind links, because the kernel resolves those before ld.so sees it. */
static struct loaded *start(struct ld *ld, const char *name)
{
    struct fs_map map;
    struct elf elf = {0};
    ld->started = true;
    if (fs_map(ld->fs, ld->arena, name, &map, NULL) == ST_OK) {
        struct str bytes = {.p = (const char *)map.p, .n = map.n};
        if (elf_open(ld->arena, bytes, name, &elf, NULL) != ST_OK) {
            elf.interpreter = NULL;
        }
        fs_unmap(&map);
    }
    ld_system_read(ld->fs, ld->arena, elf.interpreter, &ld->system);
    const char *real = name;
    if (elf.interpreter == NULL || fs_realpath(ld->fs, ld->arena, name, &real, NULL) != ST_OK) {
        real = name;
    }
    struct loaded *program = add_object(ld, name, NULL);
    if (program != NULL && program->object.state == LD_LOADED) {
        program->origin = dir_of(ld->arena, real);
    }
    /* ld.so itself is in every process, under its own names. */
    const char *loader = ld->system.loader;
    if (loader != NULL && program != NULL && program->object.state == LD_LOADED) {
        struct loaded *l = add_object(ld, loader, NULL);
        if (l != NULL && l != program) {
            l->object.found_by = "interpreter";
            remember(ld, strrchr(loader, '/') + 1, l);
        }
    }
    if (ld->options.preload != NULL) {
        load_preloads(ld, ld->options.preload);
    }
    struct str file;
    if (fs_read(ld->fs, ld->arena, "/etc/ld.so.preload", 65536, &file, NULL) == ST_OK) {
        load_preloads(ld, str_dup(ld->arena, file));
    }
    load_needed(ld, 0);
    return program;
}

/* What was missing by this object's soname is there now, as for PyTorch, which opens NVIDIA's
 * libraries by path after its own first attempt failed. */
static void supersede(struct ld *ld, const struct loaded *l)
{
    if (l == NULL || l->object.state != LD_LOADED || l->object.elf.soname == NULL) {
        return;
    }
    for (size_t i = 0; i < ld->objects.count; i++) {
        struct loaded *m = ld->objects.items[i];
        m->superseded |= m->object.state == LD_MISSING &&
                         strcmp(m->object.name, l->object.elf.soname) == 0;
    }
}

const struct ld_object *ld_load(struct ld *ld, const char *name, const struct ld_object *requester)
{
    if (!ld->started) {
        return &start(ld, name)->object;
    }
    struct loaded *l = known(ld, name);
    if (l == NULL) {
        size_t from = ld->objects.count;
        l = add_object(ld, name, requester);
        supersede(ld, l);
        load_needed(ld, from);
    }
    return l != NULL ? &l->object : NULL;
}

enum status ld_resolve(struct ld *ld, const char *name, const struct ld_object *requester,
                       const char **ret_path, const char **ret_found_by, struct err *err)
{
    if (!ld->started) {
        ld_system_read(ld->fs, ld->arena, NULL, &ld->system);
        ld->started = true;
    }
    const struct loaded *l = map_get(ld->by_name, str_of(name));
    if (l != NULL && l->object.state == LD_LOADED) {
        *ret_path = l->object.path;
        *ret_found_by = l->object.found_by;
        return ST_OK;
    }
    struct search s = {.err = err};
    find(ld, name, loaded_of(requester), &s);
    fs_unmap(&s.map);
    if (s.status != ST_ABSENT) {
        *ret_path = s.path;
        *ret_found_by = s.found_by;
    }
    return s.status;
}

const struct ld_object *const *ld_objects(const struct ld *ld, size_t *ret_count)
{
    const struct ld_object **view = arena_array(ld->arena, ld->objects.count, sizeof *view);
    size_t n = 0;
    for (size_t i = 0; i < ld->objects.count; i++) {
        if (!ld->objects.items[i]->superseded) {
            view[n++] = &ld->objects.items[i]->object;
        }
    }
    *ret_count = n;
    return view;
}

const struct ld_object *ld_find(const struct ld *ld, const char *name)
{
    const struct loaded *l = map_get(ld->by_name, str_of(name));
    return l != NULL ? &l->object : NULL;
}

bool ld_is_needed_by(const struct ld *ld, const struct ld_object *object,
                     const struct ld_object *root)
{
    struct map *seen = map_new(ld->arena);
    VEC_OF(const struct ld_object *) queue = {0};
    *VEC_PUSH(ld->arena, &queue) = root;
    for (size_t i = 0; i < queue.count; i++) {
        const struct ld_object *o = queue.items[i];
        if (o == object) {
            return true;
        }
        for (size_t k = 0; o->state == LD_LOADED && k < o->elf.needed_count; k++) {
            struct str name = str_of(o->elf.needed[k]);
            const struct loaded *l = map_get(ld->by_name, name);
            if (l != NULL && map_get(seen, name) == NULL) {
                map_put(seen, name, (void *)(uintptr_t)l);
                *VEC_PUSH(ld->arena, &queue) = &l->object;
            }
        }
    }
    return false;
}

struct ld *ld_closure(const struct fs *fs, struct arena *a, const char *path,
                      struct ld_options options)
{
    struct ld *ld = ld_new(fs, a, options);
    (void)ld_load(ld, path, NULL);
    return ld;
}
