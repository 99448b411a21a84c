// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix products of a vendor library over every algorithm under guard; the part `gemm` of trial.c.
 * Says where the time of a run goes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/str.h"

#include "device/gemm_batch.h"
#include "device/isolate.h"
#include "trial.h"

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

enum phase {
    PHASE_CHOICES = 0,
    PHASE_REFERENCE,
    PHASE_PLACE,
    PHASE_RUN,
    PHASE_JUDGE,
    PHASE_COUNT
};

static const char *const phase_names[PHASE_COUNT] = {"asking for algorithms",
                                                     "reference on the host", "placing and filling",
                                                     "copies, runs, wait", "comparing"};

struct tally {
    double seconds[PHASE_COUNT];
    /* The problem in hand: algorithms done, and how many run together behind them. When that ends the
     * process, each of the problem runs alone. */
    size_t index, done, batch;
    bool resumed, alone;
    char running[160];
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
    struct gemm_batch *batch;
    struct gemm_batch_result *results;
    struct gemm_choice *choices;
    double *a, *b, *bias, *reference, *bound;
    int32_t *rows, *columns;
    unsigned char *expected;
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
        c->vendor->open(c->arena, c->device, c->library_path, &c->library, &err) != ST_OK) {
        fail("start", &err);
    }
    fprintf(stderr, "%s %s\n", c->vendor->name, c->vendor->version(c->library));
    c->choices = arena_array(c->arena, CHOICES_MAX, sizeof *c->choices);
    c->batch = gemm_batch_new(c->arena, c->device, c->guard, c->vendor, c->library);
    c->results = arena_array(c->arena, GEMM_BATCH_MAX, sizeof *c->results);
    double **arrays[] = {&c->a, &c->b, &c->bias, &c->reference, &c->bound};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        *arrays[i] = arena_array(c->arena, BYTES_MAX, sizeof(double));
    }
    c->expected = arena_alloc(c->arena, (size_t)8 * BYTES_MAX);
    c->rows = arena_array(c->arena, BYTES_MAX, sizeof *c->rows);
    c->columns = arena_array(c->arena, BYTES_MAX, sizeof *c->columns);
    if (c->tally->started == 0) {
        c->tally->started = trial_now();
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
    bool eight_bits = dtype_info(f->ab)->size == 1;
    if (eight_bits) { /* what libraries want of it */
        s->transpose_a = true;
        s->transpose_b = false;
        s->m = (s->m + 15) / 16 * 16;
        s->n = (s->n + 15) / 16 * 16;
        s->k = (s->k + 15) / 16 * 16;
    }
    s->dtype_ab = f->ab;
    s->dtype_c = f->c;
    s->compute = f->compute;
    s->epilogue = f->epilogue;
    /* Every other problem has its tight leading dimensions and, where they allow it, 16-byte
     * alignment; the others neither. */
    bool tight = index / 7 % 2 == 0;
    s->lda = (s->transpose_a ? s->k : s->m) + (tight ? 0 : eight_bits ? 16 : 3);
    s->ldb = (s->transpose_b ? s->n : s->k) + (tight ? 0 : eight_bits ? 32 : 1);
    s->ldc = s->m + (tight ? 0 : eight_bits ? 48 : 5);
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
static void fill_operand(enum dtype type, size_t count, uint64_t seed, double *values, void *to)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        values[i] = (double)((int)(seed >> 33) % 5 - 2);
    }
    dtype_from_double(type, values, count, to);
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

/* Compares D; false at the first wrong element, its words in the tally. */
static bool right(struct campaign *c, const struct gemm_shape *s, const unsigned char *d,
                  const struct form *form, const char *algorithm)
{
    size_t size = dtype_info(s->dtype_c)->size;
    for (int64_t e = 0; e < s->batch; e++) {
        for (int64_t j = 0; j < s->n; j++) {
            size_t first = (size_t)(e * s->stride_c + j * s->ldc) * size;
            bool same = memcmp(d + first, c->expected + first, (size_t)s->m * size) == 0;
            for (int64_t i = 0; !same && i < s->m; i++) {
                size_t at = (size_t)(e * s->stride_c + i + j * s->ldc);
                double got = dtype_get(s->dtype_c, d + at * size);
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

static void spend(struct campaign *c, enum phase phase, double *since)
{
    double t = trial_now();
    c->tally->seconds[phase] += t - *since;
    *since = t;
}

static void lost(struct campaign *c, const struct gemm_shape *s, const struct form *form,
                 const struct err *err)
{
    char words[400];
    str_print(words, sizeof words,
              "%s m %" PRId64 " n %" PRId64 " k %" PRId64 " lda %" PRId64 " ldb %" PRId64
              " ops %d%d, %s: %s",
              form->name, s->m, s->n, s->k, s->lda, s->ldb, s->transpose_a, s->transpose_b,
              c->tally->running, err->text);
    bool fault = c->device->event == DEVICE_EVENT_MEMORY_FAULT;
    isolate_report(fault ? ENDING_DEVICE_FAULT : ENDING_DEVICE_LOST, 0, false, words);
    _Exit(1);
}

/* The next `count` algorithms of the problem, each with an output of its own. */
static void run_some(struct campaign *c, const struct gemm_shape *s, const struct form *form,
                     size_t count, double *since)
{
    struct tally *t = c->tally;
    struct err err = {0};
    size_t bytes = extent(s->m, s->n, s->ldc, s->stride_c, s->batch) * dtype_info(s->dtype_c)->size;
    for (size_t i = 0; i < count; i++) {
        unsigned char *d = gemm_batch_output(c->batch, i);
        if (i >= GUARD_POISON_COUNT) {
            memcpy(d, gemm_batch_output(c->batch, i - GUARD_POISON_COUNT), bytes);
            continue;
        }
        uint32_t pattern = guard_poison_pattern((unsigned)i);
        for (size_t b = 0; b < bytes; b++) {
            d[b] = (unsigned char)(pattern >> (8 * (b % sizeof pattern)));
        }
    }
    spend(c, PHASE_PLACE, since);
    t->batch = count;
    str_print(t->running, sizeof t->running, "%s",
              count == 1 ? c->choices[t->done].name : "several algorithms together");
    if (gemm_batch_run(c->batch, c->choices + t->done, count, NULL, NULL, c->results, &err) !=
        ST_OK) {
        lost(c, s, form, &err);
    }
    spend(c, PHASE_RUN, since);
    for (size_t i = 0; i < count; i++) {
        const struct gemm_batch_result *r = &c->results[i];
        const char *name = c->choices[t->done + i].name;
        if (r->status == ST_UNSUPPORTED) {
            t->run_declined++;
            continue;
        }
        t->runs++;
        t->per_form[form - forms]++;
        if (r->status != ST_OK) {
            str_print(err.text, sizeof err.text, "%s", r->words);
            fail("run", &err);
        }
        right(c, s, r->c, form, name);
        t->damaged += r->damage.damaged;
    }
    enum gemm_batch_part part;
    struct guard_damage damage;
    gemm_batch_damage(c->batch, &part, &damage);
    t->damaged += damage.damaged;
    t->done += count;
    t->batch = 0;
    spend(c, PHASE_JUDGE, since);
}

static void one_problem(void *context, size_t index)
{
    struct campaign *c = context;
    struct tally *t = c->tally;
    struct gemm_shape s;
    const struct form *form;
    struct err err;
    double since = trial_now();
    if (!t->resumed || t->index != index) {
        t->done = 0;
        t->alone = false;
    }
    t->index = index;
    t->resumed = false;
    if (!plan(index, &s, &form) || !c->vendor->supports(c->library, &s)) {
        t->declined++;
        return;
    }
    size_t counts[GEMM_BATCH_PART_COUNT] = {
        [GEMM_BATCH_A] = extent(s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda,
                                s.stride_a, s.batch),
        [GEMM_BATCH_B] = extent(s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb,
                                s.stride_b, s.batch),
        [GEMM_BATCH_C] = extent(s.m, s.n, s.ldc, s.stride_c, s.batch),
        [GEMM_BATCH_BIAS] = (size_t)s.m,
    };

    const enum dtype types[GEMM_BATCH_PART_COUNT] = {s.dtype_ab, s.dtype_ab, s.dtype_c, s.dtype_c};
    enum guard_side side = index / 3 % 2 == 0 ? GUARD_END : GUARD_BEGIN;
    struct gemm_batch_place place = {.shape = &s, .side = side};
    s.alignment_bytes = 16;
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
        place.bytes[i] = counts[i] * dtype_info(types[i])->size;
        size_t alignment = side == GUARD_END ? alignment_of(place.bytes[i]) : 16;
        s.alignment_bytes = alignment < s.alignment_bytes ? alignment : s.alignment_bytes;
    }
    size_t size = dtype_info(s.dtype_c)->size;
    s.alignment_bytes = s.alignment_bytes > size ? s.alignment_bytes : size;
    size_t count = 0;
    enum status st = c->vendor->choices(c->library, &s, c->choices, c->algorithms, &count, &err);
    spend(c, PHASE_CHOICES, &since);
    if (st == ST_UNSUPPORTED) {
        t->declined++;
        return;
    }
    if (st != ST_OK) {
        fail("choices", &err);
    }
    t->shapes++;
    for (bool filled = false; t->done < count;) {
        size_t room;
        if (gemm_batch_place(c->batch, &place, t->alone ? 1 : count - t->done, &room, &err) !=
            ST_OK) {
            fail("guard", &err);
        }
        double *const values[GEMM_BATCH_PART_COUNT] = {c->a, c->b, NULL, c->bias};
        for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
            if (values[i] != NULL) {
                fill_operand(types[i], counts[i], index * 4 + i, values[i],
                             gemm_batch_input(c->batch, (enum gemm_batch_part)i));
            }
        }
        spend(c, PHASE_PLACE, &since);
        if (!filled) {
            refer(c, &s);
            filled = true;
            spend(c, PHASE_REFERENCE, &since);
        }
        run_some(c, &s, form, room, &since);
    }
}

/* In the parent: each algorithm of the problem runs alone after several ended their process. */
static bool again(void *context, size_t index)
{
    struct tally *t = ((const struct campaign *)context)->tally;
    (void)index;
    if (t->batch == 0) {
        return false;
    }
    if (t->alone) {
        t->done++;
    } else {
        t->alone = true;
        t->done = 0;
    }
    t->resumed = true;
    t->batch = 0;
    return true;
}

static void fault(void *context, size_t index, const struct isolate_end *end)
{
    const struct tally *t = ((const struct campaign *)context)->tally;
    printf("gemm: problem %zu, %s: %s: %s\n", index, t->running, ending_name(end->ending),
           end->text);
}

static bool time_left(void *context, size_t done)
{
    (void)done;
    const struct campaign *c = context;
    return trial_now() < c->until;
}

int trial_gemm(enum device_kind kind, int argc, char **argv)
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
    c.until = trial_now() + (argc > 1 ? strtod(argv[1], NULL) : 60);
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
        .again = again,
        .no_jumps = kind != DEVICE_CPU,
        .tick = time_left,
        .keep_stderr = true,
    };
    struct isolate_summary summary;
    struct err err;
    double start = trial_now();
    if (isolate_batch(&batch, &summary, &err) != ST_OK) {
        printf("gemm: %s\n", err.text);
        return 2;
    }
    const struct tally *t = c.tally;
    double end = trial_now();
    double seconds = end - t->started;
    printf("gemm: %.1f s to open device and library\n", t->started - start);
    printf("gemm: %zu problems of %zu, %zu declined, %zu algorithm runs (%zu declined) in %.2f s: "
           "%.0f guarded runs a second\n",
           t->shapes, batch.count, t->declined, t->runs, t->run_declined, seconds,
           (double)t->runs / seconds);
    for (size_t i = 0; i < PHASE_COUNT; i++) {
        printf("gemm: %6.2f s, %5.1f us a run: %s\n", t->seconds[i],
               1e6 * t->seconds[i] / ((double)t->runs + 1e-9), phase_names[i]);
    }
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
