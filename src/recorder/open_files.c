// SPDX-License-Identifier: Apache-2.0
/* See open_files.h. A process that ends while we look simply has no more files. */
#include "recorder/open_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

enum {
    MAPS_MAX = 16 << 20,
    FDINFO_MAX = 65536
};

static const struct fs live = {.prefix = ""};

static bool is_system(struct str path)
{
    static const char *const heads[] = {"/proc/", "/sys/", "/dev/", "/usr/", "/lib",  "/bin/",
                                        "/sbin/", "/etc/", "/opt/", "/run/", "/snap/"};
    static const char *const parts[] = {"site-packages/", "dist-packages/", ".so.", "/__pycache__/",
                                        "/lib/python"};
    static const char *const tails[] = {".so", ".py", ".pyc", ".mo", " (deleted)"};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        if (str_starts(path, heads[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (str_has(path, parts[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        if (str_ends(path, tails[i])) {
            return true;
        }
    }
    return path.n == 0 || path.p[0] != '/';
}

/* An ELF program is code wherever it lies. */
static bool is_code(const char *path)
{
    char head[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return n != sizeof head || memcmp(head, "\177ELF", 4) == 0;
}

static void add(struct arena *a, const char *path, const char *except, struct text_list *list)
{
    struct stat st;
    if (list->count == OPEN_FILES_MAX || is_system(str_of(path)) ||
        (except != NULL && strncmp(path, except, strlen(except)) == 0)) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], path) == 0) {
            return;
        }
    }
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && !is_code(path)) {
        *VEC_PUSH(a, list) = arena_strdup(a, path);
    }
}

/* "flags:\t0100000": octal, as open(2) was given them. */
static bool is_read_only(struct arena *scratch, pid_t pid, const char *number)
{
    struct str text;
    struct str line;
    const char *path = arena_fmt(scratch, "/proc/%d/fdinfo/%s", (int)pid, number);
    if (fs_read(&live, scratch, path, FDINFO_MAX, &text, NULL) != ST_OK) {
        return false;
    }
    while (str_cut_line(&text, &line)) {
        uint64_t flags;
        if (str_starts(line, "flags:") &&
            str_to_u64(str_trim(str_slice(line, 6, line.n)), 8, &flags) == ST_OK) {
            return (flags & O_ACCMODE) == O_RDONLY;
        }
    }
    return false;
}

static void look_at_descriptors(struct arena *a, struct arena *scratch, pid_t pid,
                                const char *except, struct text_list *list)
{
    const char *folder = arena_fmt(scratch, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char target[PATH_MAX];
        if (entry->d_name[0] == '.') {
            continue;
        }
        ssize_t n = readlink(arena_fmt(scratch, "%s/%s", folder, entry->d_name), target,
                             sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (target[0] == '/' && !is_system(str_of(target)) &&
            is_read_only(scratch, pid, entry->d_name)) {
            add(a, target, except, list);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* "start-end perms offset device inode path": mapped and not written back to the file. */
static void look_at_maps(struct arena *a, struct arena *scratch, pid_t pid, const char *except,
                         struct text_list *list)
{
    struct str text;
    struct str line;
    const char *path = arena_fmt(scratch, "/proc/%d/maps", (int)pid);
    if (fs_read(&live, scratch, path, MAPS_MAX, &text, NULL) != ST_OK) {
        return;
    }
    while (str_cut_line(&text, &line)) {
        size_t space = str_find_char(line, ' ', 0);
        size_t slash = str_find_char(line, '/', 0);
        if (space == SIZE_MAX || slash == SIZE_MAX || line.n < space + 5) {
            continue;
        }
        const char *perms = line.p + space + 1;
        bool shared_write = perms[1] == 'w' && perms[3] == 's';
        struct str file = str_slice(line, slash, line.n);
        if (perms[0] == 'r' && !shared_write && !is_system(file)) {
            add(a, str_dup(scratch, file), except, list);
        }
    }
}

void open_files_look(struct arena *a, pid_t pid, const char *except, struct text_list *list)
{
    struct arena *scratch = arena_new(0);
    look_at_descriptors(a, scratch, pid, except, list);
    look_at_maps(a, scratch, pid, except, list);
    arena_free(scratch);
}
