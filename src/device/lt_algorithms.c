// SPDX-License-Identifier: Apache-2.0
/*
 * Every algorithm of cuBLASLt for one problem: each id with each of its tiles, stages, splits of K,
 * reduction schemes, swizzles and custom options, as far as the library's own check accepts it.
 * Plain configurations come first, and the ids take turns, so that a short list still holds each
 * algorithm.
 */
#include <string.h>

#include "device/lt.h"

/* cublasLt.h: enum numbers of capabilities and of the configuration. */
enum {
    CAP_SPLITK = 0,
    CAP_REDUCTION_MASK = 1,
    CAP_SWIZZLE = 2,
    CAP_TILES = 6,
    CAP_CUSTOM_MAX = 7,
    CAP_STAGES = 13,
    CAP_MIN_ALIGNMENT_A = 16, /* B, C, D follow */
    CONFIG_TILE = 1,
    CONFIG_SPLITK = 2,
    CONFIG_REDUCTION = 3,
    CONFIG_SWIZZLE = 4,
    CONFIG_CUSTOM = 5,
    CONFIG_STAGES = 6,
};

enum {
    IDS_MAX = 128,
    TILES_MAX = 1024,
    STAGES_MAX = 128,
    CUSTOM_MAX = 64,
    POOL_MAX = 4096,
    POOL_USES = 64 /* problems of a kind between two questions for everything */
};

/* What decides which algorithms there are, apart from sizes. */
struct lt_kind {
    enum dtype dtype_ab, dtype_b, dtype_c;
    enum gemm_compute compute;
    enum gemm_epilogue epilogue;
    size_t alignment;
    bool transpose_a, transpose_b, batched;
};

/* Algorithms that could do some problem of the kind. */
struct lt_pool {
    struct lt_pool *next;
    struct lt_kind kind;
    size_t capacity; /* of the list that it was made with: a longer one asks anew */
    unsigned uses;
    struct gemm_choice *items;
    size_t count, room;
};

/* The capabilities of one algorithm id. */
struct lt_algorithm {
    unsigned char record[LT_ALGORITHM_BYTES_MAX];
    uint32_t tiles[TILES_MAX];
    size_t tile_count;
    uint32_t stages[STAGES_MAX];
    size_t stage_count;
    int32_t splitk, swizzle, custom_max;
    uint32_t reductions;
};

struct lt_search {
    struct gemm_library *library;
    struct gemm_choice *choices;
    size_t capacity;
    size_t *count;
    size_t known; /* of the list: the heuristic's */
};

/* Pointers are less aligned than the algorithm wants: it would fault for that reason alone. */
static bool alignment_fits(const struct gemm_library *library, const unsigned char *algorithm)
{
    const struct gemm_shape *shape = &library->problem.shape;
    for (int operand = 0; operand < 4; operand++) {
        enum dtype type = operand < 2 ? shape->dtype_ab : shape->dtype_c;
        size_t have = shape->alignment_bytes != 0 ? shape->alignment_bytes : dtype_info(type)->size;
        uint32_t want = 0;
        size_t written;
        if (library->api.capability(algorithm, CAP_MIN_ALIGNMENT_A + operand, &want, sizeof want,
                                    &written) == 0 &&
            want > have) {
            return false;
        }
    }
    return true;
}

static void read_list(const struct lt_api *api, const unsigned char *record, int which,
                      uint32_t *list, size_t capacity, size_t *ret_count)
{
    size_t bytes = 0;
    *ret_count = 0;
    if (api->capability(record, which, NULL, 0, &bytes) == 0 && bytes > 0 &&
        bytes <= capacity * sizeof list[0] &&
        api->capability(record, which, list, bytes, &bytes) == 0) {
        *ret_count = bytes / sizeof list[0];
    }
    if (*ret_count == 0) {
        list[0] = 0; /* "undefined": the algorithm has no such parameter */
        *ret_count = 1;
    }
}

static bool read_algorithm(const struct gemm_library *library, int id,
                           struct lt_algorithm *algorithm)
{
    const struct lt_api *api = &library->api;
    const struct lt_problem *p = &library->problem;
    int ab = library->traits->types[p->shape.dtype_ab] - 1;
    int b = library->traits->types[gemm_dtype_b(&p->shape)] - 1;
    int c = library->traits->types[p->shape.dtype_c] - 1;
    memset(algorithm, 0, sizeof *algorithm);
    unsigned char *record = algorithm->record;
    if (api->algorithm_init(library->handle, p->compute, p->scale, ab, b, c, c, id, record) != 0 ||
        !alignment_fits(library, record)) {
        return false;
    }
    size_t n;
    read_list(api, record, CAP_TILES, algorithm->tiles, TILES_MAX, &algorithm->tile_count);
    read_list(api, record, CAP_STAGES, algorithm->stages, STAGES_MAX, &algorithm->stage_count);
    api->capability(record, CAP_SPLITK, &algorithm->splitk, sizeof algorithm->splitk, &n);
    api->capability(record, CAP_REDUCTION_MASK, &algorithm->reductions,
                    sizeof algorithm->reductions, &n);
    api->capability(record, CAP_SWIZZLE, &algorithm->swizzle, sizeof algorithm->swizzle, &n);
    api->capability(record, CAP_CUSTOM_MAX, &algorithm->custom_max, sizeof algorithm->custom_max,
                    &n);
    return true;
}

/* Adds the configuration when the library's own check accepts it. */
static void try_one(struct lt_search *search, const unsigned char *record)
{
    struct gemm_library *library = search->library;
    struct lt_problem *p = &library->problem;
    const struct lt_traits *traits = library->traits;
    unsigned char result[LT_RESULT_BYTES_MAX] = {0};
    if (library->api.algorithm_check(library->handle, p->desc, p->a, p->b, p->c, p->c, record,
                                     result) != 0) {
        return;
    }
    int state;
    size_t workspace;
    memcpy(&state, result + traits->state_offset, sizeof state);
    memcpy(&workspace, result + traits->workspace_offset, sizeof workspace);
    if (state == 0 && workspace <= LT_WORKSPACE_BYTES) {
        lt_add_choice(library, record, workspace, search->known, search->choices, search->capacity,
                      search->count);
    }
}

static bool full(const struct lt_search *search)
{
    return *search->count >= search->capacity;
}

/* Splits of K with every reduction scheme the algorithm names. */
static void try_splits(struct lt_search *search, unsigned char *record,
                       const struct lt_algorithm *algorithm)
{
    static const int32_t splits[] = {2, 3, 4, 8, 16};
    const struct lt_api *api = &search->library->api;

    enum {
        SCHEMES = 8
    };

    for (size_t s = 0; algorithm->splitk != 0 && s < ARRAY_LEN(splits); s++) {
        for (unsigned bit = 0; bit < SCHEMES && !full(search); bit++) {
            uint32_t scheme = 1U << bit;
            if ((algorithm->reductions & scheme) == 0) {
                continue;
            }
            api->config_set(record, CONFIG_SPLITK, &splits[s], sizeof splits[s]);
            api->config_set(record, CONFIG_REDUCTION, &scheme, sizeof scheme);
            try_one(search, record);
        }
    }
    const int32_t one = 1;
    const uint32_t none = 0;
    api->config_set(record, CONFIG_SPLITK, &one, sizeof one);
    api->config_set(record, CONFIG_REDUCTION, &none, sizeof none);
}

/* One tile and stage; `deep` adds custom options, swizzle and splits. */
static void try_tile(struct lt_search *search, unsigned char *record,
                     const struct lt_algorithm *algorithm, bool deep)
{
    const struct lt_api *api = &search->library->api;
    if (!deep) {
        try_one(search, record);
        return;
    }
    try_splits(search, record, algorithm);
    for (uint32_t custom = 1;
         custom <= (uint32_t)algorithm->custom_max && custom <= CUSTOM_MAX && !full(search);
         custom++) {
        api->config_set(record, CONFIG_CUSTOM, &custom, sizeof custom);
        try_one(search, record);
    }
    const uint32_t off = 0;
    const uint32_t on = 1;
    api->config_set(record, CONFIG_CUSTOM, &off, sizeof off);
    if (algorithm->swizzle != 0) {
        api->config_set(record, CONFIG_SWIZZLE, &on, sizeof on);
        try_one(search, record);
        api->config_set(record, CONFIG_SWIZZLE, &off, sizeof off);
    }
}

/* Tile and stage number `n` of an algorithm, in an order that changes both soon; false behind the last. */
static bool try_nth(struct lt_search *search, const struct lt_algorithm *algorithm, size_t n,
                    bool deep)
{
    const struct lt_api *api = &search->library->api;
    if (n >= algorithm->tile_count * algorithm->stage_count) {
        return false;
    }
    size_t tile = n % algorithm->tile_count;
    size_t stage = (n / algorithm->tile_count + tile) % algorithm->stage_count;
    unsigned char record[LT_ALGORITHM_BYTES_MAX];
    memcpy(record, algorithm->record, sizeof record);
    api->config_set(record, CONFIG_TILE, &algorithm->tiles[tile], sizeof(uint32_t));
    api->config_set(record, CONFIG_STAGES, &algorithm->stages[stage], sizeof(uint32_t));
    try_tile(search, record, algorithm, deep);
    return true;
}

/* --- the pool ---------------------------------------------------------------------------------- */

static bool same_kind(const struct lt_kind *x, const struct lt_kind *y)
{
    return x->dtype_ab == y->dtype_ab && x->dtype_b == y->dtype_b && x->dtype_c == y->dtype_c &&
           x->compute == y->compute && x->epilogue == y->epilogue && x->alignment == y->alignment &&
           x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b &&
           x->batched == y->batched;
}

static struct lt_pool *pool_of(struct gemm_library *library, const struct gemm_shape *s)
{
    const struct lt_kind kind = {
        .dtype_ab = s->dtype_ab,
        .dtype_b = gemm_dtype_b(s),
        .dtype_c = s->dtype_c,
        .compute = s->compute,
        .epilogue = s->epilogue,
        .alignment = s->alignment_bytes,
        .transpose_a = s->transpose_a,
        .transpose_b = s->transpose_b,
        .batched = s->batch > 1,
    };
    for (struct lt_pool *pool = library->pools; pool != NULL; pool = pool->next) {
        if (same_kind(&pool->kind, &kind)) {
            return pool;
        }
    }
    if (library->pool_arena == NULL) {
        library->pool_arena = arena_new(0);
    }
    struct lt_pool *pool = arena_alloc(library->pool_arena, sizeof *pool);
    *pool = (struct lt_pool){.next = library->pools, .kind = kind};
    library->pools = pool;
    return pool;
}

static void put_into(struct gemm_library *library, struct lt_pool *pool,
                     const struct gemm_choice *choice)
{
    for (size_t i = 0; i < pool->count; i++) {
        if (memcmp(pool->items[i].opaque, choice->opaque, sizeof choice->opaque) == 0) {
            return;
        }
    }
    if (pool->count == pool->room && pool->room < POOL_MAX) {
        size_t room = pool->room == 0 ? 64 : 2 * pool->room;
        struct gemm_choice *items = arena_array(library->pool_arena, room, sizeof *items);
        for (size_t i = 0; i < pool->count; i++) {
            items[i] = pool->items[i];
        }
        pool->items = items;
        pool->room = room;
    }
    if (pool->count < pool->room) {
        pool->items[pool->count++] = *choice;
    }
}

/* Those of the pool that can do this problem, with the workspace that it takes. */
static void choose_from(struct lt_search *search, const struct lt_pool *pool)
{
    for (size_t i = 0; i < pool->count && !full(search); i++) {
        try_one(search, pool->items[i].opaque);
    }
}

static void ask_for_all(struct lt_search *search)
{
    struct gemm_library *library = search->library;
    const struct lt_problem *p = &library->problem;
    int ab = library->traits->types[p->shape.dtype_ab] - 1;
    int b = library->traits->types[gemm_dtype_b(&p->shape)] - 1;
    int c = library->traits->types[p->shape.dtype_c] - 1;
    int ids[IDS_MAX];
    int id_count = 0;
    if (library->api.algorithm_ids(library->handle, p->compute, p->scale, ab, b, c, c, IDS_MAX, ids,
                                   &id_count) != 0) {
        return;
    }
    struct arena_mark mark = arena_mark(library->arena);
    struct lt_algorithm *all = arena_array(library->arena, IDS_MAX, sizeof *all);
    size_t count = 0;
    for (int i = 0; i < id_count && i < IDS_MAX; i++) {
        count += read_algorithm(library, ids[i], &all[count]);
    }
    for (int deep = 0; deep < 2; deep++) {
        bool more = true;
        for (size_t n = 0; more && !full(search); n++) {
            more = false;
            for (size_t i = 0; i < count && !full(search); i++) {
                more = try_nth(search, &all[i], n, deep != 0) || more;
            }
        }
    }
    arena_rewind(library->arena, mark);
}

void lt_enumerate(struct gemm_library *library, struct gemm_choice *choices, size_t capacity,
                  size_t *count)
{
    struct lt_search search = {library, choices, capacity, count, *count};
    struct lt_pool *pool = pool_of(library, &library->problem.shape);
    if (pool->uses++ % POOL_USES != 0 && pool->capacity >= capacity) {
        choose_from(&search, pool);
        return;
    }
    pool->capacity = capacity;
    ask_for_all(&search);
    for (size_t i = 0; i < *count; i++) {
        put_into(library, pool, &choices[i]);
    }
}
