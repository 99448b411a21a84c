// SPDX-License-Identifier: Apache-2.0
/* Inside tensor_scan: one block of at most a page, by vectors. */
#ifndef ASSAY_MODEL_SCAN_BLOCK_H
#define ASSAY_MODEL_SCAN_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"

struct scan_block {
    bool special; /* NaN or infinity is among them, or the sum left float32's range: nothing else
                          is valid, use the plain loop */
    unsigned zero;
    unsigned denormal; /* without zeros */
    double abs_max;
    double squares;
};

/* Elements that one call takes: a multiple of this. */
enum {
    SCAN_STEP = 32
};

/* True when this processor and type have a vector form. */
bool scan_block_supported(enum dtype t);

/* `count` is a multiple of SCAN_STEP, at most 4096. */
void scan_block(enum dtype t, const unsigned char *p, size_t count, struct scan_block *ret_block);

#endif
