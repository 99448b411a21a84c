// SPDX-License-Identifier: Apache-2.0
/* Error sentences. See err.h for the contract. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void err_vset(struct err *err, enum status status, const char *fmt, va_list ap)
{
    if (err == NULL) {
        return;
    }
    err->status = status;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
}

enum status err_set(struct err *err, enum status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_vset(err, status, fmt, ap);
    va_end(ap);
    return status;
}

enum status err_status_of(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV: return ST_ABSENT;
    case EACCES:
    case EPERM: return ST_DENIED;
    default: return ST_IO;
    }
}

enum status err_sys(struct err *err, int errnum, const char *fmt, ...)
{
    enum status status = err_status_of(errnum);
    if (err == NULL) {
        return status;
    }
    va_list ap;
    va_start(ap, fmt);
    err_vset(err, status, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s (%s)", strerror(errnum),
             err_name(errnum));
    return status;
}

enum status err_context(struct err *err, const char *fmt, ...)
{
    if (err == NULL) {
        return ST_IO;
    }
    char head[400];
    char tail[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, err->text, sizeof tail);
    snprintf(err->text, sizeof err->text, "%s: %.*s", head,
             (int)(sizeof err->text - sizeof head - 3), tail);
    return err->status;
}

const char *err_name(int errnum)
{
    const char *name = strerrorname_np(errnum);
    return name != NULL ? name : "E?";
}
