// SPDX-License-Identifier: Apache-2.0
/*
 * Paragraphs of dpkg's status file and of apt's lists of packages (deb-control(5)): fields at the start of a line,
 * continued by lines that begin with a space, an empty line between paragraphs. The text is foreign; views point
 * into it.
 */
#ifndef ASSAY_SNAPSHOT_DPKG_H
#define ASSAY_SNAPSHOT_DPKG_H

#include "base/fs.h"
#include "base/str.h"

#define DPKG_STATUS "/var/lib/dpkg/status"

enum {
    DPKG_STATUS_MAX = 128 << 20
};

struct dpkg_paragraph {
    struct str package, version, architecture, status;
    struct str depends, pre_depends; /* first line only: dpkg and apt write them on one */
    struct str size;                 /* bytes of the archive; lists only */
};

/* Takes one paragraph off the front; false at the end. Paragraphs without a package are passed over. */
bool dpkg_next(struct str *text, struct dpkg_paragraph *ret_paragraph);

/* "install ok installed", on hold or not. */
bool dpkg_installed(const struct dpkg_paragraph *p);

/* "libc6", or "libc6:i386" where it is not of the usual architecture. */
const char *dpkg_name(struct arena *a, const struct dpkg_paragraph *p);

/* Takes one name off a list "a (>= 1) | b:any, c"; alternatives come one by one. */
bool dpkg_next_dependency(struct str *list, struct str *ret_name);

/* Names and versions that dpkg allows: what may stand in a command. */
bool dpkg_name_valid(const char *name);
bool dpkg_version_valid(const char *version);

#endif
