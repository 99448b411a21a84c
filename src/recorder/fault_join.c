// SPDX-License-Identifier: Apache-2.0
/* See fault_join.h. */
#include "recorder/fault_join.h"

#include "recorder/convolution.h"

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

/* cudnnDataType_t of cudnn_graph.h. */
static const struct type_row cudnn_types[] = {
    {0, 4, "float32"}, {1, 8, "float64"},  {2, 2, "float16"},        {3, 1, "int8"},
    {4, 4, "int32"},   {9, 2, "bfloat16"}, {12, 1, "float8_e4m3fn"}, {13, 1, "float8_e5m2"},
};

/* miopenDataType_t of miopen.h. */
static const struct type_row miopen_types[] = {
    {0, 2, "float16"}, {1, 4, "float32"},  {2, 4, "int32"},
    {3, 1, "int8"},    {5, 2, "bfloat16"}, {6, 8, "float64"},
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
        [RECORD_TYPES_CUDNN] = {cudnn_types, sizeof cudnn_types / sizeof *cudnn_types},
        [RECORD_TYPES_MIOPEN] = {miopen_types, sizeof miopen_types / sizeof *miopen_types},
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

static bool has_operands(const struct record_entry *e)
{
    return e->kind == RECORD_GEMM || e->kind == RECORD_CONVOLUTION;
}

const char *fault_shape_text(struct arena *a, const struct record_entry *e)
{
    return e->kind == RECORD_CONVOLUTION ? convolution_text(a, &e->u.convolution)
                                         : fault_gemm_text(a, &e->u.gemm);
}

struct operand {
    char letter;
    uint64_t start, bytes;
};

static void operands_of(const struct record_entry *e, struct operand ret[3])
{
    if (e->kind == RECORD_CONVOLUTION) {
        const struct record_convolution *c = &e->u.convolution;
        ret[0] = (struct operand){'x', c->x, c->x_bytes};
        ret[1] = (struct operand){'w', c->w, c->w_bytes};
        ret[2] = (struct operand){'y', c->y, c->y_bytes};
        return;
    }
    const struct record_gemm *g = &e->u.gemm;
    ret[0] = (struct operand){'A', g->a, fault_operand_bytes(g, 'A')};
    ret[1] = (struct operand){'B', g->b, fault_operand_bytes(g, 'B')};
    ret[2] = (struct operand){'C', g->c, fault_operand_bytes(g, 'C')};
}

/* The nearest operand; one that holds the address lies at distance 0. */
static void find_operand(const struct record_entry *e, struct fault_story *s)
{
    struct operand operands[3];
    operands_of(e, operands);
    uint64_t best = NEAR_BYTES;
    for (size_t i = 0; i < 3; i++) {
        struct fault_place p = place_of(s->address, operands[i].start, operands[i].bytes);
        if (p.side == FAULT_SIDE_NONE || p.distance >= best ||
            (p.side == FAULT_SIDE_INSIDE && s->operand != 0 &&
             s->operand_place.side == FAULT_SIDE_INSIDE)) {
            continue;
        }
        best = p.distance == 0 ? 1 : p.distance;
        s->operand = operands[i].letter;
        s->operand_place = p;
        s->operand_bytes = operands[i].bytes;
    }
}

/* The innermost call that was open in the thread; failing that, the one open call with operands
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
        if (has_operands(&e->entry)) {
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
            if (s.call != NULL && has_operands(&s.call->entry)) {
                find_operand(&s.call->entry, &s);
            }
        }
    }
    *ret_story = s;
}
