// SPDX-License-Identifier: Apache-2.0
/*
 * ZIP archives as torch.save writes them, and as an attacker writes them: every member is described
 * three times (central directory, local header, data), and readers differ in which they believe.
 * This one reads all three and reports where they disagree. Nothing is extracted to disk.
 *
 * Source: PKWARE APPNOTE 6.3.10 (4.3 structure, 4.4.9 zip64, 4.4.4 flags). Stored and deflated
 * members are read; encryption, spanning and other methods are reported and refused.
 */
#ifndef ASSAY_MODEL_ZIP_H
#define ASSAY_MODEL_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include "model/issue.h"

struct zip_member {
    struct str name; /* as stored in the central directory */
    uint16_t method; /* 0 stored, 8 deflated */
    uint16_t flags;
    uint32_t crc;
    uint64_t packed;    /* bytes in the archive */
    uint64_t size;      /* bytes unpacked, as claimed */
    uint64_t header_at; /* of the local header, in the file */
    uint64_t data_at;   /* in the file; valid when readable */
    uint64_t end_at;    /* behind the data and its descriptor; valid when readable */
    bool readable;      /* headers agree, the data lies inside the archive, the method is known */
};

struct zip {
    struct str bytes;
    struct zip_member *members; /* in the order of the central directory */
    size_t count;
    uint64_t directory_at;
    uint64_t prefix;   /* bytes in front of the archive */
    bool without_sums; /* every CRC-32 is 0, and not because the members are empty */
};

/* True when the bytes begin like a ZIP archive with a member, which is how torch tells it. */
bool zip_looks_like(struct str bytes);

/*
 * Reads the directory and checks every local header against it. Disagreements become issues
 * (ids zip-...). ST_FORMAT when there is no usable directory: cut off, or not an archive.
 */
enum status zip_open(struct arena *a, struct str bytes, struct issues *issues, struct zip *ret_zip,
                     struct err *err) MUST_USE;

/* Index of the member of that name, or SIZE_MAX. The last one of several, like torch and Python. */
size_t zip_find(const struct zip *z, struct str name);

/* Content of a member: a view into the archive when stored, else unpacked onto the arena, at most
 * `ceiling` bytes. Does not check the CRC. */
enum status zip_read(struct arena *a, const struct zip *z, size_t index, uint64_t ceiling,
                     struct str *ret_content, struct err *err) MUST_USE;

/* The CRC-32 of bytes that follow those of `crc` (0 at first), and what it says about the member. */
uint32_t zip_crc(uint32_t crc, struct str bytes);
enum status zip_crc_judge(const struct zip_member *m, uint32_t crc, struct err *err) MUST_USE;

/* Reads a member from end to end and compares its CRC-32 and size; ST_FORMAT when they differ. */
enum status zip_verify(struct arena *scratch, const struct zip *z, size_t index,
                       struct err *err) MUST_USE;

#endif
