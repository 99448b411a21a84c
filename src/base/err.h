// SPDX-License-Identifier: Apache-2.0
/*
 * How every fallible function reports: a status, and a full sentence written once, where the
 * failure happened. Absent, forbidden and broken are three different answers.
 *
 * A function that can fail returns `enum status`, is MUST_USE, and takes `struct err *err` last
 * (may be NULL when the caller only branches on the status). Results come before it, are named
 * ret_x, and are written only on success.
 */
#ifndef ASSAY_BASE_ERR_H
#define ASSAY_BASE_ERR_H

#include "base/attr.h"

enum status {
    ST_OK = 0,
    ST_ABSENT,      /* looked for and not there: ENOENT, missing key, missing symbol */
    ST_DENIED,      /* there, and this user may not have it: EACCES, EPERM */
    ST_IO,          /* the system failed while reading or writing */
    ST_FORMAT,      /* the bytes are not what the format says */
    ST_LIMIT,       /* a ceiling of ours was reached; the input may be fine */
    ST_UNSUPPORTED, /* understood, and this build cannot do it */
    ST_USAGE,       /* the user asked for something that does not exist */
    ST_COUNT
};

struct err {
    enum status status;
    char text[1000];
};

/* Writes the sentence and returns `status`, so that `return err_set(...)` reads well. */
enum status err_set(struct err *err, enum status status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same for a failed system call: appends ": <strerror> (ENAME)" and maps errno to a status. */
enum status err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "<context>: " in front of what is there. Use at most once a level. Returns err->status. */
enum status err_context(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* "EACCES" for EACCES; "E?" when unknown. */
const char *err_name(int errnum);

/* The status an errno stands for (ENOENT and ENOTDIR are ST_ABSENT, EACCES and EPERM ST_DENIED). */
enum status err_status_of(int errnum);

/* Forwards a failure; the only macro in the project that hides a return. */
#define TRY(expr)                   \
 do {                               \
  enum status try_status_ = (expr); \
  if (try_status_ != ST_OK) {       \
   return try_status_;              \
  }                                 \
 } while (0)

#endif
