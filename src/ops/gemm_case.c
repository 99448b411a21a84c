// SPDX-License-Identifier: Apache-2.0
/*
 * Values come from a table of prepared numbers, from a place that the seed chooses: copying is
 * several times faster than drawing, and a group of small products must cost a microsecond.
 */
#include "ops/gemm_case.h"

#include <math.h>
#include <string.h>

#include "ops/gemm_reference.h"

/* What a sum of products of 8-bit numbers may lose at each step: see the header. */
#define EIGHT_BIT_SUM 0x1p-13

/* Prime, so that no leading dimension walks in step with the table's period. */
enum {
    TABLE = 16381,
    ROLES = 2,
    POWERS = 16,
    C_LARGEST = 16,
    C_KINDS = 2,
    ROOM_ALIGN = 64
};

/* Numbers for A (role 0) and for B (role 1), for a range of inner dimensions. */
struct table {
    bool made;
    double *value;
    double *magnitude;
    char *element;
};

struct gemm_tables {
    struct arena *arena;
    /* [k's power of four]: grids and huge values shrink with k */
    struct table rows[DTYPE_COUNT][GEMM_VALUES_COUNT][ROLES][POWERS];
    struct table c[DTYPE_COUNT][C_KINDS]; /* [1]: of subnormal products; no magnitudes */
};

/* Largest integer on the grid, so that every partial sum of alpha A B + beta C is exact: k terms of
 * at most g^2, doubled by alpha = 2, must stay below 2^(p) with p significand bits of accumulation,
 * and the result below 2^(p) of the output's. */
static double grid_limit(enum dtype dtype, enum dtype dtype_c, int64_t k)
{
    unsigned bits = dtype_info(dtype_c)->mantissa_bits + 1;
    double terms = (double)(k > 0 ? k : 1);
    double limit = floor(sqrt(ldexp(1.0, (int)bits - 2) / terms));
    double exact = ldexp(1.0, (int)dtype_info(dtype)->mantissa_bits + 1);
    limit = limit > 8 ? 8 : limit;
    limit = limit > exact ? exact : limit;
    return limit < 1 ? 1 : limit;
}

static double uniform(uint64_t *state)
{
    *state = gemm_mix(*state);
    return (double)(*state >> 11) * 0x1p-53;
}

static double draw(enum gemm_values values, unsigned role, enum dtype dtype, double limit,
                   uint64_t *state)
{
    const struct dtype_info *info = dtype_info(dtype);
    double u = uniform(state);
    double sign = uniform(state) < 0.5 ? -1 : 1;
    switch (values) {
    case GEMM_VALUES_GRID: return floor(u * (2 * limit + 1)) - limit;
    case GEMM_VALUES_WORST:
        /* Terms of three sizes and both signs: sums are small beside them. */
        return sign * (1 + u) * (uniform(state) < 0.34 ? 1024 : 1) / 64;
    case GEMM_VALUES_DENORMAL:
        return role == 0 ? sign * ldexp(u, info->min_exponent) : sign * (1 + u);
    case GEMM_VALUES_HUGE: return sign * limit * (0.5 + 0.5 * u);
    default: return 2 * u - 1;
    }
}

static double limit_for(enum gemm_values values, enum dtype dtype, enum dtype dtype_c, int64_t k)
{
    if (values == GEMM_VALUES_HUGE) {
        double narrow = dtype_info(dtype)->largest;
        double wide = dtype_info(dtype_c)->largest;
        double most = sqrt((narrow < wide ? narrow : wide) / (8.0 * (double)(k > 0 ? k : 1)));
        return most;
    }
    return grid_limit(dtype, dtype_c, k);
}

/* Inner dimensions up to a power of four share a table. */
static unsigned power_of(int64_t k)
{
    unsigned power = 0;
    while (power < POWERS - 1 && ((int64_t)1 << (2 * power)) < k) {
        power++;
    }
    return power;
}

static bool is_half(double x)
{
    return x * 2 == floor(x * 2) && fabs(x) <= 2;
}

static bool is_power_of_two(double x)
{
    int exponent;
    return frexp(x, &exponent) == 0.5; /* exactly representable */
}

bool gemm_is_exact(const struct gemm_shape *s, enum gemm_values values)
{
    if (values != GEMM_VALUES_GRID || !is_half(s->alpha) || !is_half(s->beta)) {
        return false;
    }
    if (gemm_is_scaled(s) &&
        !(s->beta == 0 && is_power_of_two(s->scale_a) && is_power_of_two(s->scale_b))) {
        return false;
    }
    int64_t k = (int64_t)1 << (2 * power_of(s->k));
    double limit = grid_limit(s->dtype_ab, s->dtype_c, k);
    double most = 2 * limit * limit * (double)s->k + 2 * C_LARGEST;
    return most <= ldexp(1.0, (int)dtype_info(s->dtype_c)->mantissa_bits);
}

static const struct table *table_of(struct gemm_tables *tables, const struct gemm_case *c,
                                    unsigned role)
{
    bool shrinks = c->values == GEMM_VALUES_GRID || c->values == GEMM_VALUES_HUGE;
    unsigned power = shrinks ? power_of(c->k) : 0;
    enum dtype dtype = role == 0 ? c->dtype_ab : c->dtype_b;
    struct table *t = &tables->rows[dtype][c->values][role][power];
    if (t->made) {
        return t;
    }
    size_t size = dtype_info(dtype)->size;
    t->value = arena_array(tables->arena, TABLE, sizeof *t->value);
    t->magnitude = arena_array(tables->arena, TABLE, sizeof *t->magnitude);
    t->element = arena_array(tables->arena, TABLE, size);
    double limit = limit_for(c->values, dtype, c->dtype_c, (int64_t)1 << (2 * power));
    uint64_t state = gemm_mix(role + 2 * power + 64 * (unsigned)c->values);
    for (size_t i = 0; i < TABLE; i++) {
        double v = draw(c->values, role, dtype, limit, &state);
        dtype_set(dtype, t->element + i * size, v);
        t->value[i] = dtype_get(dtype, t->element + i * size);
        t->magnitude[i] = fabs(t->value[i]);
    }
    t->made = true;
    return t;
}

/* `count` elements from place `from` of a table that repeats. */
static void take(char *to, const char *table, size_t from, size_t count, size_t size)
{
    while (count != 0) {
        size_t run = TABLE - from < count ? TABLE - from : count;
        memcpy(to, table + from * size, run * size);
        to += run * size;
        count -= run;
        from = 0;
    }
}

static void transpose4(uint32_t *to, const uint32_t *from, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            to[j + i * columns] = from[i + j * rows];
        }
    }
}

static void transpose8(uint64_t *to, const uint64_t *from, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            to[j + i * columns] = from[i + j * rows];
        }
    }
}

static void transpose(void *to, const void *from, int64_t rows, int64_t columns, size_t size)
{
    if (size == sizeof(uint32_t)) {
        transpose4(to, from, rows, columns);
        return;
    }
    if (size == sizeof(uint64_t)) {
        transpose8(to, from, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        memcpy((char *)to + (size_t)(i / rows + i % rows * columns) * size,
               (const char *)from + (size_t)i * size, size);
    }
}

static size_t padded(size_t count, size_t size)
{
    return ((count + 1) * size + ROOM_ALIGN - 1) & ~(size_t)(ROOM_ALIGN - 1);
}

/* Memory of the group in hand, not cleared. */
static void *take_room(struct gemm_case *c, size_t count, size_t size)
{
    size_t bytes = padded(count, size);
    if (bytes > c->room_bytes - c->room_used) {
        return arena_alloc(c->arena, bytes);
    }
    c->room_used += bytes;
    return c->room + c->room_used - bytes;
}

/* What the group takes: elements and their transposes, numbers, magnitudes, and the transposes of
 * B's; C, its numbers, the product and a scratch. */
static size_t room_for(const struct gemm_case *c)
{
    size_t size = dtype_info(c->dtype_ab)->size;
    size_t of_a = (size_t)(c->m * c->k * c->batch);
    size_t of_b = (size_t)(c->k * c->n * c->batch);
    size_t of_c = (size_t)(c->m * c->n * c->batch);
    size_t kinds = c->exact ? 1 : 2; /* numbers, and magnitudes */
    size_t rows = gemm_reference_wants_transpose(c->m, c->n) ? 2 : 1;
    return 2 * padded(of_a, size) + kinds * padded(of_a, sizeof(double)) + 2 * padded(of_b, size) +
           kinds * rows * padded(of_b, sizeof(double)) +
           padded(of_c, dtype_info(c->dtype_c)->size) + (2 + kinds) * padded(of_c, sizeof(double));
}

static void empty_room(struct gemm_case *c)
{
    size_t need = room_for(c);
    arena_rewind(c->arena, need > c->room_bytes ? c->bare : c->mark);
    if (need > c->room_bytes) {
        c->room_bytes = need + need / 2;
        c->room = arena_alloc(c->arena, c->room_bytes);
        c->mark = arena_mark(c->arena);
    }
    c->room_used = 0;
}

/* One operand of all batch entries: elements, their transposes, values and magnitudes; what the
 * reference of the group does not need is NULL. */
struct operand {
    char *element, *element_transposed;
    double *value, *value_transposed;
    double *magnitude, *magnitude_transposed;
};

static double *take_doubles(struct gemm_case *c, const double *table, size_t from, size_t count)
{
    double *to = take_room(c, count, sizeof *to);
    take((char *)to, (const char *)table, from, count, sizeof *to);
    return to;
}

static double *transposed_doubles(struct gemm_case *c, const double *dense, int64_t rows,
                                  int64_t columns)
{
    size_t each = (size_t)(rows * columns);
    double *to = take_room(c, each * (size_t)c->batch, sizeof *to);
    for (size_t i = 0; i < (size_t)c->batch; i++) {
        transpose(to + i * each, dense + i * each, rows, columns, sizeof *to);
    }
    return to;
}

static void make_operand(struct gemm_case *c, unsigned role, int64_t rows, int64_t columns,
                         struct operand *ret)
{
    const struct table *t = table_of(c->tables, c, role);
    size_t size = dtype_info(c->dtype_ab)->size;
    size_t each = (size_t)(rows * columns);
    size_t all = each * (size_t)c->batch;
    bool both = role == 1 && gemm_reference_wants_transpose(c->m, c->n);
    size_t from = (size_t)(gemm_mix(c->seed + role) % TABLE);
    *ret = (struct operand){0};
    ret->element = take_room(c, all, size);
    ret->element_transposed = take_room(c, all, size);
    take(ret->element, t->element, from, all, size);
    for (size_t i = 0; i < (size_t)c->batch; i++) {
        size_t at = i * each * size;
        transpose(ret->element_transposed + at, ret->element + at, rows, columns, size);
    }
    ret->value = take_doubles(c, t->value, from, all);
    ret->value_transposed = both ? transposed_doubles(c, ret->value, rows, columns) : NULL;
    if (!c->exact) {
        ret->magnitude = take_doubles(c, t->magnitude, from, all);
        ret->magnitude_transposed = both ? transposed_doubles(c, ret->magnitude, rows, columns)
                                         : NULL;
    }
}

static const struct table *table_of_c(struct gemm_tables *tables, const struct gemm_case *c)
{
    bool tiny = c->values == GEMM_VALUES_DENORMAL;
    struct table *t = &tables->c[c->dtype_c][tiny];
    if (t->made) {
        return t;
    }
    const struct dtype_info *info = dtype_info(c->dtype_c);
    double scale = tiny ? ldexp(1.0, info->min_exponent - 8) : 1;
    t->value = arena_array(tables->arena, TABLE, sizeof *t->value);
    t->element = arena_array(tables->arena, TABLE, info->size);
    uint64_t state = gemm_mix(ROLES);
    for (size_t i = 0; i < TABLE; i++) {
        state = gemm_mix(state);
        /* Even integers: half of one is exact too. */
        double v = (double)((int64_t)(state >> 60) * 2 - C_LARGEST) * scale;
        dtype_set(c->dtype_c, t->element + i * info->size, v);
        t->value[i] = dtype_get(c->dtype_c, t->element + i * info->size);
    }
    t->made = true;
    return t;
}

static void make_c(struct gemm_case *c, size_t count)
{
    const struct table *t = table_of_c(c->tables, c);
    size_t size = dtype_info(c->dtype_c)->size;
    size_t from = (size_t)(gemm_mix(c->seed + ROLES) % TABLE);
    char *element = take_room(c, count, size);
    take(element, t->element, from, count, size);
    c->c = element;
    c->c_value = take_doubles(c, t->value, from, count);
}

static void multiply(struct gemm_case *c, const struct operand *a, const struct operand *b)
{
    size_t mn = (size_t)(c->m * c->n);
    double *product = take_room(c, mn * (size_t)c->batch, sizeof *product);
    double *magnitude = c->exact ? NULL : take_room(c, mn * (size_t)c->batch, sizeof *magnitude);
    double *scratch = take_room(c, mn, sizeof *scratch);
    bool both = b->value_transposed != NULL;
    for (int64_t i = 0; i < c->batch; i++) {
        size_t at_a = (size_t)(i * c->m * c->k);
        size_t at_b = (size_t)(i * c->k * c->n);
        struct gemm_factors f = {.m = c->m, .n = c->n, .k = c->k};
        f.a = a->value + at_a;
        f.b = b->value + at_b;
        f.b_transposed = both ? b->value_transposed + at_b : NULL;
        if (c->dtype_ab == DTYPE_F64 && !c->exact) {
            gemm_reference_extended(&f, product + (size_t)i * mn);
        } else {
            gemm_reference(&f, product + (size_t)i * mn, scratch);
        }
        if (!c->exact) {
            f.a = a->magnitude + at_a;
            f.b = b->magnitude + at_b;
            f.b_transposed = both ? b->magnitude_transposed + at_b : NULL;
            gemm_reference(&f, magnitude + (size_t)i * mn, scratch);
        }
    }
    c->product = product;
    c->magnitude = magnitude;
}

struct gemm_case *gemm_case_new(struct arena *a)
{
    struct gemm_case *c = arena_alloc(a, sizeof *c);
    struct gemm_tables *tables = arena_alloc(a, sizeof *tables);
    tables->arena = a;
    c->tables = tables;
    c->arena = arena_new((size_t)64 << 30);
    c->bare = arena_mark(c->arena);
    c->mark = c->bare;
    return c;
}

void gemm_case_make(struct gemm_case *c, const struct gemm_probe *probe)
{
    const struct gemm_shape *s = &probe->shape;
    bool exact = gemm_is_exact(s, probe->values);
    if (c->made && c->exact == exact && c->m == s->m && c->n == s->n && c->k == s->k &&
        c->batch == s->batch && c->dtype_ab == s->dtype_ab && c->dtype_b == gemm_dtype_b(s) &&
        c->dtype_c == s->dtype_c && c->values == probe->values && c->seed == probe->seed) {
        return;
    }
    c->made = true;
    c->m = s->m;
    c->n = s->n;
    c->k = s->k;
    c->batch = s->batch;
    c->dtype_ab = s->dtype_ab;
    c->dtype_b = gemm_dtype_b(s);
    c->dtype_c = s->dtype_c;
    c->values = probe->values;
    c->seed = probe->seed;
    c->exact = exact;
    empty_room(c);
    struct operand a;
    struct operand b;
    make_operand(c, 0, c->m, c->k, &a);
    make_operand(c, 1, c->k, c->n, &b);
    c->a = a.element;
    c->a_transposed = a.element_transposed;
    c->b = b.element;
    c->b_transposed = b.element_transposed;
    make_c(c, (size_t)(c->m * c->n * c->batch));
    multiply(c, &a, &b);
}

void gemm_bound_make(const struct gemm_shape *s, enum gemm_values values,
                     struct gemm_bound *ret_bound)
{
    const struct dtype_info *out = dtype_info(s->dtype_c);
    bool small = dtype_info(s->dtype_ab)->size < 4;
    enum dtype sum = small || s->dtype_ab == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    bool eight_bits = dtype_info(s->dtype_ab)->size == 1;
    double u = eight_bits ? EIGHT_BIT_SUM : dtype_unit_roundoff(sum);
    double inner = (double)s->k + (gemm_is_scaled(s) ? 4 : 2);
    double grown = inner * u < 0.5 ? inner * u / (1 - inner * u) : 1;
    /* TF32 keeps 10 bits of each operand: two more roundings of 2^-11 a product. */
    double operands = s->compute == GEMM_COMPUTE_TF32 ? 2 * 0x1p-11 * 1.001 : 0;
    /* The reference's own error: k additions in float64, or in long double for float64. */
    double own = sum == DTYPE_F64 ? inner * 0x1p-64 + 3 * 0x1p-53 : inner * 0x1p-53;
    double tiny = ldexp(1.0, dtype_info(sum)->min_exponent - (int)dtype_info(sum)->mantissa_bits);
    double tiny_out = ldexp(1.0, out->min_exponent - (int)out->mantissa_bits);
    if (s->dtype_ab == DTYPE_BF16) {
        tiny = ldexp(1.0, dtype_info(sum)->min_exponent);
    }
    bool subnormal = s->dtype_ab == DTYPE_BF16 && values == GEMM_VALUES_DENORMAL;
    bool stored = s->dtype_c != sum;
    double alpha = fabs(gemm_whole_alpha(s));
    double scale = alpha > 1 ? alpha : 1;
    *ret_bound = (struct gemm_bound){
        .product = grown + operands + own + (subnormal ? 1 : 0),
        .addend = grown + 2 * 0x1p-53,
        .absolute = ((double)s->k * scale + 3) * tiny + (stored ? tiny_out : 0),
        .output = stored ? dtype_unit_roundoff(s->dtype_c) * 1.001 : 0,
        .exact = gemm_is_exact(s, values),
    };
    if (stored && out->size < 4 &&
        s->beta != 0) { /* the product may be stored before beta C is added */
        double once_more = dtype_unit_roundoff(s->dtype_c) * 1.1;
        ret_bound->output += once_more;
        ret_bound->addend += once_more;
    }
}
