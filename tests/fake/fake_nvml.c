// SPDX-License-Identifier: Apache-2.0
/*
 * libnvidia-ml with a board of fixed readings at every PCI address but one that ends in "ff:00.0". ASSAY_FAKE_NVML:
 * no-start (the driver does not answer), no-ecc (a board without), hot (throttled by heat).
 */
#include <stdbool.h>
#include <string.h>

#include "fake.h"

#define VARIABLE "ASSAY_FAKE_NVML"

enum {
    SUCCESS = 0,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9
};

static int board;

FAKE_EXPORT int nvmlInit_v2(void)
{
    return fake_asked(VARIABLE, "no-start") ? DRIVER_NOT_LOADED : SUCCESS;
}

FAKE_EXPORT const char *nvmlErrorString(int result)
{
    return result == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

FAKE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
    size_t n = strlen(pci);
    *device = &board;
    return n > 7 && strcmp(pci + n - 7, "ff:00.0") == 0 ? NOT_FOUND : SUCCESS;
}

FAKE_EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    *celsius = fake_asked(VARIABLE, "hot") ? 91 : 34;
    return device == &board && sensor == 0 ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 123456;
    return device == &board ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    *milliwatts = 700000;
    return device == &board ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz)
{
    *mhz = 1980;
    return device == &board && which == 1 ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned *percent)
{
    percent[0] = 87;
    percent[1] = 12;
    return device == &board ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *bytes)
{
    bytes[0] = 150754820096ull;
    bytes[1] = 150754820096ull - 1073741824ull;
    bytes[2] = 1073741824ull;
    return device == &board ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter,
                                            unsigned long long *count)
{
    *count = type == 1 ? 2 : 5;
    return fake_asked(VARIABLE, "no-ecc")     ? NOT_SUPPORTED
           : device == &board && counter == 0 ? SUCCESS
                                              : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *list)
{
    (void)list;
    *count = 3;
    return device == &board ? INSUFFICIENT_SIZE : NOT_FOUND;
}

FAKE_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    *reasons = fake_asked(VARIABLE, "hot") ? 0x40 | 0x04 : 0x01; /* idle is no reason */
    return device == &board ? SUCCESS : NOT_FOUND;
}
