// SPDX-License-Identifier: Apache-2.0
/* Finding and opening the files of a checkpoint. */
#include "model/checkpoint.h"

#include <string.h>

#include "base/fs.h"

#include "model/dcp.h"
#include "model/zip.h"

static const struct fs live = {.prefix = ""};

static const char *const model_suffixes[] = {".safetensors", ".gguf", ".bin",
                                             ".pt",          ".pth",  ".ckpt"};

/* What writers call files that they have not finished. */
static const char *const torch_suffixes[] = {".bin", ".pt", ".pth", ".ckpt"};

static const char *const partial_suffixes[] = {".part",  ".incomplete", ".crdownload",
                                               ".aria2", ".partial",    ".tmp"};

/* Folders above the one that is visited: a link to one of them would be followed for ever. */
struct above {
    const struct above *up;
    dev_t device;
    ino_t inode;
};

static bool ends_with_any(const char *name, const char *const *suffixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_ends(str_of(name), suffixes[i])) {
            return true;
        }
    }
    return false;
}

static bool starts_folded(struct str s, const char *start)
{
    size_t n = strlen(start);
    return s.n >= n && strncasecmp(s.p, start, n) == 0;
}

/* Text under a name whose format begins with a number or with "GGUF": a server's answer, or a pointer. */
static bool is_text(const char *name, struct str head)
{
    if (!str_ends(str_of(name), ".safetensors") && !str_ends(str_of(name), ".gguf")) {
        return false;
    }
    for (size_t i = 0; i < head.n; i++) {
        unsigned char c = (unsigned char)head.p[i];
        if (c == 0x7F || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) {
            return false;
        }
    }
    return head.n >= 8;
}

const char *checkpoint_foreign(struct str head)
{
    static const struct {
        const char *start;
        const char *what;
    } rows[] = {
        {"version https://git-lfs", "a git-LFS pointer"},
        {"# xet version", "a Xet pointer"},
        {"<?xml", "an XML page"},
        {"{\"error\"", "an error message"},
        {"Entry not found", "an error message"},
        {"\x1f\x8b", "gzip data"},
        {"(\xb5/\xfd", "zstd data"},
        {"\x7f"
         "ELF",
         "a program or library"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_starts(head, rows[i].start)) {
            return rows[i].what;
        }
    }
    struct str page = str_trim(str_slice(head, 0, head.n < 256 ? head.n : 256));
    if (starts_folded(page, "<!doctype") || starts_folded(page, "<html")) {
        return "an HTML page";
    }
    size_t zeros = 0;
    while (zeros < head.n && head.p[zeros] == '\0') {
        zeros++;
    }
    return head.n == 0 ? "an empty file" : zeros == head.n ? "a block of zeros" : NULL;
}

/* The first bytes of a file; empty when it cannot be opened. */
static struct str head_of(struct arena *a, const char *path, uint64_t *ret_size, bool *ret_opened)
{
    struct file_map map;
    struct str head = {.p = "", .n = 0};
    *ret_size = 0;
    *ret_opened = file_map_open(path, &map, NULL) == ST_OK;
    if (!*ret_opened) {
        return head;
    }
    *ret_size = map.n;
    uint64_t n = map.n < 4096 ? map.n : 4096;
    if (file_map_populate(&map, 0, n, NULL) == ST_OK) {
        head = (struct str){.p = arena_copy(a, map.p, (size_t)n), .n = (size_t)n};
    }
    file_map_close(&map);
    return head;
}

/* Says what the file is instead; `what` as in checkpoint_foreign(). */
static void add_foreign(struct checkpoint *c, struct checkpoint_file *f, const char *what,
                        struct str head)
{
    f->format = what;
    if (f->size == 0) {
        issue_add(c->issues, SEVERITY_ERROR, "folder-empty-file", "a model file is empty",
                  "It has 0 bytes: the disk was full, or a save or a download stopped.");
        issue_remedy(c->issues, "Save or fetch the file again.");
        return;
    }
    struct str line = head;
    (void)str_cut_line(&head, &line);
    issue_add(c->issues, SEVERITY_ERROR, "not-the-weights", "the file is not what its name says",
              "It is %s of %llu bytes, not a model file%s%s%s.", what, (unsigned long long)f->size,
              strcmp(what, "text") == 0 ? ": \"" : "",
              strcmp(what, "text") == 0 ? issue_text(c->arena, line) : "",
              strcmp(what, "text") == 0 ? "\"" : "");
    issue_remedy(c->issues, "Fetch the file itself ('git lfs pull', or download it again).");
}

/* Many programs call their data .bin; of these names it can only be torch's. */
static bool is_any_bin(const char *path)
{
    static const char *const torch[] = {"pytorch_model", "diffusion_pytorch_model",
                                        "adapter_model", "optimizer",
                                        "scheduler",     "training_args"};
    const char *slash = strrchr(path, '/');
    struct str base = str_of(slash != NULL ? slash + 1 : path);
    for (size_t i = 0; i < ARRAY_LEN(torch); i++) {
        if (str_starts(base, torch[i])) {
            return false;
        }
    }
    return str_ends(base, ".bin");
}

static void add_unreadable(struct checkpoint *c, struct checkpoint_file *f, enum status status,
                           const struct err *err)
{
    bool denied = status == ST_DENIED || status == ST_IO;
    bool foreign = status == ST_UNSUPPORTED && is_any_bin(f->path);
    f->format = "unreadable";
    issue_add(c->issues, denied || foreign ? SEVERITY_UNKNOWN : SEVERITY_ERROR, "file-unreadable",
              "a model file cannot be read", "%s.", err->text);
}

/* What the first bytes are, when the name says another format. */
static const char *other_format(const char *name, struct str head)
{
    if (str_ends(str_of(name), ".safetensors")) {
        bool header = head.n > 8 && head.p[8] == '{';
        bool pickle = head.n > 8 && head.p[0] == '\x80' && head.p[1] >= 2 && head.p[1] <= 5;
        return zip_looks_like(head)       ? "a ZIP archive, as torch.save writes it"
               : str_starts(head, "GGUF") ? "a GGUF file"
               : pickle && !header        ? "a pickle, as torch.save wrote before 1.6"
                                          : NULL;
    }
    bool torch = ends_with_any(name, torch_suffixes, ARRAY_LEN(torch_suffixes));
    return torch && head.n > 9 && head.p[8] == '{' && head.p[9] == '"' && head.p[7] == 0
               ? "a safetensors file"
               : NULL;
}

static void add_other_format(struct checkpoint *c, const char *what)
{
    issue_add(c->issues, SEVERITY_ERROR, "file-other-format",
              "the file is of another format than its name says",
              "It is %s: what loads it goes by the name, and refuses it.", what);
    issue_remedy(c->issues, "Give the file the ending of its format.");
}

static bool said_since(const struct issues *issues, size_t count)
{
    for (size_t i = count; i < issues->list.count; i++) {
        if (issues->list.items[i].severity == SEVERITY_ERROR ||
            issues->list.items[i].severity == SEVERITY_UNKNOWN) {
            return true;
        }
    }
    return false;
}

static void add_file(struct checkpoint *c, const char *path, const char *name)
{
    if (c->files.count == CHECKPOINT_FILES) {
        return;
    }
    struct err err = {0};
    struct checkpoint_file f = {.path = path, .name = name};
    c->issues->file = path;
    bool opened;
    struct str head = head_of(c->arena, path, &f.size, &opened);
    const char *what = opened ? checkpoint_foreign(head) : NULL;
    what = what == NULL && is_text(name, head) ? "text" : what;
    const char *other = what == NULL ? other_format(name, head) : NULL;
    if (other != NULL) {
        add_other_format(c, other);
        other = str_ends(str_of(name), ".safetensors") ? other : NULL; /* no reader of its name */
    }
    if (what != NULL) {
        add_foreign(c, &f, what, head);
    } else if (other != NULL) {
        f.format = "another format";
    } else {
        size_t said = c->issues->list.count;
        enum status status = tensor_file_open(c->arena, path, c->issues, &f.tensors, &err);
        if (status == ST_OK) {
            f.size = f.tensors->map.n;
            f.format = f.tensors->format->name;
        } else {
            f.tensors = NULL;
            f.format = "unreadable";
            if (!said_since(c->issues, said)) { /* else the reader has said it better */
                add_unreadable(c, &f, status, &err);
            }
        }
    }
    c->issues->file = c->path;
    *VEC_PUSH(c->arena, &c->files) = f;
}

/* ".model.safetensors.aB3xYz", as rsync calls what it has not finished. */
static bool is_rsync(const char *name)
{
    struct str s = str_of(name);
    size_t slash = s.n;
    while (slash > 0 && s.p[slash - 1] != '/') {
        slash--;
    }
    s = str_slice(s, slash, s.n);
    if (s.n < 9 || s.p[0] != '.' || s.p[s.n - 7] != '.') {
        return false;
    }
    for (size_t i = s.n - 6; i < s.n; i++) {
        char ch = s.p[i];
        if (!(ch >= '0' && ch <= '9') && !(ch >= 'a' && ch <= 'z') && !(ch >= 'A' && ch <= 'Z')) {
            return false;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(model_suffixes); i++) {
        if (str_ends(str_slice(s, 0, s.n - 7), model_suffixes[i])) {
            return true;
        }
    }
    return false;
}

/* "._model.safetensors": attributes that macOS lays beside a file on foreign disks and in archives. */
static bool is_apple_double(struct checkpoint *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    uint64_t size;
    bool opened;
    if (!str_starts(str_of(slash != NULL ? slash + 1 : path), "._")) {
        return false;
    }
    struct str head = head_of(c->arena, path, &size, &opened);
    return head.n >= 4 && memcmp(head.p, "\0\5\26\7", 4) == 0;
}

/* "model (1).safetensors", "model - Copy.safetensors": another copy, by a browser or a desktop. */
static void check_copy(struct checkpoint *c, const char *path, const char *name)
{
    const char *dot = strrchr(name, '.');
    struct str stem = str_slice(str_of(name), 0, (size_t)(dot - name));
    bool numbered = stem.n > 4 && stem.p[stem.n - 1] == ')' && stem.p[stem.n - 3] == '(' &&
                    stem.p[stem.n - 4] == ' ' && stem.p[stem.n - 2] >= '1' &&
                    stem.p[stem.n - 2] <= '9';
    if (!numbered && !str_ends(stem, " - Copy") && !str_ends(stem, " copy")) {
        return;
    }
    c->issues->file = path;
    issue_add(c->issues, SEVERITY_WARNING, "file-copy", "a second copy of a model file",
              "\"%s\" carries the name that a browser or a desktop gives to a copy: a loader that "
              "takes every file reads it too, others the first one.",
              issue_text(c->arena, str_of(name)));
    c->issues->file = c->path;
}

static void add_partial(struct checkpoint *c, const char *path, const char *name)
{
    c->issues->file = path;
    issue_add(c->issues, SEVERITY_WARNING, "folder-half-written", "a file was not finished",
              "\"%s\" carries the name of a file still being written: a save or a download stopped "
              "here.",
              issue_text(c->arena, str_of(name)));
    c->issues->file = c->path;
}

/* A link into a cache whose blobs were removed, or that leads in a circle. */
static void add_broken_link(struct checkpoint *c, const char *path, const char *name,
                            const struct err *err)
{
    c->issues->file = path;
    issue_add(c->issues, SEVERITY_ERROR, "link-broken", "a model file is a link that leads nowhere",
              "%s: the file it stands for was moved, removed or never downloaded.", err->text);
    issue_remedy(
        c->issues,
        "Download the model again, or copy the folder with the files that its links lead to.");
    c->issues->file = c->path;
    *VEC_PUSH(c->arena, &c->files) = (struct checkpoint_file){
        .path = path, .name = name, .format = "a broken link"};
}

static bool is_above(const struct above *up, const struct stat *st)
{
    for (; up != NULL; up = up->up) {
        if (up->device == st->st_dev && up->inode == st->st_ino) {
            return true;
        }
    }
    return false;
}

static enum status visit(struct checkpoint *c, const char *folder, const char *prefix,
                         unsigned depth, const struct above *up, struct err *err);

static void visit_entry(struct checkpoint *c, const char *path, const char *name, unsigned depth,
                        const struct above *up)
{
    struct stat st;
    struct err err = {0};
    enum status status = fs_stat(&live, c->arena, path, &st, &err);
    bool model = ends_with_any(name, model_suffixes, ARRAY_LEN(model_suffixes));
    if (status == ST_OK && S_ISDIR(st.st_mode)) {
        const char *slash = strrchr(path, '/');
        bool hidden = slash != NULL && slash[1] == '.';
        if (!hidden && depth < CHECKPOINT_DEPTH && !is_above(up, &st)) {
            (void)!visit(c, path, arena_fmt(c->arena, "%s/", name), depth + 1, up, &err);
        }
    } else if (ends_with_any(name, partial_suffixes, ARRAY_LEN(partial_suffixes)) ||
               is_rsync(name)) {
        add_partial(c, path, name);
    } else if (model && status != ST_OK && status != ST_DENIED) {
        add_broken_link(c, path, name, &err);
    } else if (model && !is_apple_double(c, path)) {
        check_copy(c, path, name);
        add_file(c, path, name);
    }
}

/* A rank's file of a distributed save. That it is empty, or none, is for the check of the folder to say. */
static void add_distributed(struct checkpoint *c, const char *path, const char *name)
{
    struct stat st;
    if (fs_stat(&live, c->arena, path, &st, NULL) == ST_OK && S_ISREG(st.st_mode) &&
        st.st_size > 0) {
        add_file(c, path, name);
    }
}

/* One folder; sub-folders are appended and visited in turn. */
static enum status visit(struct checkpoint *c, const char *folder, const char *prefix,
                         unsigned depth, const struct above *up, struct err *err)
{
    const char *const *names;
    size_t count;
    struct stat st;
    TRY(fs_stat(&live, c->arena, folder, &st, err));
    TRY(fs_list(&live, c->arena, folder, &names, &count, err));
    struct above here = {.up = up, .device = st.st_dev, .inode = st.st_ino};
    *VEC_PUSH(c->arena, &c->folders) = folder;
    bool distributed = dcp_is_folder(folder);
    for (size_t i = 0; i < count; i++) {
        const char *path = arena_fmt(c->arena, "%s/%s", folder, names[i]);
        const char *name = arena_fmt(c->arena, "%s%s", prefix, names[i]);
        if (distributed && str_ends(str_of(name), ".distcp")) {
            add_distributed(c, path, name);
        } else {
            visit_entry(c, path, name, depth, &here);
        }
    }
    return ST_OK;
}

enum status checkpoint_open(struct arena *a, const char *path, struct issues *issues,
                            struct checkpoint *ret_checkpoint, struct err *err)
{
    struct checkpoint c = {.arena = a, .path = path, .issues = issues};
    struct stat st;
    TRY(fs_stat(&live, a, path, &st, err));
    c.is_folder = S_ISDIR(st.st_mode);
    if (c.is_folder) {
        TRY(visit(&c, path, "", 0, NULL, err));
    } else {
        const char *slash = strrchr(path, '/');
        add_file(&c, path, slash != NULL ? slash + 1 : path);
    }
    *ret_checkpoint = c;
    return ST_OK;
}

void checkpoint_close(struct checkpoint *c)
{
    for (size_t i = 0; i < c->files.count; i++) {
        tensor_file_close(c->files.items[i].tensors);
    }
}
