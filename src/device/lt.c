// SPDX-License-Identifier: Apache-2.0
/*
 * Opening a library of the Lt family, descriptors for a problem, the heuristic's choices, the run.
 * The enumeration of all algorithms is in lt_algorithms.c.
 */
#include "device/lt.h"

#include <string.h>

#include "base/str.h"
#include "base/vec.h"

static enum status lt_status(const struct gemm_library *library, int status, struct err *err,
                             const char *what)
{
    if (status == 0) {
        return ST_OK;
    }
    const struct lt_traits *traits = library->traits;
    for (const int *d = traits->declined; *d != 0; d++) {
        if (*d == status) {
            return err_set(err, ST_UNSUPPORTED, "%s: %s declines (%s, %d)", what, traits->label,
                           traits->status_text(&library->api, status), status);
        }
    }
    return err_set(err, ST_IO, "%s failed in %s: %s (%d)", what, traits->label,
                   traits->status_text(&library->api, status), status);
}

/* --- opening ----------------------------------------------------------------------------------- */

enum status lt_open(const struct lt_traits *traits, struct arena *a, struct device *device,
                    const char *path, struct gemm_library **ret_library, struct err *err)
{
    if (device->backend->kind != traits->kind) {
        return err_set(err, ST_USAGE, "%s works on %s devices, not on %s", traits->label,
                       device_kind_name(traits->kind), device->backend->name);
    }
    struct gemm_library *library = arena_alloc(a, sizeof *library);
    library->traits = traits;
    library->arena = a;
    library->device = device;
    struct name_list names = {0};
    for (size_t i = 0; traits->names[i] != NULL; i++) {
        *VEC_PUSH(a, &names) = traits->names[i];
    }
    for (size_t i = 0; traits->python_patterns[i] != NULL; i++) {
        library_find_in_python(a, traits->python_patterns[i], &names);
    }
    *VEC_PUSH(a, &names) = NULL;
    TRY(library_open(a, path, names.items, &library->library, err));
    library_bind(&library->library, traits->symbols, traits->symbol_count, &library->api,
                 library->missing);
    if (library->missing[LT_FEATURE_CORE] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s, so it is not a %s that can be used",
                       library->library.path, library->missing[LT_FEATURE_CORE], traits->label);
    }
    TRY(lt_status(library, library->api.create(&library->handle), err, "starting the library"));
    str_print(library->version, sizeof library->version, "unknown");
    if (library->missing[LT_FEATURE_VERSION] == NULL) {
        traits->version_text(&library->api, library->handle, library->version,
                             sizeof library->version);
    }
    *ret_library = library;
    return ST_OK;
}

static void drop_problem(struct gemm_library *library)
{
    struct lt_problem *p = &library->problem;
    void *layouts[] = {p->a, p->b, p->c};
    for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
        if (layouts[i] != NULL) {
            library->api.layout_destroy(layouts[i]);
        }
    }
    if (p->desc != NULL) {
        library->api.desc_destroy(p->desc);
    }
    *p = (struct lt_problem){0};
}

void lt_close(struct gemm_library *library)
{
    drop_problem(library);
    library->api.destroy(library->handle);
    if (library->pool_arena != NULL) {
        arena_free(library->pool_arena);
    }
}

const char *lt_version(const struct gemm_library *library)
{
    return library->version;
}

/* --- problems ---------------------------------------------------------------------------------- */

static bool is_fp8(enum dtype t)
{
    return t >= DTYPE_F8_E4M3FN && t <= DTYPE_F8_E5M2FNUZ;
}

bool lt_supports(const struct gemm_library *library, const struct gemm_shape *shape)
{
    const struct lt_traits *traits = library->traits;
    if (shape->m <= 0 || shape->n <= 0 || shape->k <= 0 || shape->batch <= 0 ||
        traits->types[shape->dtype_ab] == 0 || traits->types[shape->dtype_c] == 0 ||
        traits->types[gemm_dtype_b(shape)] == 0 || is_fp8(shape->dtype_c) ||
        (gemm_is_scaled(shape) && !is_fp8(shape->dtype_ab))) {
        return false;
    }
    if (shape->compute == GEMM_COMPUTE_TF32 &&
        (shape->dtype_ab != DTYPE_F32 || traits->compute_tf32 < 0)) {
        return false;
    }
    if ((shape->dtype_ab == DTYPE_F64) != (shape->dtype_c == DTYPE_F64)) {
        return false;
    }
    return !is_fp8(shape->dtype_ab) || !traits->fp8_only_tn ||
           (shape->transpose_a && !shape->transpose_b);
}

static enum status make_layout(struct gemm_library *library, enum dtype type, int64_t rows,
                               int64_t columns, int64_t ld, int64_t stride, void **ret_layout,
                               struct err *err)
{
    const struct lt_traits *traits = library->traits;
    const struct lt_api *api = &library->api;
    TRY(lt_status(library,
                  api->layout_create(ret_layout, traits->types[type] - 1, (uint64_t)rows,
                                     (uint64_t)columns, ld),
                  err, "describing a matrix"));
    int32_t batch = (int32_t)library->problem.shape.batch;
    if (batch > 1) {
        TRY(lt_status(library,
                      api->layout_set(*ret_layout, traits->layout.batch, &batch, sizeof batch), err,
                      "setting the number of matrices"));
        TRY(lt_status(library,
                      api->layout_set(*ret_layout, traits->layout.stride, &stride, sizeof stride),
                      err, "setting the stride between matrices"));
    }
    return ST_OK;
}

static enum status set_desc(struct gemm_library *library, int which, int32_t value, struct err *err)
{
    return lt_status(library,
                     library->api.desc_set(library->problem.desc, which, &value, sizeof value), err,
                     "describing a matrix product");
}

static bool has_bias(enum gemm_epilogue epilogue)
{
    return epilogue == GEMM_EPILOGUE_BIAS || epilogue == GEMM_EPILOGUE_BIAS_RELU ||
           epilogue == GEMM_EPILOGUE_BIAS_GELU;
}

static enum status set_scales(struct gemm_library *library, const void *a, const void *b,
                              struct err *err)
{
    const struct lt_traits *traits = library->traits;
    void *desc = library->problem.desc;
    TRY(lt_status(library, library->api.desc_set(desc, traits->desc.scale_a, &a, sizeof a), err,
                  "setting the scale of A"));
    return lt_status(library, library->api.desc_set(desc, traits->desc.scale_b, &b, sizeof b), err,
                     "setting the scale of B");
}

static enum status make_problem(struct gemm_library *library, struct err *err)
{
    const struct lt_traits *traits = library->traits;
    struct lt_problem *p = &library->problem;
    const struct gemm_shape *s = &p->shape;
    bool f64 = s->dtype_ab == DTYPE_F64;
    p->compute = f64 ? traits->compute_f64 : traits->compute_f32;
    if (s->compute == GEMM_COMPUTE_TF32) {
        p->compute = traits->compute_tf32;
    }
    p->scale = traits->types[f64 ? DTYPE_F64 : DTYPE_F32] - 1;
    TRY(lt_status(library, library->api.desc_create(&p->desc, p->compute, p->scale), err,
                  "describing a matrix product"));
    const int op[] = {traits->operation_none, traits->operation_transpose};
    TRY(set_desc(library, traits->desc.transpose_a, op[s->transpose_a], err));
    TRY(set_desc(library, traits->desc.transpose_b, op[s->transpose_b], err));
    TRY(set_desc(library, traits->desc.epilogue, traits->epilogues[s->epilogue], err));
    if (has_bias(s->epilogue)) {
        TRY(set_desc(library, traits->desc.bias_type, traits->types[s->dtype_c] - 1, err));
        /* The heuristic wants to see some pointer; lt_run() sets the real one. */
        const void *bias = (const void *)(uintptr_t)256;
        TRY(lt_status(library,
                      library->api.desc_set(p->desc, traits->desc.bias, &bias, sizeof bias), err,
                      "setting the bias"));
    }
    if (gemm_is_scaled(s)) {
        /* As with the bias; hipBLASLt finds no algorithm of 8 bits without. */
        const void *some = (const void *)(uintptr_t)256;
        TRY(set_scales(library, some, some, err));
    }
    TRY(make_layout(library, s->dtype_ab, s->transpose_a ? s->k : s->m,
                    s->transpose_a ? s->m : s->k, s->lda, s->stride_a, &p->a, err));
    TRY(make_layout(library, gemm_dtype_b(s), s->transpose_b ? s->n : s->k,
                    s->transpose_b ? s->k : s->n, s->ldb, s->stride_b, &p->b, err));
    TRY(make_layout(library, s->dtype_c, s->m, s->n, s->ldc, s->stride_c, &p->c, err));
    p->ready = true;
    return ST_OK;
}

enum status lt_prepare(struct gemm_library *library, const struct gemm_shape *shape,
                       struct err *err)
{
    struct lt_problem *p = &library->problem;
    if (p->ready && gemm_shape_equal(&p->shape, shape)) {
        return ST_OK;
    }
    if (!lt_supports(library, shape)) {
        return err_set(err, ST_UNSUPPORTED, "%s has no product of %s giving %s in this form",
                       library->traits->label, dtype_info(shape->dtype_ab)->name,
                       dtype_info(shape->dtype_c)->name);
    }
    drop_problem(library);
    memcpy(&p->shape, shape, sizeof *shape);
    enum status st = make_problem(library, err);
    if (st != ST_OK) {
        drop_problem(library);
    }
    return st;
}

/* --- choices ----------------------------------------------------------------------------------- */

void lt_add_choice(struct gemm_library *library, const unsigned char *algorithm,
                   size_t workspace_bytes, size_t known, struct gemm_choice *choices,
                   size_t capacity, size_t *count)
{
    struct gemm_choice choice = {.workspace_bytes = workspace_bytes};
    memcpy(choice.opaque, algorithm, library->traits->algorithm_bytes);
    for (size_t i = 0; i < known; i++) {
        if (memcmp(choices[i].opaque, choice.opaque, sizeof choice.opaque) == 0) {
            return;
        }
    }
    if (*count < capacity) {
        library->traits->describe(&library->api, choice.opaque, &choice);
        choices[(*count)++] = choice;
    }
}

static enum status make_preference(struct gemm_library *library, void **ret_preference,
                                   struct err *err)
{
    const struct lt_traits *traits = library->traits;
    const struct lt_api *api = &library->api;
    const struct gemm_shape *shape = &library->problem.shape;
    TRY(lt_status(library, api->preference_create(ret_preference), err, "asking for algorithms"));
    size_t workspace = LT_WORKSPACE_BYTES;
    TRY(lt_status(library,
                  api->preference_set(*ret_preference, traits->preference_workspace, &workspace,
                                      sizeof workspace),
                  err, "setting the size of the workspace"));
    /* Without a promise, an operand that ends at a hole begins anywhere. */
    for (int operand = 0; traits->preference_alignment >= 0 && operand < 4; operand++) {
        enum dtype type = operand < 2 ? shape->dtype_ab : shape->dtype_c;
        uint32_t alignment = shape->alignment_bytes != 0 ? (uint32_t)shape->alignment_bytes
                                                         : dtype_info(type)->size;
        TRY(lt_status(library,
                      api->preference_set(*ret_preference, traits->preference_alignment + operand,
                                          &alignment, sizeof alignment),
                      err, "setting the alignment"));
    }
    return ST_OK;
}

enum {
    HEURISTIC_MAX = 1024
};

static enum status ask_heuristic(struct gemm_library *library, struct gemm_choice *choices,
                                 size_t capacity, size_t *count, struct err *err)
{
    const struct lt_traits *traits = library->traits;
    struct lt_problem *p = &library->problem;
    void *preference = NULL;
    enum status st = make_preference(library, &preference, err);
    int wanted = capacity < HEURISTIC_MAX ? (int)capacity : HEURISTIC_MAX;
    struct arena_mark mark = arena_mark(library->arena);
    unsigned char *results = arena_array(library->arena, (size_t)wanted, traits->result_bytes);
    int got = 0;
    if (st == ST_OK) {
        st = lt_status(library,
                       library->api.heuristic(library->handle, p->desc, p->a, p->b, p->c, p->c,
                                              preference, wanted, results, &got),
                       err, "asking for algorithms");
    }
    for (int i = 0; st == ST_OK && i < got && i < wanted; i++) {
        const unsigned char *result = results + (size_t)i * traits->result_bytes;
        int state;
        size_t workspace;
        memcpy(&state, result + traits->state_offset, sizeof state);
        memcpy(&workspace, result + traits->workspace_offset, sizeof workspace);
        if (state == 0 && workspace <= LT_WORKSPACE_BYTES) {
            lt_add_choice(library, result, workspace, *count, choices, capacity, count);
        }
    }
    if (preference != NULL) {
        library->api.preference_destroy(preference);
    }
    arena_rewind(library->arena, mark);
    return st;
}

enum status lt_choices(struct gemm_library *library, const struct gemm_shape *shape,
                       struct gemm_choice *ret_choices, size_t capacity, size_t *ret_count,
                       struct err *err)
{
    TRY(lt_prepare(library, shape, err));
    size_t count = 0;
    enum status st = ask_heuristic(library, ret_choices, capacity, &count, err);
    if (library->missing[LT_FEATURE_ALGORITHMS] == NULL && library->api.algorithm_ids != NULL) {
        lt_enumerate(library, ret_choices, capacity, &count);
    }
    if (st != ST_OK && count == 0) {
        return st;
    }
    if (count == 0) {
        return err_set(err, ST_UNSUPPORTED, "%s offers no algorithm for this product",
                       library->traits->label);
    }
    *ret_count = count;
    return ST_OK;
}

/* --- the run ----------------------------------------------------------------------------------- */

enum status lt_run(struct gemm_library *library, const struct gemm_shape *shape,
                   const struct gemm_operands *operands, const struct gemm_choice *choice,
                   struct err *err)
{
    TRY(lt_prepare(library, shape, err));
    struct lt_problem *p = &library->problem;
    if (has_bias(shape->epilogue)) {
        TRY(lt_status(library,
                      library->api.desc_set(p->desc, library->traits->desc.bias, &operands->bias,
                                            sizeof operands->bias),
                      err, "setting the bias"));
    }
    if (gemm_is_scaled(shape)) {
        TRY(set_scales(library, operands->scale_a, operands->scale_b, err));
    }
    float alpha32 = (float)shape->alpha;
    float beta32 = (float)shape->beta;
    bool f64 = shape->dtype_ab == DTYPE_F64;
    const void *alpha = f64 ? (const void *)&shape->alpha : &alpha32;
    const void *beta = f64 ? (const void *)&shape->beta : &beta32;
    bool own_choice = choice == NULL || choice->id < 0;
    if (!own_choice && choice->workspace_bytes > operands->workspace_bytes) {
        return err_set(err, ST_USAGE, "%s needs a workspace of %zu bytes and was given %zu",
                       choice->name, choice->workspace_bytes, operands->workspace_bytes);
    }
    int status = library->api.matmul(
        library->handle, p->desc, alpha, operands->a, p->a, operands->b, p->b, beta, operands->c,
        p->c, operands->c, p->c, own_choice ? NULL : choice->opaque, operands->workspace,
        own_choice ? operands->workspace_bytes : choice->workspace_bytes, NULL);
    return lt_status(library, status, err, "the matrix product");
}
