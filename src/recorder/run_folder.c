// SPDX-License-Identifier: Apache-2.0
/* See run_folder.h. */
#include "recorder/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/fs.h"

enum {
    KERNEL_LOG_MAX = 16 << 20,
    KERNEL_RECORD_MAX = 8192,
    TRIM_BYTES = 65536 /* a multiple of every page size in use */
};

static const char *name_by_time(struct arena *a)
{
    time_t now = time(NULL);
    struct tm t;
    char text[64] = "run";
    if (gmtime_r(&now, &t) != NULL) {
        strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &t);
    }
    return arena_fmt(a, "assay-run-%s-%d", text, (int)getpid());
}

enum status run_folder_make(struct arena *a, const char *wanted, const char **ret_path,
                            struct err *err)
{
    const char *path = wanted != NULL ? wanted : name_by_time(a);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the run folder %s", path);
    }
    char full[PATH_MAX];
    if (realpath(path, full) == NULL) {
        return err_sys(err, errno, "cannot use the run folder %s", path);
    }
    const char *kept = arena_strdup(a, full);
    struct stat st;
    if (stat(kept, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ST_USAGE, "%s is there and is no folder", path);
    }
    if (access(arena_fmt(a, "%s/run.json", kept), F_OK) == 0) {
        return err_set(err, ST_USAGE, "%s holds a run already; give another folder", path);
    }
    if (access(kept, W_OK | X_OK) != 0) {
        return err_sys(err, errno, "cannot write into the run folder %s", path);
    }
    *ret_path = kept;
    return ST_OK;
}

static bool write_whole(int fd, struct str text)
{
    while (text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        text.p += n;
        text.n -= (size_t)n;
    }
    return true;
}

enum status run_folder_write(struct arena *a, const char *folder, const char *name, struct str text,
                             struct err *err)
{
    const char *path = arena_fmt(a, "%s/%s", folder, name);
    const char *part = arena_fmt(a, "%s.part", path);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, errno, "cannot write %s", path);
    }
    bool ok = write_whole(fd, text);
    int failed = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        failed = errno;
    }
    if (!ok || rename(part, path) != 0) {
        failed = ok ? errno : failed;
        unlink(part);
        return err_sys(err, failed, "cannot write %s", path);
    }
    return ST_OK;
}

enum status run_folder_log(struct arena *a, const char *folder, const char *name, int *ret_fd,
                           struct err *err)
{
    const char *path = arena_fmt(a, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, errno, "cannot write %s", path);
    }
    *ret_fd = fd;
    return ST_OK;
}

/* Makes a hole of every block of zeros; reading it gives the same zeros. */
static void trim_file(const char *path, char *block)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    off_t at = 0, data;
    while (fd >= 0 && (data = lseek(fd, at, SEEK_DATA)) >= 0) {
        at = data / TRIM_BYTES * TRIM_BYTES;
        ssize_t n = pread(fd, block, TRIM_BYTES, at);
        if (n <= 0) {
            break;
        }
        bool zero = block[0] == 0 && memcmp(block, block + 1, (size_t)n - 1) == 0;
        if (zero && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n) != 0) {
            break;
        }
        at += n;
    }
    if (fd >= 0) {
        close(fd);
    }
}

void run_folder_trim(struct arena *a, const char *folder)
{
    struct fs live = {.prefix = ""};
    struct arena_mark mark = arena_mark(a);
    const char *const *names;
    size_t count;
    if (fs_list(&live, a, folder, &names, &count, NULL) == ST_OK) {
        char *block = arena_alloc(a, TRIM_BYTES);
        for (size_t i = 0; i < count; i++) {
            struct str name = str_of(names[i]);
            if (str_starts(name, "record.") && str_ends(name, ".bin")) {
                trim_file(arena_fmt(a, "%s/%s", folder, names[i]), block);
            }
        }
    }
    arena_rewind(a, mark);
}

/* "6,339,5140900,-;text" of /dev/kmsg: level and facility, number, microseconds since boot, flags.
 * Source: the kernel's Documentation/ABI/testing/dev-kmsg. */
static bool parse_record(struct str record, double *ret_seconds, struct str *ret_text)
{
    size_t semicolon = str_find_char(record, ';', 0);
    if (semicolon >= record.n) {
        return false;
    }
    struct str head = str_slice(record, 0, semicolon);
    struct str field;
    uint64_t microseconds = 0;
    for (int i = 0; i < 3; i++) {
        if (!str_cut(&head, ',', &field)) {
            return false;
        }
    }
    if (str_to_u64(field, 10, &microseconds) != ST_OK) {
        return false;
    }
    struct str text = str_slice(record, semicolon + 1, record.n);
    struct str line;
    if (!str_cut_line(&text, &line)) {
        return false;
    }
    *ret_seconds = (double)microseconds * 1e-6;
    *ret_text = line;
    return true;
}

enum status run_folder_kernel_log(struct arena *a, double from_monotonic_s, struct str *ret_text,
                                  struct err *err)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno, "cannot read the kernel log (/dev/kmsg)");
    }
    struct strbuf out;
    strbuf_init(&out, a, KERNEL_LOG_MAX);
    char record[KERNEL_RECORD_MAX];
    for (;;) {
        ssize_t n = read(fd, record, sizeof record);
        if (n < 0 && (errno == EPIPE || errno == EINTR)) {
            continue; /* overwritten while we read: go on with the next */
        }
        if (n < 0 && errno == EPERM) {
            close(fd);
            return err_sys(err, EPERM, "cannot read the kernel log (/dev/kmsg)");
        }
        if (n <= 0 || strbuf_str(&out).n > KERNEL_LOG_MAX - 2 * KERNEL_RECORD_MAX) {
            break;
        }
        double seconds;
        struct str text;
        if (parse_record((struct str){.p = record, .n = (size_t)n}, &seconds, &text) &&
            seconds >= from_monotonic_s) {
            strbuf_fmt(&out, "[%12.6f] ", seconds);
            strbuf_add(&out, text);
            strbuf_addc(&out, '\n');
        }
    }
    close(fd);
    *ret_text = strbuf_str(&out);
    return ST_OK;
}

/* The first PID namespace of a machine; include/linux/proc_ns.h: PROC_PID_INIT_INO. */
bool run_folder_kernel_pids(void)
{
    char name[64];
    ssize_t n = readlink("/proc/self/ns/pid", name, sizeof name);
    return str_is((struct str){.p = name, .n = n > 0 ? (size_t)n : 0}, "pid:[4026531836]");
}
