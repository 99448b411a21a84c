// SPDX-License-Identifier: Apache-2.0
/* See nvml.h. */
#include "device/nvml.h"

#include <math.h>
#include <stddef.h>

#include "device/library.h"

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_api {
    int (*init)(void);
    const char *(*error_text)(int result);
    int (*by_pci)(const char *pci, void **device);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*power_limit)(void *device, unsigned *milliwatts);
    int (*clock)(void *device, int which, unsigned *mhz);
    int (*utilization)(void *device, struct nvml_utilization *percent);
    int (*memory)(void *device, struct nvml_memory *bytes);
    int (*ecc)(void *device, int type, int counter, unsigned long long *count);
    int (*processes)(void *device, unsigned *count, void *list);
    int (*throttle)(void *device, unsigned long long *reasons);
};

struct nvml {
    struct library library;
    struct nvml_api api;
};

enum {
    FEATURE_START = 0,
    FEATURE_READINGS,
    SUCCESS = 0,
    INSUFFICIENT_SIZE = 7, /* of the list of processes: the count is set all the same */
    SENSOR_GPU = 0,
    CLOCK_SM = 1,
    ECC_CORRECTED = 0,
    ECC_UNCORRECTED = 1,
    COUNTER_VOLATILE = 0,
    THROTTLE_MASK = NVML_THROTTLE_POWER_CAP | NVML_THROTTLE_HARDWARE |
                    NVML_THROTTLE_THERMAL_SOFTWARE | NVML_THROTTLE_THERMAL_HARDWARE |
                    NVML_THROTTLE_POWER_BRAKE
};

#define ROW(name, slot, feature)                           \
 {                                                         \
  name, offsetof(struct nvml_api, slot), FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("nvmlInit_v2", init, START),
    ROW("nvmlErrorString", error_text, READINGS),
    ROW("nvmlDeviceGetHandleByPciBusId_v2", by_pci, START),
    ROW("nvmlDeviceGetTemperature", temperature, READINGS),
    ROW("nvmlDeviceGetPowerUsage", power, READINGS),
    ROW("nvmlDeviceGetEnforcedPowerLimit", power_limit, READINGS),
    ROW("nvmlDeviceGetClockInfo", clock, READINGS),
    ROW("nvmlDeviceGetUtilizationRates", utilization, READINGS),
    ROW("nvmlDeviceGetMemoryInfo", memory, READINGS),
    ROW("nvmlDeviceGetTotalEccErrors", ecc, READINGS),
    ROW("nvmlDeviceGetComputeRunningProcesses_v3", processes, READINGS),
    ROW("nvmlDeviceGetCurrentClocksThrottleReasons", throttle, READINGS),
};
#undef ROW

static const char *const names[] = {"libnvidia-ml.so.1",
                                    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
                                    "/usr/lib/wsl/lib/libnvidia-ml.so.1", NULL};

enum status nvml_open(struct arena *a, const char *path, struct nvml **ret_nvml, struct err *err)
{
    const char *missing[LIBRARY_FEATURES_MAX] = {NULL};
    struct nvml *n = arena_alloc(a, sizeof *n);
    TRY(library_open(a, path, names, &n->library, err));
    library_bind(&n->library, symbols, sizeof symbols / sizeof *symbols, &n->api, missing);
    if (missing[FEATURE_START] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s: it is no NVML, or one of before 2012",
                       n->library.path, missing[FEATURE_START]);
    }
    int result = n->api.init();
    if (result != SUCCESS) {
        const char *text = n->api.error_text != NULL ? n->api.error_text(result) : NULL;
        return err_set(err, ST_IO, "%s does not start: %s (%d)", n->library.path,
                       text != NULL ? text : "no text", result);
    }
    *ret_nvml = n;
    return ST_OK;
}

static double ecc(const struct nvml_api *api, void *device, int type)
{
    unsigned long long count = 0;
    return api->ecc != NULL && api->ecc(device, type, COUNTER_VOLATILE, &count) == SUCCESS
               ? (double)count
               : NAN;
}

static void read_board(const struct nvml_api *api, void *device, double r[NVML_READING_COUNT])
{
    const double milli = 1e-3;
    unsigned v = 0;
    if (api->temperature != NULL && api->temperature(device, SENSOR_GPU, &v) == SUCCESS) {
        r[NVML_CELSIUS] = v;
    }
    if (api->power != NULL && api->power(device, &v) == SUCCESS) {
        r[NVML_WATTS] = v * milli;
    }
    if (api->power_limit != NULL && api->power_limit(device, &v) == SUCCESS) {
        r[NVML_LIMIT_WATTS] = v * milli;
    }
    if (api->clock != NULL && api->clock(device, CLOCK_SM, &v) == SUCCESS) {
        r[NVML_CLOCK_MHZ] = v;
    }
    unsigned long long reasons = 0;
    if (api->throttle != NULL && api->throttle(device, &reasons) == SUCCESS) {
        r[NVML_THROTTLE] = (double)(reasons & THROTTLE_MASK);
    }
}

static void read_use(const struct nvml_api *api, void *device, double r[NVML_READING_COUNT])
{
    struct nvml_utilization busy = {0};
    struct nvml_memory memory = {0};
    unsigned count = 0;
    if (api->utilization != NULL && api->utilization(device, &busy) == SUCCESS) {
        r[NVML_BUSY_PERCENT] = busy.gpu;
    }
    if (api->memory != NULL && api->memory(device, &memory) == SUCCESS) {
        r[NVML_MEMORY_BYTES] = (double)memory.total;
        r[NVML_MEMORY_USED_BYTES] = (double)memory.used;
    }
    if (api->processes != NULL) {
        int result = api->processes(device, &count, NULL);
        r[NVML_PROCESSES] = result == SUCCESS || result == INSUFFICIENT_SIZE ? count : NAN;
    }
    r[NVML_UNCORRECTED] = ecc(api, device, ECC_UNCORRECTED);
    r[NVML_CORRECTED] = ecc(api, device, ECC_CORRECTED);
}

void nvml_read(struct nvml *n, const char *pci, double ret_readings[NVML_READING_COUNT])
{
    void *device = NULL;
    for (int i = 0; i < NVML_READING_COUNT; i++) {
        ret_readings[i] = NAN;
    }
    if (n->api.by_pci(pci, &device) == SUCCESS && device != NULL) {
        read_board(&n->api, device, ret_readings);
        read_use(&n->api, device, ret_readings);
    }
}
