// SPDX-License-Identifier: Apache-2.0
/* What apt on this machine knows of packages, without asking it: its lists and its cache of archives. */
#ifndef ASSAY_SNAPSHOT_APT_LISTS_H
#define ASSAY_SNAPSHOT_APT_LISTS_H

#include "snapshot/rollback.h"

/* Fills source and download_bytes of the packages, and lists_read. Lists may be plain, gzip, zstd or LZ4. */
void apt_lists_look_up(struct arena *a, const struct fs *fs, struct rollback *r);

#endif
