// SPDX-License-Identifier: Apache-2.0
/* A small machine under a temporary folder, for tests of collectors. */
#ifndef ASSAY_TESTS_TEMP_ROOT_H
#define ASSAY_TESTS_TEMP_ROOT_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static char temp_root[64];

static int temp_root_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void temp_root_make(void)
{
    snprintf(temp_root, sizeof temp_root, "/tmp/assay-test-XXXXXX");
    if (mkdtemp(temp_root) == NULL) {
        perror("mkdtemp");
        exit(99);
    }
}

static void temp_root_remove(void)
{
    nftw(temp_root, temp_root_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes all folders of "/a/b/c" below the root. */
static inline void temp_mkdir(const char *path)
{
    char host[4096];
    snprintf(host, sizeof host, "%s%.2000s", temp_root, path);
    for (char *s = host + strlen(temp_root) + 1;; s++) {
        if (*s == '/' || *s == '\0') {
            char end = *s;
            *s = '\0';
            mkdir(host, 0755);
            *s = end;
            if (end == '\0') {
                return;
            }
        }
    }
}

/* The host path of a file to be made: its folders exist, itself does not. What was there is removed
 * and never written through: a link in a test's machine may point at a file of the real one. */
static inline void temp_fresh(const char *path, char host[4096])
{
    snprintf(host, 4096, "%.2000s", path);
    char *slash = strrchr(host, '/');
    if (slash != host) {
        *slash = '\0';
        temp_mkdir(host);
    }
    snprintf(host, 4096, "%s%.2000s", temp_root, path);
    unlink(host);
}

static inline void temp_write_bytes(const char *path, const void *bytes, size_t n)
{
    char host[4096];
    temp_fresh(path, host);
    int fd = open(host, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
        perror(host);
        exit(99);
    }
}

static inline void temp_write(const char *path, const char *text)
{
    temp_write_bytes(path, text, strlen(text));
}

static inline void temp_link(const char *path, const char *target)
{
    char host[4096];
    temp_fresh(path, host);
    if (symlink(target, host) != 0) {
        perror(host);
        exit(99);
    }
}

/* Copies a file of this machine into the root. */
static inline void temp_copy(const char *path, const char *from)
{
    FILE *f = fopen(from, "rb");
    char *bytes = malloc(64u << 20);
    if (f == NULL || bytes == NULL) {
        perror(from);
        exit(99);
    }
    size_t n = fread(bytes, 1, 64u << 20, f);
    fclose(f);
    temp_write_bytes(path, bytes, n);
    free(bytes);
}

#endif
