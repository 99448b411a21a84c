// SPDX-License-Identifier: Apache-2.0
/*
 * A source of log bytes: a file, stdin, a FIFO; plain, gzip (members in a row) or zstd (frames in
 * a row), told apart by their first bytes and never by their name; UTF-16 with a byte order mark
 * (Windows PowerShell redirection) becomes UTF-8, a UTF-8 mark is skipped.
 *
 * Memory is bounded (256 KiB and the decompressor's window, at most 128 MiB for zstd --long=27).
 * A compressed stream that is cut or damaged ends where it can no longer be read: what came before
 * is delivered, then input_read() says end and input_note() says what is missing.
 */
#ifndef ASSAY_BASE_INPUT_H
#define ASSAY_BASE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum input_format {
    INPUT_PLAIN = 0,
    INPUT_GZIP,
    INPUT_ZSTD,
    INPUT_FORMAT_COUNT
};

struct input;

/*
 * "-" is stdin. A directory is refused with ST_FORMAT (see input_list.h). Nothing blocks here; a
 * FIFO without a writer waits in the first read. `stop` may be NULL; when it becomes non-zero, a
 * wait for bytes ends as if the stream had ended.
 */
enum status input_open(struct arena *a, const char *path, const volatile int *stop,
                       struct input **ret_input, struct err *err) MUST_USE;

/* The same for a descriptor, which the input then owns. `name` is used in messages. */
enum status input_open_fd(struct arena *a, int fd, const char *name, const volatile int *stop,
                          struct input **ret_input, struct err *err) MUST_USE;

/*
 * Up to `capacity` (at least 8) decoded bytes. *ret_n is 0 only at the end; of a file that grows,
 * a later call may give more.
 */
enum status input_read(struct input *in, void *buffer, size_t capacity, size_t *ret_n,
                       struct err *err) MUST_USE;

/* What is wrong with the stream although its bytes were used, as a sentence; NULL when nothing. */
const char *input_note(const struct input *in);

enum input_format input_format(const struct input *in);

/* Of a plain file at its end: opens it again from the start when it was replaced or cut (log
 * rotation), and says so. False for everything else. */
bool input_reopen_rotated(struct input *in);

/* Last change of the file in seconds since the epoch, 0 for a stream. */
int64_t input_mtime(const struct input *in);

/* Size of the file on disk, 0 for a stream; bytes taken from it so far. For progress displays. */
uint64_t input_size(const struct input *in);
uint64_t input_taken(const struct input *in);

/* Closes the descriptor and frees the decompressor. NULL is fine. */
void input_close(struct input *in);

#endif
