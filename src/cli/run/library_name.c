// SPDX-License-Identifier: Apache-2.0
/* See library_name.h. */
#include "cli/run/library_name.h"

#include <string.h>

#include "base/str.h"
#include "base/vec.h"

enum {
    BUILD_ID_SHOWN = 12 /* digits */
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void library_files_add(struct arena *a, struct library_files *files, struct library_file file)
{
    for (size_t i = 0; i < files->count; i++) {
        if (same_text(files->items[i].path, file.path) &&
            same_text(files->items[i].build_id, file.build_id)) {
            return;
        }
    }
    *VEC_PUSH(a, files) = file;
}

/* The last `parts` parts of a path; the whole path when it has no more. */
static const char *tail(const char *path, size_t parts)
{
    const char *at = path + strlen(path);
    while (at > path) {
        at--;
        if (*at == '/' && --parts == 0) {
            return at + 1;
        }
    }
    return path;
}

const char *library_name(struct arena *a, struct library_file file,
                         const struct library_files *files)
{
    bool rebuilt = false;
    size_t parts = 1;
    for (size_t i = 0; i < files->count; i++) {
        const struct library_file *other = &files->items[i];
        if (same_text(other->path, file.path)) {
            rebuilt = rebuilt || !same_text(other->build_id, file.build_id);
            continue;
        }
        while (tail(file.path, parts) != file.path &&
               strcmp(tail(file.path, parts), tail(other->path, parts)) == 0) {
            parts++;
        }
    }
    const char *name = tail(file.path, parts);
    if (!rebuilt) {
        return name;
    }
    return file.build_id != NULL
               ? arena_fmt(a, "%s (build id %.*s)", name, BUILD_ID_SHOWN, file.build_id)
               : arena_fmt(a, "%s (no build id)", name);
}
