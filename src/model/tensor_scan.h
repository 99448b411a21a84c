// SPDX-License-Identifier: Apache-2.0
/*
 * One pass over the values of a tensor: NaN, infinities, zeros, denormals, largest magnitude, sum of
 * squares, and pages of the file that hold nothing but zeros. Vectorised (AVX2, chosen at run time)
 * with a plain loop that gives the same counts elsewhere.
 */
#ifndef ASSAY_MODEL_TENSOR_SCAN_H
#define ASSAY_MODEL_TENSOR_SCAN_H

#include <stdint.h>

#include "base/dtype.h"

#include "model/tensor_type.h"

enum {
    SCAN_PAGE = 4096
};

struct tensor_stats {
    uint64_t elements;
    uint64_t nan;
    uint64_t inf;
    uint64_t zero;
    uint64_t denormal;
    double abs_max;     /* of finite values */
    double sum_squares; /* of finite values, in double, blocks of a page summed in float32 where its
                            range allows */
    uint64_t first_bad; /* index of the first NaN or infinity; UINT64_MAX when there is none */
    uint64_t zero_pages; /* whole pages of the file, aligned in it, that are zero */
};

/* An empty record: add to it. */
struct tensor_stats tensor_stats_none(void);

/* Adds `count` dense elements at `p`. `place` is the offset of p in the file (for pages), `index` that
 * of the first element in its tensor (for first_bad). */
void tensor_scan(enum dtype t, const unsigned char *p, uint64_t count, uint64_t place,
                 uint64_t index, struct tensor_stats *stats);

/* The same for `blocks` blocks that tensor_block.h reads, from number `block` of the tensor on: their
 * values are judged as float32, pages of zeros by their bytes. */
void tensor_scan_blocks(const struct tensor_type *t, const unsigned char *p, uint64_t blocks,
                        uint64_t place, uint64_t block, struct tensor_stats *stats);

/* The plain loop, for tests. */
void tensor_scan_plain(enum dtype t, const unsigned char *p, uint64_t count, uint64_t index,
                       struct tensor_stats *stats);

/* Adds `more`, a part of the same tensor. */
void tensor_stats_add(struct tensor_stats *stats, const struct tensor_stats *more);

/* Root of the mean square over finite elements; 0 when there are none. */
double tensor_stats_rms(const struct tensor_stats *stats);

#endif
