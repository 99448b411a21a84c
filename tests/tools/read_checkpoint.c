// SPDX-License-Identifier: Apache-2.0
/*
 * What the readers of model files say about files and folders: one line each, "PATH accepted" or
 * "PATH rejected ID", ID being that of the first error or warning. -v lists all findings.
 * Structure and checksums only; values are not looked at.
 */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

#include "model/checkpoint.h"
#include "model/folder.h"

static const char *first_wrong(const struct issues *issues, bool failed)
{
    for (size_t i = 0; i < issues->list.count; i++) {
        enum severity s = issues->list.items[i].severity;
        if (s == SEVERITY_ERROR || s == SEVERITY_WARNING || s == SEVERITY_UNKNOWN) {
            return issues->list.items[i].id;
        }
    }
    return failed ? "unreadable" : NULL;
}

static bool read_file(struct arena *a, const char *path, struct issues *issues, struct err *err)
{
    struct tensor_file *f;
    if (tensor_file_open(a, path, issues, &f, err) != ST_OK) {
        return false;
    }
    tensor_file_check_sums(f, issues);
    bool whole = true;
    for (size_t i = 0; i < f->count; i++) {
        whole = whole && f->tensors[i].present;
    }
    tensor_file_close(f);
    return whole;
}

static bool is_model_file(const char *name)
{
    static const char *const ends[] = {".pt",     ".pth",      ".bin",         ".pkl",
                                       ".distcp", ".metadata", ".safetensors", ".gguf"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (str_ends(str_of(name), ends[i])) {
            return true;
        }
    }
    return false;
}

static bool read_folder(struct arena *a, const char *path, struct issues *issues, struct err *err,
                        int depth)
{
    static const struct fs live = {.prefix = ""};
    struct text_list kinds = {0};
    struct folder f;
    bool fine = folder_check(a, path, issues, &kinds, err) == ST_OK &&
                folder_open(a, path, issues, &f, err);
    for (size_t i = 0; fine && i < f.count; i++) {
        const char *name = folder_join(&f, f.names[i]);
        if (fs_is_dir(&live, a, name)) {
            fine = depth < 4 && read_folder(a, name, issues, err, depth + 1);
        } else if (is_model_file(name)) {
            fine = read_file(a, name, issues, err);
        }
    }
    return fine;
}

/* Names of unfinished files, empty files, links: what opening the whole folder says. */
static bool open_all(struct arena *a, const char *path, struct issues *issues, struct err *err)
{
    struct checkpoint c;
    if (checkpoint_open(a, path, issues, &c, err) != ST_OK) {
        return false;
    }
    checkpoint_close(&c);
    return true;
}

int main(int argc, char **argv)
{
    static const struct fs live = {.prefix = ""};
    bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    int status = 0;
    for (int i = 1 + verbose; i < argc; i++) {
        struct arena *a = arena_new(0);
        struct issues issues;
        struct err err = {0};
        issues_init(&issues, a, argv[i]);
        bool fine = fs_is_dir(&live, a, argv[i]) ? read_folder(a, argv[i], &issues, &err, 0) &&
                                                       open_all(a, argv[i], &issues, &err)
                                                 : read_file(a, argv[i], &issues, &err);
        const char *wrong = first_wrong(&issues, !fine);
        printf("%s %s%s%s\n", argv[i], wrong == NULL ? "accepted" : "rejected",
               wrong == NULL ? "" : " ", wrong == NULL ? "" : wrong);
        for (size_t k = 0; verbose && k < issues.list.count; k++) {
            const struct finding *one = &issues.list.items[k];
            printf("  %s %s: %s\n", severity_name(one->severity), one->id, one->claim);
        }
        if (verbose && err.text[0] != '\0') {
            printf("  %s\n", err.text);
        }
        status |= wrong != NULL;
        arena_free(a);
    }
    return status;
}
