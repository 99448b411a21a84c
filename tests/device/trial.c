// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the device layer itself on trial on a real device: the proof, planted accesses of several
 * sizes past both sides, and a vendor library's matrix products over every algorithm under guard.
 * Used by h200.sh on a GPU and by the suite on the CPU back ends.
 *
 *   trial cuda prove
 *   trial cuda planted
 *   trial cuda gemm cublaslt [SECONDS [ALGORITHMS [LIBRARY]]]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/str.h"

#include "device/gemm.h"
#include "device/guard.h"
#include "device/isolate.h"
#include "device/kernels.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- prove ------------------------------------------------------------------------------------- */

static int prove(enum device_kind kind)
{
    struct guard_proof proof;
    struct err err;
    double start = now();
    if (guard_prove(kind, 0, NULL, &proof, &err) != ST_OK) {
        printf("prove: %s\n", err.text);
        return 2;
    }
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        printf("prove: %-24s %-6s %s\n", guard_proof_case_name((enum guard_proof_case)i),
               proof.cases[i].caught ? "yes" : "NO", proof.cases[i].how);
    }
    printf("prove: %s (%.1f s)\n", proof.sentence, now() - start);
    return proof.reads_proven && proof.writes_proven ? 0 : 1;
}

/* --- planted ----------------------------------------------------------------------------------- */

struct planted {
    enum device_kind kind;
    size_t operand_bytes;
    enum guard_side side;
    bool write;
    int64_t past; /* bytes past the side; 0: inside only */
    bool finished;
    struct guard_damage damage;
    struct err err;
};

static enum status plant(struct planted *p)
{
    struct arena *a = arena_new(0);
    struct device *device;
    struct guard *guard;
    struct guard_block block;
    void *sink;
    TRY(device_open(a, p->kind, 0, NULL, &device, &p->err));
    TRY(guard_open(a, device, &guard, &p->err));
    TRY(guard_alloc(guard, p->operand_bytes, p->side, 1, &block, &p->err));
    TRY(device_alloc(device, 64, &sink, &p->err));
    TRY(guard_poison(guard, &block, 0, &p->err));
    int64_t count = p->past == 0 ? (int64_t)p->operand_bytes : p->past;
    int64_t first = p->past == 0 ? 0 : p->side == GUARD_END ? (int64_t)p->operand_bytes : -p->past;
    const union kernel_argument arguments[] = {{.pointer = block.address},
                                               {.i64 = first},
                                               {.i64 = count},
                                               {.i32 = p->write},
                                               {.pointer = sink}};

    static const enum kernel_type types[] = {KERNEL_POINTER, KERNEL_I64, KERNEL_I64, KERNEL_I32,
                                             KERNEL_POINTER};
    const struct kernel_launch launch = {1, 1, ARRAY_LEN(arguments), arguments, types};
    enum status st = device_launch(device, &kernel_touch, &launch, &p->err);
    st = st == ST_OK ? device_sync(device, &p->err) : st;
    if (st != ST_OK) {
        isolate_report(device->event == DEVICE_EVENT_MEMORY_FAULT ? ENDING_DEVICE_FAULT
                                                                  : ENDING_DEVICE_LOST,
                       0, false, p->err.text);
        return st;
    }
    return guard_check(guard, &block, &p->damage, &p->err);
}

static void plant_in_child(void *context)
{
    struct planted *p = context;
    p->finished = plant(p) == ST_OK;
}

static int planted(enum device_kind kind)
{
    static const size_t sizes[] = {12, 4108, ((size_t)2 << 20) + 20};
    static const int64_t pasts[] = {0, 1, 4, 16, 64};
    struct planted *p = isolate_shared(sizeof *p);
    unsigned counts[2][2] = {{0}}; /* [planted][as it should be] */
    double start = now();
    for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(pasts) * 4; i++) {
        *p = (struct planted){
            .kind = kind,
            .operand_bytes = sizes[i / (ARRAY_LEN(pasts) * 4)],
            .past = pasts[i / 4 % ARRAY_LEN(pasts)],
            .side = i % 2 == 0 ? GUARD_END : GUARD_BEGIN,
            .write = i / 2 % 2 == 1,
        };
        struct isolate_end end;
        struct err err;
        if (isolate_run(NULL, plant_in_child, p, &end, &err) != ST_OK) {
            printf("planted: %s\n", err.text);
            return 2;
        }
        bool fault = end.ending == ENDING_MEMORY_FAULT || end.ending == ENDING_DEVICE_FAULT;
        bool good = p->past == 0 ? end.ending == ENDING_OK && p->finished && !p->damage.damaged
                                 : fault;
        counts[p->past != 0][good]++;
        if (!good) {
            printf("planted: operand %zu bytes, %s, %s, %" PRId64 " bytes past: %s %s\n",
                   p->operand_bytes, guard_side_name(p->side), p->write ? "write" : "read", p->past,
                   ending_name(end.ending), end.text[0] != '\0' ? end.text : p->err.text);
        }
    }
    unsigned all = counts[1][0] + counts[1][1];
    printf("planted: %u of %u planted accesses caught, %u of %u clean ones passed (%.1f s)\n",
           counts[1][1], all, counts[0][1], counts[0][0] + counts[0][1], now() - start);
    isolate_shared_free(p, sizeof *p);
    return counts[1][0] == 0 && counts[0][0] == 0 ? 0 : 1;
}

/* --- gemm -------------------------------------------------------------------------------------- */

enum {
    CHOICES_MAX = 4096,
    BYTES_MAX = 1 << 20
};

static const struct form {
    const char *name;
    enum dtype ab, c;
    enum gemm_compute compute;
    enum gemm_epilogue epilogue;
    int64_t batch;
} forms[] = {
    {"bf16", DTYPE_BF16, DTYPE_BF16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
    {"fp32", DTYPE_F32, DTYPE_F32, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
    {"fp16", DTYPE_F16, DTYPE_F16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
    {"tf32", DTYPE_F32, DTYPE_F32, GEMM_COMPUTE_TF32, GEMM_EPILOGUE_NONE, 1},
    {"bf16 to fp32", DTYPE_BF16, DTYPE_F32, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
    {"bf16 bias", DTYPE_BF16, DTYPE_BF16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_BIAS, 1},
    {"bf16 bias relu", DTYPE_BF16, DTYPE_BF16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_BIAS_RELU, 1},
    {"bf16 batch 3", DTYPE_BF16, DTYPE_BF16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 3},
    {"fp64", DTYPE_F64, DTYPE_F64, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
    {"fp8", DTYPE_F8_E4M3FN, DTYPE_BF16, GEMM_COMPUTE_DEFAULT, GEMM_EPILOGUE_NONE, 1},
};

static const int64_t sizes_m[] = {1, 8, 16, 33, 64, 127, 128, 256};
static const int64_t sizes_n[] = {1, 16, 17, 64, 130};
static const int64_t sizes_k[] = {1, 16, 31, 64, 100, 257};

struct tally {
    double started; /* when the first child was ready */
    size_t shapes, declined, runs, run_declined, wrong, damaged;
    size_t per_form[ARRAY_LEN(forms)];
    char first_wrong[300];
};

struct campaign {
    enum device_kind kind;
    const struct gemm_vendor *vendor;
    const char *library_path;
    size_t algorithms;
    double until;
    struct tally *tally; /* shared */
    /* of the child */
    struct arena *arena;
    struct device *device;
    struct guard *guard;
    struct gemm_library *library;
    struct guard_block workspace;
    struct gemm_choice *choices;
    double *a, *b, *bias, *reference, *bound;
    int32_t *rows, *columns;
    unsigned char *bytes, *expected;
};

static void fail(const char *what, const struct err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    isolate_report(ENDING_EXIT, 0, false, err->text);
    _Exit(1);
}

static void start_child(void *context)
{
    struct campaign *c = context;
    struct err err;
    c->arena = arena_new((size_t)8 << 30);
    if (device_open(c->arena, c->kind, 0, NULL, &c->device, &err) != ST_OK ||
        guard_open(c->arena, c->device, &c->guard, &err) != ST_OK ||
        c->vendor->open(c->arena, c->device, c->library_path, &c->library, &err) != ST_OK ||
        guard_alloc(c->guard, (size_t)32 << 20, GUARD_END, 256, &c->workspace, &err) != ST_OK) {
        fail("start", &err);
    }
    fprintf(stderr, "%s %s\n", c->vendor->name, c->vendor->version(c->library));
    c->choices = arena_array(c->arena, CHOICES_MAX, sizeof *c->choices);
    double **arrays[] = {&c->a, &c->b, &c->bias, &c->reference, &c->bound};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        *arrays[i] = arena_array(c->arena, BYTES_MAX, sizeof(double));
    }
    c->bytes = arena_alloc(c->arena, (size_t)8 * BYTES_MAX);
    c->expected = arena_alloc(c->arena, (size_t)8 * BYTES_MAX);
    c->rows = arena_array(c->arena, BYTES_MAX, sizeof *c->rows);
    c->columns = arena_array(c->arena, BYTES_MAX, sizeof *c->columns);
    if (c->tally->started == 0) {
        c->tally->started = now();
    }
}

static bool plan(size_t index, struct gemm_shape *s, const struct form **ret_form)
{
    const struct form *f = &forms[index % ARRAY_LEN(forms)];
    size_t rest = index / ARRAY_LEN(forms);
    *s = (struct gemm_shape){.alpha = 1, .batch = f->batch};
    s->transpose_a = rest % 2;
    s->transpose_b = rest / 2 % 2;
    rest /= 4;
    s->m = sizes_m[rest % ARRAY_LEN(sizes_m)];
    s->n = sizes_n[rest / ARRAY_LEN(sizes_m) % ARRAY_LEN(sizes_n)];
    s->k = sizes_k[rest / ARRAY_LEN(sizes_m) / ARRAY_LEN(sizes_n) % ARRAY_LEN(sizes_k)];
    s->dtype_ab = f->ab;
    s->dtype_c = f->c;
    s->compute = f->compute;
    s->epilogue = f->epilogue;
    /* Every other problem has its tight leading dimensions and, where they allow it, 16-byte
     * alignment; the others neither. */
    bool tight = index / 7 % 2 == 0;
    s->lda = (s->transpose_a ? s->k : s->m) + (tight ? 0 : 3);
    s->ldb = (s->transpose_b ? s->n : s->k) + (tight ? 0 : 1);
    s->ldc = s->m + (tight ? 0 : 5);
    s->stride_a = s->batch > 1 ? s->lda * (s->transpose_a ? s->m : s->k) : 0;
    s->stride_b = s->batch > 1 ? s->ldb * (s->transpose_b ? s->k : s->n) : 0;
    s->stride_c = s->batch > 1 ? s->ldc * s->n : 0;
    *ret_form = f;
    return index / ARRAY_LEN(forms) / 4 <
           ARRAY_LEN(sizes_m) * ARRAY_LEN(sizes_n) * ARRAY_LEN(sizes_k);
}

static size_t extent(int64_t rows, int64_t columns, int64_t ld, int64_t stride, int64_t batch)
{
    return (size_t)(stride * (batch - 1) + ld * (columns - 1) + rows);
}

/* Alignment of an operand of that many bytes that ends at a hole. */
static size_t alignment_of(size_t bytes)
{
    size_t alignment = 1;
    while (alignment < 16 && bytes % (2 * alignment) == 0) {
        alignment *= 2;
    }
    return alignment;
}

/* Small whole numbers: every product and sum is exact in float32. */
static void fill_operand(struct campaign *c, enum dtype type, size_t count, uint64_t seed,
                         double *values)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        values[i] = (double)((int)(seed >> 33) % 5 - 2);
    }
    dtype_from_double(type, values, count, c->bytes);
}

/* Small whole numbers, so that whole arithmetic is exact and the compiler can vectorise it. Packs
 * op(A) by rows and op(B) by columns first. */
static void refer(struct campaign *c, const struct gemm_shape *s)
{
    double unit = 4 * dtype_unit_roundoff(s->dtype_c);
    for (int64_t e = 0; e < s->batch; e++) {
        for (int64_t l = 0; l < s->k; l++) {
            for (int64_t i = 0; i < s->m; i++) {
                int64_t at = s->transpose_a ? l + i * s->lda : i + l * s->lda;
                c->rows[i * s->k + l] = (int32_t)c->a[e * s->stride_a + at];
            }
            for (int64_t j = 0; j < s->n; j++) {
                int64_t at = s->transpose_b ? j + l * s->ldb : l + j * s->ldb;
                c->columns[j * s->k + l] = (int32_t)c->b[e * s->stride_b + at];
            }
        }
        for (int64_t j = 0; j < s->n; j++) {
            for (int64_t i = 0; i < s->m; i++) {
                const int32_t *row = c->rows + i * s->k;
                const int32_t *column = c->columns + j * s->k;
                int32_t sum = 0;
                for (int64_t l = 0; l < s->k; l++) {
                    sum += row[l] * column[l];
                }
                bool relu = s->epilogue == GEMM_EPILOGUE_BIAS_RELU;
                bool bias = relu || s->epilogue == GEMM_EPILOGUE_BIAS;
                double want = sum + (bias ? c->bias[i] : 0);
                int64_t at = e * s->stride_c + i + j * s->ldc;
                c->reference[at] = relu && want < 0 ? 0 : want;
                c->bound[at] = unit * (double)(4 * s->k + 2); /* each product is at most 4 */
            }
        }
    }
    size_t size = dtype_info(s->dtype_c)->size;
    for (int64_t e = 0; e < s->batch * s->n; e++) {
        int64_t at = e / s->n * s->stride_c + e % s->n * s->ldc;
        dtype_from_double(s->dtype_c, c->reference + at, (size_t)s->m,
                          c->expected + (size_t)at * size);
    }
}

/* Reads D and compares; false at the first wrong element, its words in the tally. */
static bool right(struct campaign *c, const struct gemm_shape *s, const struct guard_block *d,
                  const struct form *form, const char *algorithm)
{
    struct err err;
    if (device_read(c->device, c->bytes, d->address, d->bytes, &err) != ST_OK) {
        bool fault = c->device->event == DEVICE_EVENT_MEMORY_FAULT;
        char words[400];
        str_print(words, sizeof words,
                  "%s m %" PRId64 " n %" PRId64 " k %" PRId64 " lda %" PRId64 " ldb %" PRId64
                  " ops %d%d, %s: %s",
                  form->name, s->m, s->n, s->k, s->lda, s->ldb, s->transpose_a, s->transpose_b,
                  algorithm, err.text);
        isolate_report(fault ? ENDING_DEVICE_FAULT : ENDING_DEVICE_LOST, 0, false, words);
        _Exit(1);
    }
    size_t size = dtype_info(s->dtype_c)->size;
    for (int64_t e = 0; e < s->batch; e++) {
        for (int64_t j = 0; j < s->n; j++) {
            size_t first = (size_t)(e * s->stride_c + j * s->ldc) * size;
            bool same = memcmp(c->bytes + first, c->expected + first, (size_t)s->m * size) == 0;
            for (int64_t i = 0; !same && i < s->m; i++) {
                size_t at = (size_t)(e * s->stride_c + i + j * s->ldc);
                double got = dtype_get(s->dtype_c, c->bytes + at * size);
                if (fabs(got - c->reference[at]) <= c->bound[at]) {
                    continue;
                }
                if (c->tally->wrong++ == 0) {
                    str_print(c->tally->first_wrong, sizeof c->tally->first_wrong,
                              "%s m %" PRId64 " n %" PRId64 " k %" PRId64
                              " ops %d%d, %s: element (%" PRId64 ", %" PRId64
                              ") is %g and should be %g",
                              form->name, s->m, s->n, s->k, s->transpose_a, s->transpose_b,
                              algorithm, i, j, got, c->reference[at]);
                }
                return false;
            }
        }
    }
    return true;
}

static void run_all(struct campaign *c, const struct gemm_shape *s, const struct form *form,
                    struct guard_block blocks[4])
{
    struct err err;
    size_t count;
    enum status st = c->vendor->choices(c->library, s, c->choices, c->algorithms, &count, &err);
    if (st == ST_UNSUPPORTED) {
        c->tally->declined++;
        return;
    }
    if (st != ST_OK) {
        fail("choices", &err);
    }
    c->tally->shapes++;
    const struct gemm_operands operands = {blocks[0].address,    blocks[1].address,
                                           blocks[2].address,    blocks[3].address,
                                           c->workspace.address, c->workspace.bytes};
    for (size_t i = 0; i < count; i++) {
        if (guard_poison(c->guard, &blocks[3], (unsigned)i, &err) != ST_OK) {
            fail("poison", &err);
        }
        st = c->vendor->run(c->library, s, &operands, &c->choices[i], &err);
        if (st == ST_UNSUPPORTED) {
            c->tally->run_declined++;
            continue;
        }
        c->tally->runs++;
        c->tally->per_form[form - forms]++;
        if (st != ST_OK) {
            fail("run", &err);
        }
        right(c, s, &blocks[3], form, c->choices[i].name);
    }
    for (size_t i = 0; i < 4; i++) {
        struct guard_damage damage;
        if (guard_check(c->guard, &blocks[i], &damage, &err) != ST_OK) {
            fail("check", &err);
        }
        c->tally->damaged += damage.damaged;
    }
}

static void one_problem(void *context, size_t index)
{
    struct campaign *c = context;
    struct gemm_shape s;
    const struct form *form;
    struct err err;
    if (!plan(index, &s, &form) || !c->vendor->supports(c->library, &s)) {
        c->tally->declined++;
        return;
    }
    size_t counts[4] = {
        extent(s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda, s.stride_a, s.batch),
        extent(s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb, s.stride_b, s.batch),
        (size_t)s.m,
        extent(s.m, s.n, s.ldc, s.stride_c, s.batch),
    };

    const enum dtype types[4] = {s.dtype_ab, s.dtype_ab, s.dtype_c, s.dtype_c};

    double *values[4] = {c->a, c->b, c->bias, NULL};
    enum guard_side side = index / 3 % 2 == 0 ? GUARD_END : GUARD_BEGIN;
    struct guard_block blocks[4];
    s.alignment_bytes = 16;
    for (size_t i = 0; i < 4; i++) {
        size_t bytes = counts[i] * dtype_info(types[i])->size;
        size_t alignment = side == GUARD_END ? alignment_of(bytes) : 16;
        s.alignment_bytes = alignment < s.alignment_bytes ? alignment : s.alignment_bytes;
        if (guard_alloc(c->guard, bytes, side, dtype_info(types[i])->size, &blocks[i], &err) !=
            ST_OK) {
            fail("guard", &err);
        }
        if (values[i] != NULL) {
            fill_operand(c, types[i], counts[i], index * 4 + i, values[i]);
            if (device_write(c->device, blocks[i].address, c->bytes, bytes, &err) != ST_OK) {
                fail("write", &err);
            }
        }
    }
    refer(c, &s);
    run_all(c, &s, form, blocks);
    for (size_t i = 0; i < 4; i++) {
        guard_free(c->guard, &blocks[i]);
    }
}

static void fault(void *context, size_t index, const struct isolate_end *end)
{
    (void)context;
    printf("gemm: problem %zu: %s: %s\n", index, ending_name(end->ending), end->text);
}

static bool time_left(void *context, size_t done)
{
    (void)done;
    const struct campaign *c = context;
    return now() < c->until;
}

static int gemm(enum device_kind kind, int argc, char **argv)
{
    static const struct gemm_vendor *const vendors[] = {
        &gemm_vendor_cublaslt, &gemm_vendor_hipblaslt, &gemm_vendor_rocblas, &gemm_vendor_clblast};
    struct campaign c = {.kind = kind, .tally = isolate_shared(sizeof *c.tally)};
    for (size_t i = 0; argc > 0 && i < ARRAY_LEN(vendors); i++) {
        c.vendor = strcmp(vendors[i]->name, argv[0]) == 0 ? vendors[i] : c.vendor;
    }
    if (c.vendor == NULL || c.tally == NULL) {
        printf("gemm: which library?\n");
        return 64;
    }
    c.until = now() + (argc > 1 ? strtod(argv[1], NULL) : 60);
    c.algorithms = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    c.algorithms = c.algorithms < CHOICES_MAX ? c.algorithms : CHOICES_MAX;
    c.library_path = argc > 3 ? argv[3] : NULL;
    struct isolate_batch batch = {
        .count = ARRAY_LEN(forms) * 4 * ARRAY_LEN(sizes_m) * ARRAY_LEN(sizes_n) *
                 ARRAY_LEN(sizes_k),
        .context = &c,
        .start = start_child,
        .item = one_problem,
        .ended = fault,
        .tick = time_left,
        .keep_stderr = true,
    };
    struct isolate_summary summary;
    struct err err;
    double start = now();
    if (isolate_batch(&batch, &summary, &err) != ST_OK) {
        printf("gemm: %s\n", err.text);
        return 2;
    }
    const struct tally *t = c.tally;
    double end = now();
    double seconds = end - t->started;
    printf("gemm: %.1f s to open device and library\n", t->started - start);
    printf("gemm: %zu problems of %zu, %zu declined, %zu algorithm runs (%zu declined) in %.2f s: "
           "%.0f guarded runs a second\n",
           t->shapes, batch.count, t->declined, t->runs, t->run_declined, seconds,
           (double)t->runs / seconds);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        printf("gemm: %s: %zu runs\n", forms[i].name, t->per_form[i]);
    }
    printf("gemm: %zu problems ended badly, %zu runs wrong, %zu canaries damaged, %zu children\n",
           summary.faults, t->wrong, t->damaged, summary.children);
    if (t->wrong > 0) {
        printf("gemm: first wrong: %s\n", t->first_wrong);
    }
    return t->runs == 0 ? 2 : summary.faults + t->wrong + t->damaged == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    enum device_kind kind;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3 || !device_kind_find(argv[1], &kind)) {
        fprintf(stderr, "usage: trial DEVICE prove | planted | gemm LIBRARY ...\n");
        return 64;
    }
    if (strcmp(argv[2], "prove") == 0) {
        return prove(kind);
    }
    if (strcmp(argv[2], "planted") == 0) {
        return planted(kind);
    }
    return gemm(kind, argc - 3, argv + 3);
}
