// SPDX-License-Identifier: Apache-2.0
/*
 * Which rank of a job wrote a line: ranks of one node share one output, and a pipe does not tell who wrote into
 * it. Each Python process that has a rank keeps lines.<pid> in the run folder: a ring of digests of the lines it
 * wrote to its standard output and error through write(2). The supervisor looks a line up by its digest. The one
 * header that the preloaded writer and the reader share.
 */
#ifndef ASSAY_RECORDER_LINE_FORMAT_H
#define ASSAY_RECORDER_LINE_FORMAT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_MAGIC "ASSAYLIN"

enum {
    LINES_RING = 4096,   /* a power of two */
    LINES_DIGESTED = 400 /* bytes of a line; what follows is not looked at */
};

struct lines_file {
    char magic[8];
    int32_t pid, rank, local_rank; /* -1: not told */
    int32_t unused;
    _Atomic uint64_t written;             /* lines so far; line i is at i % LINES_RING */
    _Atomic uint64_t digests[LINES_RING]; /* 0: none, or looked up already */
};

/* FNV-1a over the line without its end; never 0. Start with LINES_DIGEST_START. */
#define LINES_DIGEST_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t lines_digest_byte(uint64_t digest, unsigned char byte)
{
    return (digest ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t lines_digest_end(uint64_t digest)
{
    return digest != 0 ? digest : 1;
}

#endif
