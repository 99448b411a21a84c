// SPDX-License-Identifier: Apache-2.0
/*
 * Products that only the logs of libraries still hold: a ring forgets after 4,096 calls, and a process whose record
 * found no room leaves none. The files that served them are those of libraries.json.
 */
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "cli/reproduce/suspects.h"
#include "cli/run/logs.h"
#include "cli/run/served.h"

static uint16_t rocblas_type(uint16_t cuda)
{
    static const uint16_t rows[][2] = {{0, 151}, {1, 152}, {2, 150}, {14, 168}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i][0] == cuda) {
            return rows[i][1];
        }
    }
    return UINT16_MAX;
}

/* In the numbers that the record of such a call has. */
static struct record_gemm as_recorded(const struct library_log_product *p)
{
    struct record_gemm g = p->gemm;
    if (strcmp(p->library, "rocblas") == 0) {
        g.types = RECORD_TYPES_ROCBLAS;
        g.type_a = rocblas_type(g.type_a);
        g.type_b = rocblas_type(g.type_b);
        g.type_c = rocblas_type(g.type_c);
    }
    return g;
}

/* Sizes, layout and types; alpha and beta stand in logs and seldom in records. */
static bool same_product(const struct record_gemm *x, const struct record_gemm *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb &&
           x->ldc == y->ldc && x->transpose_a == y->transpose_a &&
           x->transpose_b == y->transpose_b && x->type_a == y->type_a && x->type_c == y->type_c &&
           (x->batch > 1 ? x->batch : 1) == (y->batch > 1 ? y->batch : 1) &&
           (x->epilogue & ~1) == (y->epilogue & ~1); /* 0 and 1 both say none */
}

static bool is_recorded(const struct suspects *s, const char *family, const struct record_gemm *g)
{
    for (size_t i = 0; i < s->list.count; i++) {
        const struct suspect *other = &s->list.items[i];
        if (strcmp(other->family, family) == 0 && same_product(&other->gemm, g)) {
            return true;
        }
    }
    return false;
}

static const char *served_by(const struct run_served_list *served, const char *name)
{
    for (size_t i = 0; i < served->count; i++) {
        const char *slash = strrchr(served->items[i].path, '/');
        if (slash != NULL && strcasestr(slash, name) != NULL) {
            return served->items[i].path;
        }
    }
    return NULL;
}

enum status suspects_add_logged(struct arena *a, const char *folder, struct suspects *s,
                                struct err *err)
{
    struct library_log log;
    struct run_served_list served = {0};
    size_t cut = 0;
    TRY(run_logs_read(a, folder, &log, &cut, err));
    if (run_served_read(a, folder, &served, NULL) != ST_OK) {
        served.count = 0; /* the products are listed, and --library has to name a file */
    }
    for (size_t i = 0; i < log.products.count; i++) {
        const struct library_log_product *p = &log.products.items[i];
        struct record_gemm g = as_recorded(p);
        if (!p->is_gemm || is_recorded(s, p->library, &g)) {
            continue;
        }
        const char *runtime = strcmp(p->library, "cublaslt") == 0 ? "libcuda.so" : "libamdhip64.so";
        *VEC_PUSH(a, &s->list) = (struct suspect){.reason = SUSPECT_LOGGED,
                                                  .record = "library log",
                                                  .function = p->function,
                                                  .family = p->library,
                                                  .library = served_by(&served, p->library),
                                                  .runtime = served_by(&served, runtime),
                                                  .gemm = g,
                                                  .calls = p->calls};
        s->logged++;
    }
    return ST_OK;
}
