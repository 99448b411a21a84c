// SPDX-License-Identifier: Apache-2.0
/*
 * The rate of the vendor's matrix product for each number format, beside the peak of the part.
 */
#include <stddef.h>
#include <string.h>

#include "base/str.h"

#include "device/gemm.h"
#include "ops/figures_inside.h"

enum {
    RUNS = 10,
    ALGORITHMS = 8
};

/* Dense peaks in TFLOP/s from the vendors' data sheets; 0: none. */
static const struct part {
    const char *name; /* part of the device's name */
    double f64, f32, tf32, f16, fp8;
} parts[] = {
    {"NVIDIA H200", 67, 67, 494.7, 989.4, 1978.9},
    {"NVIDIA H100 80GB HBM3", 67, 67, 494.7, 989.4, 1978.9},
    {"MI300X", 163.4, 163.4, 653.7, 1307.4, 2614.9},
};

static const struct form {
    const char *what;
    enum dtype ab, c;
    enum gemm_compute compute;
    size_t peak; /* offset in struct part */
} forms[] = {
    {"matrix product float32", DTYPE_F32, DTYPE_F32, GEMM_COMPUTE_DEFAULT,
     offsetof(struct part, f32)},
    {"matrix product tf32", DTYPE_F32, DTYPE_F32, GEMM_COMPUTE_TF32, offsetof(struct part, tf32)},
    {"matrix product float16", DTYPE_F16, DTYPE_F16, GEMM_COMPUTE_DEFAULT,
     offsetof(struct part, f16)},
    {"matrix product bfloat16", DTYPE_BF16, DTYPE_BF16, GEMM_COMPUTE_DEFAULT,
     offsetof(struct part, f16)},
    {"matrix product fp8 to bfloat16", DTYPE_F8_E4M3FN, DTYPE_BF16, GEMM_COMPUTE_DEFAULT,
     offsetof(struct part, fp8)},
};

static double peak_of(const struct device *device, size_t offset)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (strstr(device->info.name, parts[i].name) != NULL) {
            double peak;
            memcpy(&peak, (const char *)&parts[i] + offset, sizeof peak);
            return peak;
        }
    }
    return 0;
}

static const struct gemm_vendor *vendor_of(enum device_kind kind)
{
    switch (kind) {
    case DEVICE_CUDA: return &gemm_vendor_cublaslt;
    case DEVICE_HIP: return &gemm_vendor_hipblaslt;
    case DEVICE_OPENCL: return &gemm_vendor_clblast;
    default: return NULL; /* CPU libraries have a trial of their own */
    }
}

/* A GPU with memory clocks of its own is fed well by a large problem; anything else is a processor. */
static int64_t size_for(const struct device *device)
{
    enum {
        LARGE = 8192,
        SMALL = 256
    };

    bool gpu = device->info.kind == DEVICE_CUDA || device->info.kind == DEVICE_HIP;
    return gpu ? LARGE : SMALL;
}

static enum status time_runs(const struct gemm_vendor *vendor, struct gemm_library *library,
                             struct device *device, const struct gemm_shape *shape,
                             const struct gemm_operands *o, double *ret_seconds, struct err *err)
{
    struct gemm_choice choices[ALGORITHMS];
    size_t count;
    TRY(vendor->choices(library, shape, choices, ALGORITHMS, &count, err));
    TRY(vendor->run(library, shape, o, &choices[0], err));
    TRY(device_sync(device, err));
    double start = figures_now();
    for (int i = 0; i < RUNS; i++) {
        TRY(vendor->run(library, shape, o, &choices[0], err));
    }
    TRY(device_sync(device, err));
    *ret_seconds = (figures_now() - start) / RUNS;
    return ST_OK;
}

static enum status rate(const struct gemm_vendor *vendor, struct gemm_library *library,
                        struct device *device, const struct form *form, double *ret_tflops,
                        struct err *err)
{
    int64_t n = size_for(device);
    struct gemm_shape shape = {
        .m = n,
        .n = n,
        .k = n,
        .lda = n,
        .ldb = n,
        .ldc = n,
        .batch = 1,
        .transpose_a = true, /* the form that every library has for 8-bit formats */
        .dtype_ab = form->ab,
        .dtype_c = form->c,
        .compute = form->compute,
        .alpha = 1,
        .alignment_bytes = 256,
    };
    if (!vendor->supports(library, &shape)) {
        return err_set(err, ST_UNSUPPORTED, "%s has no such product", vendor->name);
    }
    const size_t workspace = (size_t)32 << 20;
    size_t bytes = (size_t)(n * n) * sizeof(double);
    void *blocks[4] = {0};
    enum status st = ST_OK;
    for (size_t i = 0; i < ARRAY_LEN(blocks) && st == ST_OK; i++) {
        st = device_alloc(device, i == 3 ? workspace : bytes, &blocks[i], err);
        /* Zeros would flatter: they save power. This word is small numbers in every format. */
        st = st == ST_OK && i < 3 ? device_fill(device, blocks[i], 0x3c3b3a39, bytes, err) : st;
    }
    const struct gemm_operands o = {.a = blocks[0],
                                    .b = blocks[1],
                                    .c = blocks[2],
                                    .workspace = blocks[3],
                                    .workspace_bytes = workspace};
    double seconds = 0;
    if (st == ST_OK) {
        st = time_runs(vendor, library, device, &shape, &o, &seconds, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        device_free(device, blocks[i]);
    }
    TRY(st);
    *ret_tflops = 2.0 * (double)n * (double)n * (double)n / seconds / 1e12;
    return ST_OK;
}

void figures_gemm(struct device *device, struct arena *a, struct figures *to)
{
    const struct gemm_vendor *vendor = vendor_of(device->info.kind);
    struct gemm_library *library = NULL;
    struct err err;
    if (vendor == NULL) {
        return;
    }
    if (vendor->open(a, device, NULL, &library, &err) != ST_OK) {
        figures_failed(figures_add(to, "matrix products", "TFLOP/s"), &err);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        double tflops = 0;
        enum status st = rate(vendor, library, device, &forms[i], &tflops, &err);
        if (st == ST_UNSUPPORTED) {
            continue;
        }
        struct figure *f = figures_add(to, forms[i].what, "TFLOP/s");
        if (st == ST_OK) {
            figures_set_rate(f, tflops, peak_of(device, forms[i].peak));
            str_print(f->note, sizeof f->note, "%s %s, size %lld", vendor->name,
                      vendor->version(library), (long long)size_for(device));
        } else {
            figures_failed(f, &err);
        }
    }
}
