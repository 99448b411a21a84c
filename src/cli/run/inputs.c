// SPDX-License-Identifier: Apache-2.0
/* See run_inputs.h. Nothing is guessed: a name that is neither a file, a data set of a
 * dataset_info.json nor in the hub's cache is written down with the reason why it proves nothing. */
#include "cli/run/inputs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/digest.h"
#include "base/file_map.h"
#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "study/setup.h"

enum {
    CONFIG_MAX = 1 << 20,
    WHOLE_MAX = 256 << 20,
    SAMPLE = 1 << 20,
    SAMPLES = 64,
    FILES_MAX = 4096,
    DEPTH_MAX = 6
};

struct inputs {
    struct arena *arena;
    struct run_inputs_kept *kept;
    size_t files;
};

static const struct fs live = {.prefix = ""};

static bool is_config(const char *name)
{
    struct str s = str_of(name);
    return str_ends(s, ".yaml") || str_ends(s, ".yml") || str_ends(s, ".json") ||
           str_ends(s, ".toml");
}

static bool is_file(const char *path, off_t *ret_size)
{
    struct stat st;
    bool fine = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    *ret_size = fine ? st.st_size : 0;
    return fine;
}

/* ---- digests ---- */

/* Of the text that lists the digests of the samples: one digest for all of them and the size. */
static enum status digest_samples(struct arena *a, const struct file_map *map,
                                  struct digest *ret_digest, struct err *err)
{
    struct strbuf all;
    strbuf_init(&all, a, 65536);
    strbuf_fmt(&all, "%llu\n", (unsigned long long)map->n);
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct digest one;
        uint64_t from = (map->n - SAMPLE) / (SAMPLES - 1) * i;
        TRY(digest_map(DIGEST_SHA256, map, from, SAMPLE, NULL, NULL, &one, err));
        strbuf_fmt(&all, "%s\n", one.hex);
    }
    struct file_map list = file_map_of_bytes("samples", strbuf_str(&all));
    return digest_map(DIGEST_SHA256, &list, 0, list.n, NULL, NULL, ret_digest, err);
}

static enum status digest_file(struct arena *a, const char *path, struct digest *ret_digest,
                               const char **ret_method, struct err *err)
{
    struct file_map map = {0};
    TRY(file_map_open(path, &map, err));
    bool whole = map.n <= WHOLE_MAX;
    enum status status = whole ? digest_map(DIGEST_SHA256, &map, 0, map.n, NULL, NULL, ret_digest,
                                            err)
                               : digest_samples(a, &map, ret_digest, err);
    *ret_method = whole ? "sha256" : "sha256 of size and 64 samples";
    file_map_close(&map);
    return status;
}

static void keep_reason(struct inputs *in, const char *role, const char *name, const char *reason)
{
    *VEC_PUSH(in->arena, &in->kept->inputs) = (struct run_input){
        .role = role, .name = name, .reason = arena_strdup(in->arena, reason)};
}

static void keep_digest(struct inputs *in, const char *role, const char *name, const char *digest,
                        const char *method)
{
    *VEC_PUSH(in->arena, &in->kept->inputs) = (struct run_input){
        .role = role, .name = name, .digest = arena_strdup(in->arena, digest), .method = method};
}

static void keep_file(struct inputs *in, const char *role, const char *name, const char *path)
{
    struct err err = {0};
    struct digest digest;
    const char *method;
    if (in->files++ == FILES_MAX) {
        keep_reason(in, role, name, "more than 4096 files: the rest is not digested");
    }
    if (in->files > FILES_MAX) {
        return;
    }
    if (digest_file(in->arena, path, &digest, &method, &err) != ST_OK) {
        keep_reason(in, role, name, err.text);
        return;
    }
    keep_digest(in, role, name, digest.hex, method);
}

static void keep_folder(struct inputs *in, const char *role, const char *name, const char *path,
                        int depth)
{
    struct err err = {0};
    const char *const *names = NULL;
    size_t count = 0;
    if (depth > DEPTH_MAX || fs_list(&live, in->arena, path, &names, &count, &err) != ST_OK) {
        keep_reason(in, role, name, depth > DEPTH_MAX ? "folders nested too deep" : err.text);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        off_t size;
        const char *below = arena_fmt(in->arena, "%s/%s", path, names[i]);
        const char *inside = name[0] != '\0' ? arena_fmt(in->arena, "%s/%s", name, names[i])
                                             : names[i];
        if (names[i][0] == '.') {
            continue; /* caches and version control */
        }
        if (is_file(below, &size)) {
            keep_file(in, role, inside, below);
        } else if (fs_is_dir(&live, in->arena, below)) {
            keep_folder(in, role, inside, below, depth + 1);
        }
    }
}

/* ---- names ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The revision that the hub's cache holds as `main`: commits are content-addressed. */
static const char *hub_revision(struct arena *a, const char *kind, const char *name)
{
    const char *hub = getenv("HF_HUB_CACHE");
    if (hub == NULL) {
        const char *home = getenv("HF_HOME");
        const char *user = getenv("HOME");
        hub = home != NULL ? arena_fmt(a, "%s/hub", home)
                           : arena_fmt(a, "%s/.cache/huggingface/hub", user != NULL ? user : "");
    }
    struct strbuf folder;
    strbuf_init(&folder, a, PATH_MAX);
    strbuf_fmt(&folder, "%s/%s--", hub, kind);
    for (const char *p = name; *p != '\0'; p++) {
        strbuf_addz(&folder, *p == '/' ? "--" : (char[]){*p, '\0'});
    }
    strbuf_addz(&folder, "/refs/main");
    struct str text;
    if (fs_read_trimmed(&live, a, folder.p, &text, NULL) != ST_OK || text.n != 40) {
        return NULL;
    }
    return str_dup(a, text);
}

/* A data set that LLaMA-Factory's dataset_info.json names. */
static bool keep_listed(struct inputs *in, const char *role, const char *folder, const char *name)
{
    struct arena *a = in->arena;
    struct str text;
    const struct tree *info;
    const char *path = arena_fmt(a, "%s/dataset_info.json", folder);
    if (fs_read(&live, a, path, 64 << 20, &text, NULL) != ST_OK ||
        tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &info, NULL) != ST_OK) {
        return false;
    }
    const char *file = tree_text(tree_get(info, name), "file_name", NULL);
    if (file == NULL) {
        return false;
    }
    const char *full = arena_fmt(a, "%s/%s", folder, file);
    if (fs_is_dir(&live, a, full)) {
        keep_folder(in, role, file, full, 0);
    } else {
        keep_file(in, role, file, full);
    }
    return true;
}

static void keep_named(struct inputs *in, const struct setup *s, const char *role,
                       const char *value)
{
    struct arena *a = in->arena;
    off_t size;
    char full[PATH_MAX];
    if (realpath(value, full) != NULL && is_file(full, &size)) {
        keep_file(in, role, base_name(value), arena_strdup(a, full));
        return;
    }
    if (realpath(value, full) != NULL && fs_is_dir(&live, a, full)) {
        keep_folder(in, role, "", arena_strdup(a, full), 0);
        return;
    }
    const char *folder = "data";
    for (size_t i = 0; i < s->count; i++) {
        folder = strcmp(s->items[i].name, "data folder") == 0 ? s->items[i].value : folder;
    }
    bool data = strstr(role, "data") != NULL;
    if (data && keep_listed(in, role, folder, value)) {
        return;
    }
    const char *revision = hub_revision(a, data ? "datasets" : "models", value);
    if (revision != NULL) {
        keep_digest(in, role, value, revision, "hub revision");
        return;
    }
    keep_reason(in, role, value,
                "it is no local file or folder, and the hub's cache holds no revision of it");
}

/* ---- the whole ---- */

static void keep_configs(struct inputs *in, const struct text_list *command, struct setup *s)
{
    struct arena *a = in->arena;
    for (size_t i = 1; i < command->count; i++) {
        const char *name = command->items[i];
        off_t size;
        char full[PATH_MAX];
        struct str text;
        if (!is_config(name) || !is_file(name, &size) || size > CONFIG_MAX ||
            realpath(name, full) == NULL ||
            fs_read(&live, a, full, CONFIG_MAX, &text, NULL) != ST_OK) {
            continue;
        }
        *VEC_PUSH(a, &in->kept->configs) = (struct run_config_text){.name = name, .text = text.p};
        /* What is no YAML or JSON is kept as text; the program itself will say what is wrong with it. */
        bool tree = !str_ends(str_of(name), ".toml");
        if (tree && setup_add_config(a, s, text, name, NULL) != ST_OK) {
            keep_reason(in, "configuration", base_name(name), "it cannot be read as YAML or JSON");
        }
    }
}

static bool is_elf(struct arena *a, const char *path)
{
    struct fs_map map;
    if (fs_map(&live, a, path, &map, NULL) != ST_OK) {
        return false;
    }
    bool elf = map.n >= 4 && memcmp(map.p, "\177ELF", 4) == 0;
    fs_unmap(&map);
    return elf;
}

void run_inputs_take(struct arena *a, const struct text_list *command,
                     struct run_inputs_kept *ret_kept)
{
    struct setup s = {0};
    *ret_kept = (struct run_inputs_kept){0};
    struct inputs in = {.arena = a, .kept = ret_kept};
    keep_configs(&in, command, &s);
    setup_add_command(a, &s, command);
    for (size_t i = 0; i < command->count; i++) {
        const char *name = command->items[i];
        off_t size;
        bool option_value = i > 0 && str_starts(str_of(command->items[i - 1]), "--");
        if (!option_value && !(i > 0 && is_config(name)) && is_file(name, &size) &&
            !is_elf(a, name)) {
            keep_file(&in, "command line", base_name(name), name);
        }
    }
    for (size_t i = 0; i < s.count; i++) {
        struct str rest = str_of(s.items[i].value);
        struct str one;
        bool named = (s.items[i].bits & SETUP_INPUT) != 0 &&
                     strcmp(s.items[i].name, "data folder") != 0;
        while (named && str_cut(&rest, ',', &one)) {
            if (str_trim(one).n != 0) {
                keep_named(&in, &s, s.items[i].name, str_dup(a, str_trim(one)));
            }
        }
    }
}

void run_inputs_add_opened(struct arena *a, const struct text_list *opened, uint64_t start_ns,
                           struct run_inputs_kept *kept)
{
    struct inputs in = {.arena = a, .kept = kept};
    for (size_t i = 0; i < opened->count; i++) {
        struct stat st;
        const char *path = opened->items[i];
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec < start_ns) {
            keep_file(&in, INPUT_OPENED, path, path);
        }
    }
}

void run_inputs_write(const struct run_inputs_kept *kept, struct json_out *j)
{
    json_key(j, "configuration");
    json_object(j);
    for (size_t i = 0; i < kept->configs.count; i++) {
        json_field(j, kept->configs.items[i].name, kept->configs.items[i].text);
    }
    json_object_end(j);
    json_key(j, "inputs");
    json_list(j);
    for (size_t i = 0; i < kept->inputs.count; i++) {
        const struct run_input *in = &kept->inputs.items[i];
        json_object(j);
        json_field(j, "role", in->role);
        json_field(j, "name", in->name);
        json_field(j, "digest", in->digest);
        json_field(j, "method", in->digest != NULL ? in->method : NULL);
        json_field(j, "reason", in->reason);
        json_object_end(j);
    }
    json_list_end(j);
}
