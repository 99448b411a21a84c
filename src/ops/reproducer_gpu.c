// SPDX-License-Identifier: Apache-2.0
/*
 * The values of the template of cuBLASLt, cuBLAS, hipBLASLt and rocBLAS: their numbers for operations, types and
 * attributes. Sources as in device/cublaslt.c, device/cublas.c, device/hipblaslt.c and device/rocblas.c.
 */
#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

#include "ops/gemm_case.h"
#include "ops/reproducer_fill.h"

enum {
    CHECKED_MAX = 1 << 27 /* elements of C that are compared */
};

/* What differs between the libraries; NULL and -1 where there is none. */
struct gpu_numbers {
    const struct gemm_vendor *vendor;
    const char *word;   /* of the template */
    const char *prefix; /* of the library's functions */
    const char *symbol; /* of the product */
    bool cuda;
    int none, transpose;                 /* operations */
    int f16, bf16, f32, f64, e4m3, e5m2; /* types */
    int compute_f32, compute_f64, compute_tf32;
    int desc_a, desc_b, desc_epilogue, desc_bias, desc_bias_type;
    int layout_batch, layout_stride;
    int key_bytes, result_bytes;
};

static const struct gpu_numbers libraries[] = {
    {.vendor = &gemm_vendor_cublaslt,
     .word = "lt",
     .prefix = "cublasLt",
     .symbol = "cublasLtMatmul",
     .cuda = true,
     .none = 0,
     .transpose = 1,
     .f16 = 2,
     .bf16 = 14,
     .f32 = 0,
     .f64 = 1,
     .e4m3 = 28,
     .e5m2 = 29,
     .compute_f32 = 68,
     .compute_f64 = 70,
     .compute_tf32 = 77,
     .desc_a = 3,
     .desc_b = 4,
     .desc_epilogue = 7,
     .desc_bias = 8,
     .desc_bias_type = 26,
     .layout_batch = 5,
     .layout_stride = 6,
     .key_bytes = 64,
     .result_bytes = 96},
    {.vendor = &gemm_vendor_cublas,
     .word = "cublas",
     .prefix = "cublas",
     .symbol = "cublasGemmStridedBatchedEx",
     .cuda = true,
     .none = 0,
     .transpose = 1,
     .f16 = 2,
     .bf16 = 14,
     .f32 = 0,
     .f64 = 1,
     .e4m3 = -1,
     .e5m2 = -1,
     .compute_f32 = 68,
     .compute_f64 = 70,
     .compute_tf32 = 77,
     .desc_a = -1,
     .desc_b = -1,
     .desc_epilogue = -1,
     .desc_bias = -1,
     .desc_bias_type = -1,
     .layout_batch = -1,
     .layout_stride = -1,
     .key_bytes = 4,
     .result_bytes = 0},
    {.vendor = &gemm_vendor_hipblaslt,
     .word = "lt",
     .prefix = "hipblasLt",
     .symbol = "hipblasLtMatmul",
     .cuda = false,
     .none = 111,
     .transpose = 112,
     .f16 = 2,
     .bf16 = 14,
     .f32 = 0,
     .f64 = 1,
     .e4m3 = 28,
     .e5m2 = 29,
     .compute_f32 = 2,
     .compute_f64 = 7,
     .compute_tf32 = 6,
     .desc_a = 0,
     .desc_b = 1,
     .desc_epilogue = 2,
     .desc_bias = 3,
     .desc_bias_type = 4,
     .layout_batch = 0,
     .layout_stride = 1,
     .key_bytes = 4,
     .result_bytes = 56},
    {.vendor = &gemm_vendor_rocblas,
     .word = "rocblas",
     .prefix = "rocblas_",
     .symbol = "rocblas_gemm_strided_batched_ex",
     .cuda = false,
     .none = 111,
     .transpose = 112,
     .f16 = 150,
     .bf16 = 168,
     .f32 = 151,
     .f64 = 152,
     .e4m3 = -1,
     .e5m2 = -1,
     .compute_f32 = 151,
     .compute_f64 = 152,
     .compute_tf32 = -1,
     .desc_a = -1,
     .desc_b = -1,
     .desc_epilogue = -1,
     .desc_bias = -1,
     .desc_bias_type = -1,
     .layout_batch = -1,
     .layout_stride = -1,
     .key_bytes = 4,
     .result_bytes = 0},
};

static int epilogue_number(enum gemm_epilogue epilogue)
{
    static const int numbers[GEMM_EPILOGUE_COUNT] = {
        [GEMM_EPILOGUE_NONE] = 1,  [GEMM_EPILOGUE_BIAS] = 4,      [GEMM_EPILOGUE_RELU] = 2,
        [GEMM_EPILOGUE_GELU] = 32, [GEMM_EPILOGUE_BIAS_RELU] = 6, [GEMM_EPILOGUE_BIAS_GELU] = 36,
    };
    return numbers[epilogue];
}

static int type_number(const struct gpu_numbers *n, enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return n->f16;
    case DTYPE_BF16: return n->bf16;
    case DTYPE_F32: return n->f32;
    case DTYPE_F64: return n->f64;
    case DTYPE_F8_E4M3FN: return n->e4m3;
    case DTYPE_F8_E5M2: return n->e5m2;
    default: return -1;
    }
}

static const char *c_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return "_Float16";
    case DTYPE_BF16: return "uint16_t";
    case DTYPE_F32: return "float";
    case DTYPE_F64: return "double";
    default: return "uint8_t";
    }
}

static const struct gpu_numbers *numbers_of(const struct gemm_vendor *vendor)
{
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++) {
        if (libraries[i].vendor == vendor) {
            return &libraries[i];
        }
    }
    return NULL;
}

/* Faults that show without numbers: accesses, and calls that do not come back. */
static bool shows_by_running(enum gemm_fault_kind kind)
{
    return fill_is_edge(kind) || kind == GEMM_DEVICE_LOST || kind == GEMM_ABORTS ||
           kind == GEMM_CRASHES || kind == GEMM_HANGS || kind == GEMM_ILLEGAL;
}

static enum status check_numbers(const struct reproducer *r, struct err *err)
{
    const struct gemm_shape *s = &r->diagnosis->probe.shape;
    bool wide_input = dtype_info(s->dtype_ab)->size >= 2;
    bool plain = s->epilogue == GEMM_EPILOGUE_NONE || s->epilogue == GEMM_EPILOGUE_BIAS;
    if (!wide_input || !plain || s->beta != 0 || gemm_extent_c(s) > CHECKED_MAX) {
        return err_set(err, ST_UNSUPPORTED,
                       "no template of a reproducer compares numbers of this product (8-bit "
                       "inputs, an activation, beta other than 0, or too many elements)");
    }
    return ST_OK;
}

static void add_words(struct fill *f, const struct gpu_numbers *n, const struct reproducer *r)
{
    const struct gemm_shape *s = &r->diagnosis->probe.shape;
    fill_word(f, n->word);
    fill_word(f, n->cuda ? "cuda" : "hip");
    if (shows_by_running(r->diagnosis->fault.kind)) {
        fill_word(f, "edge");
    } else {
        fill_word(f, "check");
        fill_word(f, s->dtype_ab == DTYPE_BF16 ? "check_bf16" : "check_plain");
    }
    if (s->epilogue != GEMM_EPILOGUE_NONE) {
        fill_word(f, "epilogue");
    }
    if ((epilogue_number(s->epilogue) & epilogue_number(GEMM_EPILOGUE_BIAS)) != 0) {
        fill_word(f, "bias");
    }
    if (s->batch > 1) {
        fill_word(f, "batch");
    }
    if (n->cuda) {
        fill_word(f, "alignment");
    }
}

static void add_algorithm(struct fill *f, const struct gpu_numbers *n,
                          const struct gemm_choice *choice)
{
    struct strbuf words;
    int32_t solution = 0;
    strbuf_init(&words, f->arena, 400);
    for (int at = 0; at < n->key_bytes; at += (int)sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, choice->opaque + at, sizeof word);
        strbuf_fmt(&words, "%s0x%" PRIx64, at != 0 ? ", " : "", word);
    }
    if (choice->id >= 0) {
        memcpy(&solution, choice->opaque, sizeof solution);
    }
    fill_text(f, "ALGORITHM", words.p);
    fill_int(f, "SOLUTION", solution);
}

static const char *bound_text(struct arena *a, const struct gemm_shape *s)
{
    struct gemm_bound b;
    gemm_bound_make(s, GEMM_VALUES_GRID, &b);
    return arena_fmt(a, "%.9g * fabs(alpha) * size + %.9g + %.9g * fabs(want)", b.product,
                     b.absolute, b.output);
}

static void add_numbers(struct fill *f, const struct gpu_numbers *n, const struct gemm_shape *s)
{
    bool f64 = s->dtype_ab == DTYPE_F64;
    int compute = f64                               ? n->compute_f64
                  : s->compute == GEMM_COMPUTE_TF32 ? n->compute_tf32
                                                    : n->compute_f32;

    const struct {
        const char *name;
        int value;
    } values[] = {
        {"OP_A", s->transpose_a ? n->transpose : n->none},
        {"OP_B", s->transpose_b ? n->transpose : n->none},
        {"TYPE_AB", type_number(n, s->dtype_ab)},
        {"TYPE_C", type_number(n, s->dtype_c)},
        {"COMPUTE", compute},
        {"SCALE", f64 ? n->f64 : n->f32},
        {"EPILOGUE", epilogue_number(s->epilogue)},
        {"ATTRIBUTE_A", n->desc_a},
        {"ATTRIBUTE_B", n->desc_b},
        {"ATTRIBUTE_EPILOGUE", n->desc_epilogue},
        {"ATTRIBUTE_BIAS", n->desc_bias},
        {"ATTRIBUTE_BIAS_TYPE", n->desc_bias_type},
        {"ATTRIBUTE_BATCH", n->layout_batch},
        {"ATTRIBUTE_STRIDE", n->layout_stride},
        {"KEY_BYTES", n->key_bytes},
        {"RESULT_BYTES", n->result_bytes},
    };

    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        fill_int(f, values[i].name, values[i].value);
    }
    size_t alignment = s->alignment_bytes != 0 ? s->alignment_bytes : dtype_info(s->dtype_c)->size;
    fill_int(f, "ALIGNMENT", (int64_t)alignment);
}

enum status fill_gpu(struct fill *f, const struct reproducer *r, struct err *err)
{
    const struct gemm_probe *p = &r->diagnosis->probe;
    const struct gemm_shape *s = &p->shape;
    const struct gpu_numbers *n = numbers_of(r->target->vendor);
    if (n == NULL) {
        return err_set(err, ST_UNSUPPORTED, "no template of a reproducer knows how to call %s",
                       r->target->vendor->name);
    }
    if (!shows_by_running(r->diagnosis->fault.kind)) {
        TRY(check_numbers(r, err));
    }
    const struct device_options *options = r->target->device_options;
    const char *driver = n->cuda ? "libcuda.so.1" : "libamdhip64.so.7";
    const char *runtime = options != NULL && options->library != NULL ? options->library : driver;
    const char *who = p->only == 0 ? "Each operand"
                                   : arena_fmt(f->arena, "Operand %c", "ABC"[(p->only - 1) % 3]);
    add_words(f, n, r);
    add_numbers(f, n, s);
    add_algorithm(f, n, &r->diagnosis->fault.choice);
    fill_text(f, "SYMBOL", n->symbol);
    fill_text(f, "L", n->prefix);
    fill_text(f, "P", n->cuda ? "cu" : "hip");
    fill_text(f, "V2", n->cuda ? "_v2" : "");
    fill_text(f, "MALLOC", n->cuda ? "cuMemAlloc_v2" : "hipMalloc");
    fill_text(f, "SYNC", n->cuda ? "cuCtxSynchronize" : "hipDeviceSynchronize");
    fill_text(f, "RUNTIME", fill_library(f->arena, runtime));
    fill_text(f, "INPUT", c_type(s->dtype_ab));
    fill_text(f, "OUTPUT", c_type(s->dtype_c));
    fill_text(f, "SCALAR", s->dtype_ab == DTYPE_F64 ? "double" : "float");
    fill_text(f, "VALUE_C", s->dtype_c == DTYPE_BF16 ? "value" : "(double)");
    fill_text(f, "BOUND", bound_text(f->arena, s));
    fill_text(f, "WHO", who);
    fill_int(f, "ONLY", p->only);
    return ST_OK;
}
