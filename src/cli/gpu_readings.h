// SPDX-License-Identifier: Apache-2.0
/* What the GPUs and the host say of themselves now, read again and again: a few facts, not all of them. */
#ifndef ASSAY_CLI_GPU_READINGS_H
#define ASSAY_CLI_GPU_READINGS_H

#include "base/fs.h"

#include "device/nvml.h"
#include "facts/facts.h"
#include "study/anomaly.h"

enum {
    GPU_READINGS_MAX = 64
};

struct gpu_readings {
    struct fs fs;
    struct arena *arena;  /* of the last reading */
    struct facts *facts;  /* NULL before the first */
    int count;            /* GPUs, at most GPU_READINGS_MAX */
    double taken;         /* monotonic seconds */
    struct nvml *nvml;    /* NULL: not there */
    const char *nvml_why; /* why it is there and cannot be used; NULL */
};

/* `root`: "" for this machine, whose NVIDIA GPUs are asked through NVML; of another root only with `nvml`, the path of
 * that library, which otherwise may be NULL. ST_ABSENT when `nvml` cannot be used. */
enum status gpu_readings_open(struct arena *a, const char *root, const char *nvml,
                              struct gpu_readings *ret_readings, struct err *err) MUST_USE;

/* Reads anew; texts of the reading before are gone. */
void gpu_readings_take(struct gpu_readings *r);

/* A field of a GPU: NaN when it is not known. The text form: NULL. */
double gpu_readings_number(const struct gpu_readings *r, int gpu, const char *field);
const char *gpu_readings_text(const struct gpu_readings *r, int gpu, const char *field);

/* What the detector compares; returns the number of GPUs. */
size_t gpu_readings_compare(const struct gpu_readings *r,
                            struct anomaly_gpu ret_gpus[GPU_READINGS_MAX]);

void gpu_readings_close(struct gpu_readings *r);

#endif
