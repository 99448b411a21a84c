// SPDX-License-Identifier: Apache-2.0
/* See fault_join.h. */
#include "recorder/fault_join.h"

/* A read this far from an operand is still taken for one of its tile: the widest tiles seen over-read
 * by some kilobytes. */
#define NEAR_BYTES UINT64_C(65536)

struct type_row {
    unsigned number;
    unsigned size;
    const char *name;
};

static const struct type_row our_types[] = {
    {RECORD_F32, 4, "float32"},
    {RECORD_F64, 8, "float64"},
    {RECORD_BF16, 2, "bfloat16"},
    {RECORD_F16, 2, "float16"},
};

/* cudaDataType_t of library_types.h; hipDataType has the same numbers. */
static const struct type_row cuda_types[] = {
    {0, 4, "float32"},   {1, 8, "float64"},        {2, 2, "float16"},
    {3, 1, "int8"},      {8, 1, "uint8"},          {10, 4, "int32"},
    {14, 2, "bfloat16"}, {28, 1, "float8_e4m3fn"}, {29, 1, "float8_e5m2"},
};

/* rocblas_datatype of rocblas-types.h. */
static const struct type_row rocblas_types[] = {
    {150, 2, "float16"}, {151, 4, "float32"}, {152, 8, "float64"},
    {160, 1, "int8"},    {162, 4, "int32"},   {168, 2, "bfloat16"},
};

unsigned fault_type_size(unsigned types, unsigned type, const char **ret_name)
{
    static const struct {
        const struct type_row *rows;
        size_t count;
    } tables[] = {
        [RECORD_TYPES_OURS] = {our_types, sizeof our_types / sizeof *our_types},
        [RECORD_TYPES_CUDA] = {cuda_types, sizeof cuda_types / sizeof *cuda_types},
        [RECORD_TYPES_ROCBLAS] = {rocblas_types, sizeof rocblas_types / sizeof *rocblas_types},
    };

    if (ret_name != NULL) {
        *ret_name = "type unknown";
    }
    if (types >= sizeof tables / sizeof *tables) {
        return 0;
    }
    for (size_t i = 0; i < tables[types].count; i++) {
        if (tables[types].rows[i].number == type) {
            if (ret_name != NULL) {
                *ret_name = tables[types].rows[i].name;
            }
            return tables[types].rows[i].size;
        }
    }
    return 0;
}

uint64_t fault_operand_bytes(const struct record_gemm *g, char operand)
{
    int64_t rows = g->m;
    int64_t columns = g->n;
    int64_t ld = g->ldc;
    int64_t stride = g->stride_c;
    unsigned type = g->type_c;
    if (operand == 'A') {
        rows = g->transpose_a ? g->k : g->m;
        columns = g->transpose_a ? g->m : g->k;
        ld = g->lda;
        stride = g->stride_a;
        type = g->type_a;
    } else if (operand == 'B') {
        rows = g->transpose_b ? g->n : g->k;
        columns = g->transpose_b ? g->k : g->n;
        ld = g->ldb;
        stride = g->stride_b;
        type = g->type_b;
    }
    uint64_t size = fault_type_size(g->types, type, NULL);
    const int64_t most = INT64_C(1) << 40;
    if (rows <= 0 || columns <= 0 || ld <= 0 || rows > most || columns > most || ld > most ||
        stride < 0 || stride > most || ld > most / columns) {
        return 0;
    }
    uint64_t elements = (uint64_t)(columns - 1) * (uint64_t)ld + (uint64_t)rows;
    if (g->batch > 1 && (uint64_t)stride < (UINT64_C(1) << 62) / g->batch) {
        elements += (uint64_t)(g->batch - 1) * (uint64_t)stride;
    }
    return elements * size;
}

const char *fault_gemm_text(struct arena *a, const struct record_gemm *g)
{
    const char *type;
    fault_type_size(g->types, g->type_a, &type);
    const char *batch = g->batch > 1 ? arena_fmt(a, ", batch %u", g->batch) : "";
    return arena_fmt(a, "%c%c %lldx%lldx%lld %s%s", g->transpose_a ? 'T' : 'N',
                     g->transpose_b ? 'T' : 'N', (long long)g->m, (long long)g->n, (long long)g->k,
                     type, batch);
}

static struct fault_place place_of(uint64_t address, uint64_t start, uint64_t size)
{
    if (size == 0) {
        return (struct fault_place){FAULT_SIDE_NONE, 0};
    }
    if (address < start) {
        return (struct fault_place){FAULT_SIDE_BEFORE, start - 1 - address};
    }
    if (address - start < size) {
        return (struct fault_place){FAULT_SIDE_INSIDE, 0};
    }
    return (struct fault_place){FAULT_SIDE_AFTER, address - start - size};
}

/* The nearest operand; one that holds the address lies at distance 0. */
static void find_operand(const struct record_gemm *g, struct fault_story *s)
{
    const struct {
        char letter;
        uint64_t start;
    } operands[] = {{'A', g->a}, {'B', g->b}, {'C', g->c}};

    uint64_t best = NEAR_BYTES;
    for (size_t i = 0; i < 3; i++) {
        uint64_t bytes = fault_operand_bytes(g, operands[i].letter);
        struct fault_place p = place_of(s->address, operands[i].start, bytes);
        if (p.side == FAULT_SIDE_NONE || p.distance >= best ||
            (p.side == FAULT_SIDE_INSIDE && s->operand != 0 &&
             s->operand_place.side == FAULT_SIDE_INSIDE)) {
            continue;
        }
        best = p.distance == 0 ? 1 : p.distance;
        s->operand = operands[i].letter;
        s->operand_place = p;
        s->operand_bytes = bytes;
    }
}

/* The innermost call that was open in the thread; failing that, the one open product of the process
 * (libraries compute on threads of their own). */
static void find_call(const struct record *r, uint32_t ring, struct fault_story *s)
{
    const struct record_event *other = NULL;
    size_t others = 0;
    for (size_t i = r->event_count; i > 0; i--) {
        const struct record_event *e = &r->events[i - 1];
        if (e->entry.state != RECORD_OPEN) {
            continue;
        }
        if (e->ring == ring) {
            s->call = e;
            s->same_thread = true;
            return;
        }
        if (e->entry.kind == RECORD_GEMM) {
            other = e;
            others++;
        }
    }
    s->call = others == 1 ? other : NULL;
}

void fault_join(const struct record *r, const struct maps *maps, struct fault_story *ret_story)
{
    const struct record_fault *f = &r->head.fault;
    struct fault_story s = {.thread = ""};
    if (f->present != 0) {
        s.present = true;
        s.signal = f->signal;
        s.addressed = f->hardware != 0;
        s.address = f->address;
        s.write = f->write != 0;
        s.code = maps_find(maps, f->instruction);
        for (size_t i = 0; i < r->thread_count; i++) {
            if (r->threads[i].tid == f->tid) {
                s.thread = r->threads[i].name;
            }
        }
        find_call(r, f->ring, &s);
        if (s.addressed) {
            s.block = record_alloc_near(r, s.address, NEAR_BYTES);
            if (s.block != NULL) {
                s.block_place = place_of(s.address, s.block->address, s.block->size);
            }
            if (s.call != NULL && s.call->entry.kind == RECORD_GEMM) {
                find_operand(&s.call->entry.u.gemm, &s);
            }
        }
    }
    *ret_story = s;
}
