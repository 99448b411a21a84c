// SPDX-License-Identifier: Apache-2.0
/*
 * The middle of a long log is punched out of the file: its writer goes on at its end, in a file that takes no more
 * room than RUN_LOGS_KEPT_MAX twice.
 */
#include "cli/run/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/run/environment.h"

enum {
    VARIABLES_MAX = 4,
    BLOCK_BYTES = 512, /* of st_blocks */
    PAGE_BYTES = 4096
};

struct variable {
    const char *name;
    const char *value; /* "library.…": a file of the run folder; NULL: only looked at */
};

static const struct source {
    const char *name;
    struct variable variables[VARIABLES_MAX];
    const char *remark; /* NULL without */
} sources[] = {
    {"hipblaslt",
     {{"HIPBLASLT_LOG_MASK", "32"},
      {"HIPBLASLT_LOG_FILE", "library.hipblaslt.%i.log"},
      {"HIPBLASLT_LOG_LEVEL", NULL}},
     NULL},
    /* %i is expanded by the recorder inside each process: rocBLAS does not. */
    {"rocblas",
     {{"ROCBLAS_LAYER", "2"},
      {"ROCBLAS_LOG_BENCH_PATH", "library.rocblas.%i.log"},
      {"ROCBLAS_LOG_PATH", NULL}},
     NULL},
    {"miopen",
     {{"MIOPEN_ENABLE_LOGGING_CMD", "1"},
      {"MIOPEN_ENABLE_LOGGING", NULL},
      {"MIOPEN_LOG_LEVEL", NULL}},
     "MIOpen writes to no file: its lines stand in stderr.log"},
    {"cublaslt",
     {{"CUBLASLT_LOG_MASK", "2"},
      {"CUBLASLT_LOG_FILE", "library.cublaslt.%i.log"},
      {"CUBLASLT_LOG_LEVEL", NULL}},
     NULL},
    {"cudnn",
     {{"CUDNN_LOGLEVEL_DBG", "2"},
      {"CUDNN_LOGDEST_DBG", "library.cudnn.%i.log"},
      {"CUDNN_LOGINFO_DBG", NULL}},
     NULL},
};

static bool is_asked(const char *list, const char *name)
{
    struct str rest = str_of(list);
    struct str one;
    while (str_cut(&rest, ',', &one)) {
        if (str_is(str_trim(one), name) || str_is(str_trim(one), "all")) {
            return true;
        }
    }
    return false;
}

enum status run_logs_check(const struct cli *cli, struct err *err)
{
    const char *list = cli_value(cli, "library-logs", NULL);
    struct str rest = str_of(list);
    struct str one;
    while (list != NULL && str_cut(&rest, ',', &one)) {
        struct str name = str_trim(one);
        bool known = str_is(name, "all");
        for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
            known = known || str_is(name, sources[i].name);
        }
        if (!known) {
            return err_set(
                err, ST_USAGE,
                "--library-logs takes all, or a list of hipblaslt, rocblas, miopen, cublaslt, "
                "cudnn; '%.*s' is none of them",
                STR_ARG(name));
        }
    }
    return ST_OK;
}

void run_logs_variables(struct cli *cli, const char *folder, struct text_list *env,
                        struct text_list *notes)
{
    const char *asked = cli_value(cli, "library-logs", NULL);
    struct arena *a = cli->arena;
    for (size_t i = 0; asked != NULL && i < ARRAY_LEN(sources); i++) {
        const struct source *s = &sources[i];
        const char *taken = NULL;
        if (!is_asked(asked, s->name)) {
            continue;
        }
        for (size_t v = 0; v < VARIABLES_MAX && s->variables[v].name != NULL; v++) {
            if (run_environment_get(env, s->variables[v].name) != NULL) {
                taken = s->variables[v].name;
            }
        }
        if (taken != NULL) {
            *VEC_PUSH(a, notes) = arena_fmt(
                a, "the log of %s stays as it was asked for: %s is set already", s->name, taken);
            continue;
        }
        for (size_t v = 0; v < VARIABLES_MAX && s->variables[v].value != NULL; v++) {
            const char *text = s->variables[v].value;
            if (str_starts(str_of(text), "library.")) {
                text = arena_fmt(a, "%s/%s", folder, text);
            }
            run_environment_set(a, env, s->variables[v].name, text);
        }
        if (s->remark != NULL) {
            *VEC_PUSH(a, notes) = s->remark;
        }
    }
}

/* --- the files --------------------------------------------------------------------------------- */

static bool is_library_log(const char *name)
{
    return str_starts(str_of(name), "library.") && str_ends(str_of(name), ".log");
}

static void bound(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_blocks * BLOCK_BYTES > 2 * (off_t)RUN_LOGS_KEPT_MAX) {
        off_t from = RUN_LOGS_KEPT_MAX;
        off_t to = (st.st_size - RUN_LOGS_KEPT_MAX / 2) / PAGE_BYTES * PAGE_BYTES;
        bool punched = to > from && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                                              to - from) == 0;
        /* A file system without holes: the log begins anew, and its writer goes on. */
        if (!punched && (errno == EOPNOTSUPP || errno == ENOSYS) && ftruncate(fd, 0) != 0) {
            close(fd);
            return;
        }
    }
    close(fd);
}

void run_logs_bound(struct arena *a, const char *folder)
{
    const struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    if (fs_list(&fs, a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_library_log(names[i])) {
            bound(arena_fmt(a, "%s/%s", folder, names[i]));
        }
    }
}

/* Whole lines of one piece. */
static struct str read_piece(int fd, off_t from, off_t to, char *room)
{
    size_t n = 0;
    while (from + (off_t)n < to) {
        ssize_t got = pread(fd, room + n, (size_t)(to - from) - n, from + (off_t)n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    /* A last line without its end may be half of one. */
    while (n > 0 && room[n - 1] != '\n') {
        n--;
    }
    struct str piece = {.p = room, .n = n};
    size_t end = from > 0 ? str_find_char(piece, '\n', 0) : SIZE_MAX;
    return end != SIZE_MAX ? str_slice(piece, end + 1, n) : piece;
}

/* The beginning and the end of a file, around what is not there or not read. */
static void read_file(const char *path, char *room, struct library_log *log, size_t *ret_cut)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t first = st.st_size < RUN_LOGS_KEPT_MAX ? st.st_size : RUN_LOGS_KEPT_MAX;
        off_t last = st.st_size > 2 * (off_t)RUN_LOGS_KEPT_MAX ? st.st_size - RUN_LOGS_KEPT_MAX
                                                               : first;
        library_log_read(log, read_piece(fd, 0, first, room));
        if (last < st.st_size) {
            off_t data = lseek(fd, last, SEEK_DATA); /* behind the hole */
            library_log_read(log, read_piece(fd, data > last ? data : last, st.st_size, room));
        }
        *ret_cut += last > first;
    }
    close(fd);
}

enum status run_logs_read(struct arena *a, const char *folder, struct library_log *ret_log,
                          size_t *ret_cut, struct err *err)
{
    static const char *const output[] = {"stdout.log", "stderr.log"};
    const struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    size_t unread = 0;
    struct arena *scratch = arena_new(0);
    char *room = arena_alloc(scratch, RUN_LOGS_KEPT_MAX);
    enum status st = fs_list(&fs, a, folder, &names, &count, err);
    *ret_cut = 0;
    library_log_start(a, ret_log);
    for (size_t i = 0; st == ST_OK && i < count; i++) {
        if (is_library_log(names[i])) {
            read_file(arena_fmt(a, "%s/%s", folder, names[i]), room, ret_log, ret_cut);
        }
    }
    for (size_t i = 0; st == ST_OK && i < ARRAY_LEN(output); i++) {
        read_file(arena_fmt(a, "%s/%s", folder, output[i]), room, ret_log, &unread);
    }
    arena_free(scratch);
    return st;
}
