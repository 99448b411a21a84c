// SPDX-License-Identifier: Apache-2.0
/* The folder of a reproducer: what may be written where, the program, the product, redaction. */
#include "ops/reproducer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/str.h"

#include "ops/reproducer_fill.h"
#include "ops/reproducer_text.h" /* made from the templates of reproducer/ */
#include "ops/reproducer_write.h"

enum {
    NAME_LEAST = 3, /* shorter user and host names are words of the language */
    HOST_MAX = 256,
    TEXT_MAX = 1 << 20
};

/* --- files ------------------------------------------------------------------------------------- */

/* Names that only this program gives. */
static const char *const own_files[] = {"reproducer.c", "report.md", "shapes.txt", "reproducer"};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(own_files); i++) {
        if (strcmp(own_files[i], name) == 0) {
            return true;
        }
    }
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

enum status reproducer_folder(const char *folder, bool *ret_made, struct err *err)
{
    *ret_made = mkdir(folder, 0777) == 0;
    if (!*ret_made && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the folder %s for a reproducer", folder);
    }
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return err_sys(err, errno, "cannot use %s as the folder of a reproducer", folder);
    }
    const struct dirent *entry;
    enum status st = ST_OK;
    while (st == ST_OK && (entry = readdir(dir)) != NULL) {
        if (!is_own(entry->d_name)) {
            st = err_set(err, ST_USAGE,
                         "%s holds files already (%s): name a new or empty folder for the "
                         "reproducer",
                         folder, entry->d_name);
        }
    }
    closedir(dir);
    if (st == ST_OK && access(folder, W_OK | X_OK) != 0) {
        st = err_sys(err, errno, "cannot write into %s", folder);
    }
    return st;
}

enum status reproducer_put(struct arena *a, const char *folder, const char *name, struct str text,
                           struct err *err)
{
    const char *path = arena_fmt(a, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return err_sys(err, errno, "cannot write %s", path);
    }
    size_t done = 0;
    int failed = 0;
    while (done < text.n && failed == 0) {
        ssize_t n = write(fd, text.p + done, text.n - done);
        done += n > 0 ? (size_t)n : 0;
        failed = n < 0 && errno != EINTR ? errno : 0;
    }
    if (close(fd) != 0 && failed == 0) {
        failed = errno;
    }
    return failed == 0 ? ST_OK : err_sys(err, failed, "cannot write %s", path);
}

static struct str shapes_text(struct arena *a, const struct gemm_shape *s)
{
    struct strbuf out;
    strbuf_init(&out, a, TEXT_MAX);
    strbuf_addz(&out, "# M N K, column-major; for assay probe --shapes\n");
    strbuf_fmt(&out, "%lld %lld %lld transpose=%c%c lda=%lld ldb=%lld ldc=%lld", (long long)s->m,
               (long long)s->n, (long long)s->k, s->transpose_a ? 't' : 'n',
               s->transpose_b ? 't' : 'n', (long long)s->lda, (long long)s->ldb, (long long)s->ldc);
    if (s->batch > 1) {
        strbuf_fmt(&out, " batch=%lld", (long long)s->batch);
    }
    strbuf_fmt(&out, " alpha=%.17g beta=%.17g dtype=%s\n", s->alpha, s->beta,
               dtype_info(s->dtype_ab)->name);
    return strbuf_str(&out);
}

enum status reproducer_write(struct arena *a, const struct reproducer *r, const char *folder,
                             struct err *err)
{
    struct fill f = {.arena = a};
    struct str program;
    bool cpu = r->target->device_kind == DEVICE_CPU;
    fill_product(&f, r);
    TRY(cpu ? fill_cpu(&f, r, err) : fill_gpu(&f, r, err));
    TRY(fill_template(&f, cpu ? REPRODUCER_CPU : REPRODUCER_GPU, &program, err));
    TRY(reproducer_put(a, folder, "reproducer.c", program, err));
    if (!cpu) {
        return ST_OK; /* probe tries libraries of CPUs */
    }
    return reproducer_put(a, folder, "shapes.txt", shapes_text(a, &r->diagnosis->probe.shape), err);
}

/* --- redaction --------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Every `what` that stands alone becomes `with`. */
static const char *replace_word(struct arena *a, const char *text, const char *what,
                                const char *with)
{
    struct strbuf out;
    size_t n = strlen(what);
    strbuf_init(&out, a, TEXT_MAX);
    for (const char *p = text; *p != '\0';) {
        bool begins = p == text || !is_word_char(p[-1]);
        if (begins && strncmp(p, what, n) == 0 && !is_word_char(p[n])) {
            strbuf_addz(&out, with);
            p += n;
        } else {
            strbuf_addc(&out, *p++);
        }
    }
    return out.p;
}

/* "/home/joe" and what stands behind it up to the next part. */
static const char *replace_homes(struct arena *a, const char *text)
{
    static const char *const roots[] = {"/home/", "/Users/"};
    struct strbuf out;
    const char *home = getenv("HOME");
    size_t home_n = home != NULL && home[0] == '/' ? strlen(home) : 0;
    strbuf_init(&out, a, TEXT_MAX);
    for (const char *p = text; *p != '\0';) {
        bool begins = p == text || !is_word_char(p[-1]);
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(roots) && n == 0 && begins; i++) {
            if (str_starts(str_of(p), roots[i])) {
                n = strlen(roots[i]) + strcspn(p + strlen(roots[i]), "/ \t\n\"':,)");
            }
        }
        if (n == 0 && begins && home_n > 1 && strncmp(p, home, home_n) == 0 &&
            !is_word_char(p[home_n])) {
            n = home_n;
        }
        if (n == 0 && begins && str_starts(str_of(p), "/root/")) {
            n = strlen("/root");
        }
        if (n != 0) {
            strbuf_addc(&out, '~');
            p += n;
        } else {
            strbuf_addc(&out, *p++);
        }
    }
    return out.p;
}

const char *reproducer_redact(struct arena *a, const char *text)
{
    char host[HOST_MAX] = "";
    const char *user = getenv("USER");
    text = replace_homes(a, text);
    if (user != NULL && strlen(user) >= NAME_LEAST && strcmp(user, "root") != 0) {
        text = replace_word(a, text, user, "USER");
    }
    if (gethostname(host, sizeof host - 1) == 0 && strlen(host) >= NAME_LEAST &&
        strcmp(host, "localhost") != 0) {
        text = replace_word(a, text, host, "HOST");
    }
    return text;
}
