// SPDX-License-Identifier: Apache-2.0
/* Cuts a tensor at the pages of its file, gives whole vectors to scan_block.c and the rest to the
 * plain loop. */
#include "model/tensor_scan.h"

#include <math.h>
#include <string.h>

#include "model/scan_block.h"
#include "model/tensor_block.h"

enum {
    BATCH = 4096 /* values of blocks looked at together */
};

struct tensor_stats tensor_stats_none(void)
{
    return (struct tensor_stats){.first_bad = UINT64_MAX};
}

void tensor_stats_add(struct tensor_stats *stats, const struct tensor_stats *more)
{
    stats->elements += more->elements;
    stats->nan += more->nan;
    stats->inf += more->inf;
    stats->zero += more->zero;
    stats->denormal += more->denormal;
    stats->abs_max = more->abs_max > stats->abs_max ? more->abs_max : stats->abs_max;
    stats->sum_squares += more->sum_squares;
    stats->first_bad = more->first_bad < stats->first_bad ? more->first_bad : stats->first_bad;
    stats->zero_pages += more->zero_pages;
}

double tensor_stats_rms(const struct tensor_stats *stats)
{
    uint64_t finite = stats->elements - stats->nan - stats->inf;
    return finite != 0 ? sqrt(stats->sum_squares / (double)finite) : 0;
}

void tensor_scan_plain(enum dtype t, const unsigned char *p, uint64_t count, uint64_t index,
                       struct tensor_stats *stats)
{
    const struct dtype_info *info = dtype_info(t);
    double least = info->is_float ? ldexp(1, info->min_exponent) : 0;
    double squares = 0;
    for (uint64_t i = 0; i < count; i++) {
        double v = dtype_get(t, p + i * info->size);
        double magnitude = fabs(v);
        if (!(magnitude <= info->largest)) {
            stats->nan += isnan(v) != 0;
            stats->inf += isnan(v) == 0;
            stats->first_bad = index + i < stats->first_bad ? index + i : stats->first_bad;
            continue;
        }
        stats->zero += magnitude == 0;
        stats->denormal += magnitude != 0 && magnitude < least;
        stats->abs_max = magnitude > stats->abs_max ? magnitude : stats->abs_max;
        squares += v * v;
    }
    stats->elements += count;
    stats->sum_squares += squares;
}

/* Types without vectors: zeros and pages of zeros are found with memcmp's speed, which is what
 * matters of integers. */
static bool all_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* `vectors`: scan_block_supported(t), which asks the processor and is too slow for every page. */
static void scan_part(enum dtype t, bool vectors, const unsigned char *p, uint64_t count,
                      uint64_t index, struct tensor_stats *stats)
{
    unsigned size = dtype_info(t)->size;
    uint64_t even = vectors ? count - count % SCAN_STEP : 0;
    if (even != 0) {
        struct scan_block b;
        scan_block(t, p, (size_t)even, &b);
        if (b.special) {
            even = 0;
        } else {
            stats->elements += even;
            stats->zero += b.zero;
            stats->denormal += b.denormal;
            stats->abs_max = b.abs_max > stats->abs_max ? b.abs_max : stats->abs_max;
            stats->sum_squares += b.squares;
        }
    } else if (all_zero(p, (size_t)(count * size))) {
        stats->elements += count;
        stats->zero += count;
        return;
    }
    if (even < count) {
        tensor_scan_plain(t, p + even * size, count - even, index + even, stats);
    }
}

void tensor_scan(enum dtype t, const unsigned char *p, uint64_t count, uint64_t place,
                 uint64_t index, struct tensor_stats *stats)
{
    unsigned size = dtype_info(t)->size;
    bool vectors = scan_block_supported(t);
    uint64_t done = 0;
    while (done < count) {
        /* Elements that begin before the next page boundary. */
        uint64_t at = place + done * size;
        uint64_t room = SCAN_PAGE - at % SCAN_PAGE;
        uint64_t n = (room + size - 1) / size;
        n = n < count - done ? n : count - done;
        uint64_t zeros = stats->zero;
        scan_part(t, vectors, p + done * size, n, index + done, stats);
        stats->zero_pages += stats->zero - zeros == n && n * size >= SCAN_PAGE;
        done += n;
    }
}

/* Whole pages of the file inside of [place, place + n) that hold only zeros. */
static uint64_t zero_pages(const unsigned char *p, uint64_t n, uint64_t place)
{
    uint64_t pages = 0;
    uint64_t at = (SCAN_PAGE - place % SCAN_PAGE) % SCAN_PAGE;
    for (; at < n && n - at >= SCAN_PAGE; at += SCAN_PAGE) {
        pages += all_zero(p + at, SCAN_PAGE);
    }
    return pages;
}

void tensor_scan_blocks(const struct tensor_type *t, const unsigned char *p, uint64_t blocks,
                        uint64_t place, uint64_t block, struct tensor_stats *stats)
{
    float values[BATCH];
    bool vectors = scan_block_supported(DTYPE_F32);
    for (uint64_t i = 0; i < blocks;) {
        uint64_t first = (block + i) * t->per_block;
        size_t n = 0;
        for (; n + t->per_block <= BATCH && i < blocks; i++, n += t->per_block) {
            tensor_block_values(t, p + i * t->block_bytes, values + n);
        }
        scan_part(DTYPE_F32, vectors, (const unsigned char *)values, n, first, stats);
    }
    stats->zero_pages += zero_pages(p, blocks * t->block_bytes, place);
}
