// SPDX-License-Identifier: Apache-2.0
/*
 * Version numbers of many makers: "6.3.3-74", "6.14.0-24-generic", "2.9.0+rocm7.10.0a20251124",
 * "2.10.0.dev20250929+rocm7.0", "v0.45.3.dev0". Only the leading dotted numbers and a pre-release
 * mark are ordered; the local part after '+' and build suffixes are ignored, because they order
 * wrongly (2.12.0+rocm10.0 sorts before 2.12.0+rocm7.0 as text, PEP 440).
 */
#ifndef ASSAY_BASE_VERSION_H
#define ASSAY_BASE_VERSION_H

#include <stdbool.h>

#include "base/str.h"

/* True when the text begins (after an optional v) with a digit. */
bool version_valid(struct str s);

/* <0, 0, >0. Missing parts count as 0: 6.4 == 6.4.0. A pre-release (dev, a, b, rc) sorts before
 * its release. */
int version_cmp(struct str a, struct str b);

/* Part `index` (0 = major) or -1. */
long version_part(struct str s, unsigned index);

#endif
