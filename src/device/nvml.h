// SPDX-License-Identifier: Apache-2.0
/*
 * What NVIDIA's management library says of a GPU now: libnvidia-ml.so.1, by dlopen. It makes no context on the GPU and
 * needs no CUDA. Source: nvml.h 12. A reading that the library or the board does not give is NAN.
 */
#ifndef ASSAY_DEVICE_NVML_H
#define ASSAY_DEVICE_NVML_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct nvml;

enum nvml_reading {
    NVML_CELSIUS = 0,
    NVML_WATTS,
    NVML_LIMIT_WATTS,
    NVML_CLOCK_MHZ,
    NVML_BUSY_PERCENT,
    NVML_MEMORY_BYTES,
    NVML_MEMORY_USED_BYTES,
    NVML_UNCORRECTED, /* ECC errors since the driver was loaded */
    NVML_CORRECTED,
    NVML_PROCESSES,
    NVML_THROTTLE, /* bits below; 0: none of them */
    NVML_READING_COUNT
};

/* Of NVML_THROTTLE: reasons for which a board is slower than it could be. Idle and chosen clocks are none. */
enum {
    NVML_THROTTLE_POWER_CAP = 0x04,
    NVML_THROTTLE_HARDWARE = 0x08,
    NVML_THROTTLE_THERMAL_SOFTWARE = 0x20,
    NVML_THROTTLE_THERMAL_HARDWARE = 0x40,
    NVML_THROTTLE_POWER_BRAKE = 0x80
};

/* `path` NULL: the loader's. ST_ABSENT: there is no such library. Stays open until the process ends. */
enum status nvml_open(struct arena *a, const char *path, struct nvml **ret_nvml,
                      struct err *err) MUST_USE;

/* Of the GPU at a PCI address, as "0000:1b:00.0". All NAN when the library does not know it. */
void nvml_read(struct nvml *n, const char *pci, double ret_readings[NVML_READING_COUNT]);

#endif
