// SPDX-License-Identifier: Apache-2.0
/* Files under a root. Path resolution is done here, link by link, so it works on any kernel. */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/vec.h"

enum {
    MAX_LINKS = 40,
    MAX_NAMES = 100000
};

/* Appends one component to the resolved path inside the root, or follows it if it is a link. */
static enum status step(const struct fs *fs, struct arena *a, struct strbuf *done, struct str part,
                        struct str *rest, int *links, struct err *err)
{
    if (part.n == 0 || str_is(part, ".")) {
        return ST_OK;
    }
    if (str_is(part, "..")) {
        while (done->n != 0 && done->p[done->n - 1] != '/') {
            done->n--;
        }
        done->n -= done->n != 0;
        done->p[done->n] = '\0';
        return ST_OK;
    }
    size_t before = done->n;
    strbuf_addc(done, '/');
    strbuf_add(done, part);
    char target[PATH_MAX];
    const char *host = arena_fmt(a, "%s%s", fs->prefix, done->p);
    ssize_t n = readlink(host, target, sizeof target);
    if (n < 0) {
        return ST_OK; /* not a link, or not there: the final open tells which */
    }
    if (++*links > MAX_LINKS || (size_t)n >= sizeof target) {
        return err_set(err, ST_IO, "'%s' has too many levels of symbolic links", host);
    }
    struct str link = {.p = target, .n = (size_t)n};
    struct strbuf joined;
    strbuf_init(&joined, a, PATH_MAX * 2);
    strbuf_add(&joined, link);
    if (rest->p != NULL && rest->n != 0) {
        strbuf_addc(&joined, '/');
        strbuf_add(&joined, *rest);
    }
    *rest = strbuf_str(&joined);
    done->n = target[0] == '/' ? 0 : before;
    done->p[done->n] = '\0';
    return ST_OK;
}

enum status fs_realpath(const struct fs *fs, struct arena *a, const char *path,
                        const char **ret_path, struct err *err)
{
    struct strbuf done;
    strbuf_init(&done, a, PATH_MAX);
    struct str rest = str_of(path);
    struct str part;
    int links = 0;
    while (str_cut(&rest, '/', &part)) {
        TRY(step(fs, a, &done, part, &rest, &links, err));
    }
    if (done.truncated) {
        return err_set(err, ST_IO, "'%s' is longer than the system allows for a path", path);
    }
    *ret_path = done.n != 0 ? done.p : "/";
    return ST_OK;
}

static bool is_denied(const struct fs *fs, const char *inside)
{
    for (size_t i = 0; i < fs->denied_count; i++) {
        size_t n = strlen(fs->denied[i]);
        if (strncmp(inside, fs->denied[i], n) == 0 && (inside[n] == '\0' || inside[n] == '/')) {
            return true;
        }
    }
    return false;
}

enum status fs_resolve(const struct fs *fs, struct arena *a, const char *path,
                       const char **ret_host_path, struct err *err)
{
    if (fs_is_live(fs)) {
        *ret_host_path = path; /* the kernel resolves, /proc/self links included */
        return ST_OK;
    }
    const char *inside;
    TRY(fs_realpath(fs, a, path, &inside, err));
    if (is_denied(fs, inside)) {
        return err_sys(err, EACCES, "cannot open '%s%s'", fs->prefix, inside);
    }
    *ret_host_path = arena_fmt(a, "%s%s", fs->prefix, inside);
    return ST_OK;
}

enum status fs_open_root(struct arena *a, const char *dir, struct fs *ret_fs, struct err *err)
{
    struct str prefix = str_of(dir);
    while (prefix.n != 0 && prefix.p[prefix.n - 1] == '/') {
        prefix.n--;
    }
    struct fs fs = {.prefix = str_dup(a, prefix)};
    if (prefix.n != 0) {
        struct stat st;
        if (stat(fs.prefix, &st) != 0) {
            return err_sys(err, errno, "cannot open the root folder '%s'", fs.prefix);
        }
        if (!S_ISDIR(st.st_mode)) {
            return err_set(err, ST_FORMAT, "'%s' should be a folder that holds sys, proc, etc",
                           fs.prefix);
        }
        struct str text;
        if (fs_read(&fs, a, "/.assay/denied", 65536, &text, NULL) == ST_OK) {
            VEC_OF(const char *) denied = {0};
            struct str line;
            while (str_cut_line(&text, &line)) {
                if (line.n != 0) {
                    *VEC_PUSH(a, &denied) = str_dup(a, line);
                }
            }
            fs.denied = denied.items;
            fs.denied_count = denied.count;
        }
    }
    *ret_fs = fs;
    return ST_OK;
}

static enum status open_file(const struct fs *fs, struct arena *a, const char *path, int *ret_fd,
                             struct err *err)
{
    const char *host;
    TRY(fs_resolve(fs, a, path, &host, err));
    /* O_NONBLOCK: a FIFO or a device in the place of a file must not hang us. */
    int fd = open(host, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open '%s'", host);
    }
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int saved = errno;
        close(fd);
        return err_sys(err, saved, "cannot stat '%s'", host);
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, ST_UNSUPPORTED, "'%s' is %s, not a regular file", host,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    *ret_fd = fd;
    return ST_OK;
}

enum status fs_read(const struct fs *fs, struct arena *a, const char *path, size_t ceiling,
                    struct str *ret_text, struct err *err)
{
    int fd;
    TRY(open_file(fs, a, path, &fd, err));
    struct strbuf text;
    strbuf_init(&text, a, ceiling + 1);
    char chunk[16384];
    enum status status = ST_OK;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            status = err_sys(err, errno, "cannot read '%s'", path);
            break;
        }
        if (n == 0) {
            break;
        }
        strbuf_add(&text, (struct str){.p = chunk, .n = (size_t)n});
        if (text.n > ceiling) {
            status = err_set(err, ST_LIMIT, "'%s' is larger than the %zu bytes expected", path,
                             ceiling);
            break;
        }
    }
    close(fd);
    if (status == ST_OK) {
        *ret_text = strbuf_str(&text);
    }
    return status;
}

enum status fs_read_trimmed(const struct fs *fs, struct arena *a, const char *path,
                            struct str *ret_text, struct err *err)
{
    struct str text;
    TRY(fs_read(fs, a, path, 65536, &text, err));
    text = str_trim(text);
    ret_text->p = str_dup(a, text);
    ret_text->n = text.n;
    return ST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum status fs_list(const struct fs *fs, struct arena *a, const char *path,
                    const char *const **ret_names, size_t *ret_count, struct err *err)
{
    const char *host;
    TRY(fs_resolve(fs, a, path, &host, err));
    DIR *dir = opendir(host);
    if (dir == NULL) {
        return err_sys(err, errno, "cannot list '%s'", host);
    }
    VEC_OF(const char *) names = {0};
    enum status status = ST_OK;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (e == NULL) {
            if (errno != 0) {
                status = err_sys(err, errno, "cannot list '%s'", host);
            }
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (names.count == MAX_NAMES) {
            status = err_set(err, ST_LIMIT, "'%s' holds more than %d names", host, MAX_NAMES);
            break;
        }
        *VEC_PUSH(a, &names) = arena_strdup(a, e->d_name);
    }
    closedir(dir);
    if (status != ST_OK) {
        return status;
    }
    if (names.count != 0) {
        qsort(names.items, names.count, sizeof *names.items, by_name);
    }
    *ret_names = names.items;
    *ret_count = names.count;
    return ST_OK;
}

enum status fs_stat(const struct fs *fs, struct arena *a, const char *path, struct stat *ret_stat,
                    struct err *err)
{
    const char *host;
    TRY(fs_resolve(fs, a, path, &host, err));
    struct stat st;
    if (stat(host, &st) != 0) {
        return err_sys(err, errno, "cannot stat '%s'", host);
    }
    *ret_stat = st;
    return ST_OK;
}

bool fs_exists(const struct fs *fs, struct arena *a, const char *path)
{
    struct stat st;
    return fs_stat(fs, a, path, &st, NULL) == ST_OK;
}

bool fs_is_dir(const struct fs *fs, struct arena *a, const char *path)
{
    struct stat st;
    return fs_stat(fs, a, path, &st, NULL) == ST_OK && S_ISDIR(st.st_mode);
}

enum status fs_readlink(const struct fs *fs, struct arena *a, const char *path,
                        const char **ret_target, struct err *err)
{
    /* Resolve the parent, not the link itself. */
    struct str whole = str_of(path);
    while (whole.n > 1 && whole.p[whole.n - 1] == '/') {
        whole.n--;
    }
    size_t slash = whole.n;
    while (slash != 0 && whole.p[slash - 1] != '/') {
        slash--;
    }
    const char *parent;
    TRY(fs_resolve(fs, a, str_dup(a, str_slice(whole, 0, slash)), &parent, err));
    const char *host = arena_fmt(a, "%s/%.*s", parent, STR_ARG(str_slice(whole, slash, whole.n)));
    char target[PATH_MAX];
    ssize_t n = readlink(host, target, sizeof target);
    if (n < 0) {
        return err_sys(err, errno, "cannot read the link '%s'", host);
    }
    *ret_target = arena_copy(a, target, (size_t)n);
    return ST_OK;
}

enum status fs_map(const struct fs *fs, struct arena *a, const char *path, struct fs_map *ret_map,
                   struct err *err)
{
    int fd;
    TRY(open_file(fs, a, path, &fd, err));
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int saved = errno;
        close(fd);
        return err_sys(err, saved, "cannot stat '%s'", path);
    }
    if (st.st_size == 0) {
        close(fd);
        *ret_map = (struct fs_map){.p = (const unsigned char *)""};
        return ST_OK;
    }
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int saved = errno;
    close(fd);
    if (base == MAP_FAILED) {
        return err_sys(err, saved, "cannot map '%s'", path);
    }
    *ret_map = (struct fs_map){.p = base, .n = (size_t)st.st_size, .base = base};
    return ST_OK;
}

void fs_unmap(struct fs_map *map)
{
    if (map != NULL && map->base != NULL) {
        munmap(map->base, map->n);
        *map = (struct fs_map){0};
    }
}
