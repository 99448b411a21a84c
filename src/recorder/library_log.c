// SPDX-License-Identifier: Apache-2.0
/* See library_log.h. */
#include "recorder/library_log.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "recorder/fault_join.h"
#include "recorder/library_log_pairs.h"

#define SIZE_MOST  ((int64_t)1 << 40)
#define CALLS_MOST ((int64_t)1 << 48)

enum {
    TYPE_UNKNOWN = UINT16_MAX,
    BATCH_MOST = 1 << 24,
    SCRATCH_MAX = 4 << 20 /* bytes; a line takes a few times its length */
};

#define NAMES(...)     \
 (const char *const[]) \
 {                     \
  __VA_ARGS__, NULL    \
 }

/* --- numbers and types ------------------------------------------------------------------------- */

/* The names of all libraries; the numbers are cudaDataType_t's, which hipDataType repeats. */
static uint16_t type_of(struct str name)
{
    static const struct {
        const char *name;
        uint16_t type;
    } rows[] = {
        {"f32_r", 0},
        {"R_32F", 0},
        {"f64_r", 1},
        {"R_64F", 1},
        {"f16_r", 2},
        {"R_16F", 2},
        {"bf16_r", 14},
        {"R_16BF", 14},
        {"i8_r", 3},
        {"R_8I", 3},
        {"f8_r", 28},
        {"R_8F_E4M3", 28},
        {"bf8_r", 29},
        {"R_8F_E5M2", 29},
        {"f8_fnuz_r", 1000},
        {"bf8_fnuz_r", 1001},
        {"s", 0},
        {"d", 1},
        {"h", 2},
        {"R_8F_E4M3_FNUZ", 1000},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_is(name, rows[i].name)) {
            return rows[i].type;
        }
    }
    return TYPE_UNKNOWN;
}

/* "T", "OP_T", "C" (conjugate: the same for real numbers); what is not printed is N. */
static uint8_t transposed(struct str s)
{
    return s.n > 0 && (s.p[s.n - 1] == 'T' || s.p[s.n - 1] == 't' || s.p[s.n - 1] == 'C');
}

static int64_t bounded(int64_t v)
{
    return v >= 0 && v <= SIZE_MOST ? v : -1;
}

static bool sizes_are_told(const struct record_gemm *g)
{
    return g->m >= 0 && g->n >= 0 && g->k >= 0 && g->lda >= 0 && g->ldb >= 0 && g->ldc >= 0 &&
           g->stride_a >= 0 && g->stride_b >= 0 && g->stride_c >= 0;
}

/* --- the list ---------------------------------------------------------------------------------- */

void library_log_start(struct arena *a, struct library_log *log)
{
    *log = (struct library_log){.arena = a, .known = map_new(a), .last = SIZE_MAX};
}

/* Adds `calls` of a product; the texts of `p` live on the scratch arena or for ever. */
static void add(struct library_log *log, struct library_log_product p, int64_t calls)
{
    const struct record_gemm *g = &p.gemm;
    const char *text = p.is_gemm ? fault_gemm_text(log->scratch, g) : p.text;
    const char *key = arena_fmt(
        log->scratch, "%s|%s|%s|%" PRId64 "|%s|%" PRId64 ",%" PRId64 ",%" PRId64 "|%u,%u,%u",
        p.library, p.function, text, p.solution, p.algorithm != NULL ? p.algorithm : "", g->lda,
        g->ldb, g->ldc, g->type_b, g->type_c, g->epilogue);
    uint64_t more = calls > 0 && calls <= CALLS_MOST ? (uint64_t)calls : 1;
    struct library_log_product *known = map_get(log->known, str_of(key));
    if (known != NULL) {
        log->last = (size_t)(known - log->products.items);
        known->calls += more;
        return;
    }
    if (log->products.count == LIBRARY_LOG_PRODUCTS_MAX) {
        log->dropped += more;
        log->last = SIZE_MAX;
        return;
    }
    struct arena *a = log->arena;
    if (log->products.items == NULL) { /* of its final size: the map points into it */
        log->products.items = arena_array(a, LIBRARY_LOG_PRODUCTS_MAX, sizeof p);
        log->products.capacity = LIBRARY_LOG_PRODUCTS_MAX;
    }
    log->last = log->products.count;
    struct library_log_product *to = &log->products.items[log->products.count++];
    *to = p;
    to->text = arena_strdup(a, text);
    to->function = arena_strdup(a, p.function);
    to->algorithm = p.algorithm != NULL ? arena_strdup(a, p.algorithm) : NULL;
    to->bench = p.bench != NULL ? arena_strdup(a, p.bench) : NULL;
    to->calls = more;
    map_put(log->known, str_of(key), to);
}

static void add_gemm(struct library_log *log, const char *library, const char *function,
                     struct record_gemm g, int64_t solution, const char *algorithm,
                     const char *bench, int64_t calls)
{
    if (!sizes_are_told(&g)) {
        return;
    }
    g.types = RECORD_TYPES_CUDA;
    g.algorithm = UINT64_MAX;
    add(log,
        (struct library_log_product){.library = library,
                                     .function = function,
                                     .is_gemm = true,
                                     .gemm = g,
                                     .solution = solution,
                                     .algorithm = algorithm,
                                     .bench = bench},
        calls);
}

/* --- names and values of benches and profiles -------------------------------------------------- */

static uint32_t batch_of(int64_t count)
{
    return count > 0 && count <= BATCH_MOST ? (uint32_t)count : 1;
}

/* hipBLASLt's and rocBLAS's benches and profiles share their names but for a few. */
static struct record_gemm gemm_of(const struct pairs *p)
{
    struct str one = pairs_get(p, "", NAMES("r", "precision"));
    struct str a = pairs_get(p, "", NAMES("a_type"));
    struct str b = pairs_get(p, "", NAMES("b_type"));
    struct str c = pairs_get(p, "", NAMES("c_type", "d_type"));
    struct record_gemm g = {
        .m = bounded(pairs_int(p, "", NAMES("m", "M", "sizem"), -1)),
        .n = bounded(pairs_int(p, "", NAMES("n", "N", "sizen"), -1)),
        .k = bounded(pairs_int(p, "", NAMES("k", "K", "sizek"), -1)),
        .lda = bounded(pairs_int(p, "", NAMES("lda"), 0)),
        .ldb = bounded(pairs_int(p, "", NAMES("ldb"), 0)),
        .ldc = bounded(pairs_int(p, "", NAMES("ldc", "ldd"), 0)),
        .stride_a = bounded(pairs_int(p, "", NAMES("stride_a"), 0)),
        .stride_b = bounded(pairs_int(p, "", NAMES("stride_b"), 0)),
        .stride_c = bounded(pairs_int(p, "", NAMES("stride_c", "stride_d"), 0)),
        .alpha = pairs_real(p, NAMES("alpha")),
        .beta = pairs_real(p, NAMES("beta")),
        .batch = batch_of(pairs_int(p, "", NAMES("batch_count", "batch"), 1)),
        .transpose_a = transposed(pairs_get(p, "", NAMES("transA", "transposeA"))),
        .transpose_b = transposed(pairs_get(p, "", NAMES("transB", "transposeB"))),
        .type_a = type_of(a.n != 0 ? a : one),
        .type_b = type_of(b.n != 0 ? b : one),
        .type_c = type_of(c.n != 0 ? c : one),
    };
    return g;
}

/* hipBLASLt's epilogue in cuBLASLt's numbers, as the record has it. */
static uint8_t epilogue_of(const struct pairs *p)
{
    struct str activation = pairs_get(p, "", NAMES("activation_type"));
    struct str bias = pairs_get(p, "", NAMES("bias_vector"));
    bool has_bias = str_is(bias, "true") || str_is(bias, "1");
    for (size_t i = 0; i < p->count && !has_bias; i++) { /* as a flag it has no value */
        has_bias = str_is(p->items[i].name, "bias_vector") && bias.n == 0;
    }
    unsigned shape = str_is(activation, "relu") ? 2 : str_is(activation, "gelu") ? 32 : 0;
    return (uint8_t)(shape | (has_bias ? 4 : 0));
}

static void read_hipblaslt_bench(struct library_log *log, struct str line, struct pairs *p)
{
    pairs_of_flags(line, p);
    struct record_gemm g = gemm_of(p);
    int64_t solution = pairs_int(p, "", NAMES("solution_index"), -1);
    g.epilogue = epilogue_of(p);
    /* ROCm 6.0 began the line with the name of its function instead. */
    size_t first = str_find_char(line, ' ', 0);
    struct str flags = first != SIZE_MAX ? str_slice(line, first, line.n) : line;
    const char *bench = arena_fmt(log->scratch, "hipblaslt-bench%.*s", STR_ARG(flags));
    add_gemm(log, "hipblaslt", "hipblasLtMatmul", g, solution, NULL, bench, 1);
}

static void read_rocblas_bench(struct library_log *log, struct str line, struct pairs *p)
{
    pairs_of_flags(line, p);
    struct str function = pairs_get(p, "", NAMES("f", "function"));
    if (!str_has(function, "gemm")) {
        return;
    }
    struct record_gemm g = gemm_of(p);
    /* Index 0 and algorithm 0 say that the library chooses. */
    int64_t solution = pairs_int(p, "", NAMES("solution_index"), 0);
    const char *name = str_dup(log->scratch, function);
    size_t at = str_find(line, "rocblas-bench", 0);
    struct str bench = str_slice(line, at, line.n);
    add_gemm(log, "rocblas", name, g, solution > 0 ? solution : -1, NULL,
             str_dup(log->scratch, str_trim(bench)), 1);
}

/* A row of a profile, which counts calls. */
static void read_profile(struct library_log *log, struct str line, struct pairs *p)
{
    pairs_of_flow(line, p);
    struct str rocblas = pairs_get(p, "", NAMES("rocblas_function"));
    struct str function = pairs_get(p, "", NAMES("function"));
    int64_t calls = pairs_int(p, "", NAMES("call_count"), 1);
    int64_t solution = pairs_int(p, "", NAMES("solution_index"), -1);
    struct record_gemm g = gemm_of(p);
    if (str_has(rocblas, "gemm")) {
        size_t skip = str_starts(rocblas, "rocblas_") ? 8 : 0;
        add_gemm(log, "rocblas", str_dup(log->scratch, str_slice(rocblas, skip, rocblas.n)), g,
                 solution > 0 ? solution : -1, NULL, NULL, calls);
    } else if (str_is(function, "matmul")) {
        g.epilogue = epilogue_of(p);
        add_gemm(log, "hipblaslt", "hipblasLtMatmul", g, solution, NULL, NULL, calls);
    }
}

/* --- traces ------------------------------------------------------------------------------------ */

static bool trace_layout(const struct pairs *p, const char *group, int64_t *ret_rows,
                         int64_t *ret_columns, int64_t *ret_ld, uint16_t *ret_type)
{
    *ret_rows = bounded(pairs_int(p, group, NAMES("rows"), -1));
    *ret_columns = bounded(pairs_int(p, group, NAMES("cols"), -1));
    *ret_ld = bounded(pairs_int(p, group, NAMES("ld"), -1));
    *ret_type = type_of(pairs_get(p, group, NAMES("type")));
    return *ret_rows >= 0 && *ret_columns >= 0 && *ret_ld >= 0;
}

/* The algorithm as the line has it. */
static const char *algorithm_of(struct arena *a, struct str line)
{
    size_t at = str_find(line, " algo=[", 0);
    size_t end = at != SIZE_MAX ? str_find_char(line, ']', at) : SIZE_MAX;
    return end != SIZE_MAX ? str_dup(a, str_slice(line, at + 7, end)) : NULL;
}

/* The product's function: cublasLtMatmul, cublasLtSSSMatmul, rocblaslt_matmul; not those that make descriptors. */
static bool is_product(struct str function)
{
    return str_ends(function, "Matmul") || str_ends(function, "_matmul");
}

static void read_trace(struct library_log *log, struct str line, struct pairs *p)
{
    size_t end = str_find(line, "] ", 0);
    size_t begin = end;
    while (begin != SIZE_MAX && begin > 0 && line.p[begin - 1] != '[') {
        begin--;
    }
    if (end == SIZE_MAX || !is_product(str_slice(line, begin, end))) {
        return;
    }
    bool cuda = str_has(line, "[cublasLt]");
    struct record_gemm g = {0};
    int64_t rows[3];
    int64_t columns[3];
    pairs_of_trace(str_slice(line, end + 2, line.n), p);
    if (!trace_layout(p, "Adesc", &rows[0], &columns[0], &g.lda, &g.type_a) ||
        !trace_layout(p, "Bdesc", &rows[1], &columns[1], &g.ldb, &g.type_b) ||
        !trace_layout(p, "Ddesc", &rows[2], &columns[2], &g.ldc, &g.type_c)) {
        return;
    }
    g.transpose_a = transposed(pairs_get(p, "computeDesc", NAMES("transa", "transA")));
    g.transpose_b = transposed(pairs_get(p, "computeDesc", NAMES("transb", "transB")));
    g.m = rows[2];
    g.n = columns[2];
    g.k = g.transpose_a ? rows[0] : columns[0];
    g.batch = batch_of(pairs_int(p, "Adesc", NAMES("batchCount", "batch_count"), 1));
    g.stride_a = bounded(pairs_int(p, "Adesc", NAMES("stridedBatchOffset", "batch_stride"), 0));
    g.stride_b = bounded(pairs_int(p, "Bdesc", NAMES("stridedBatchOffset", "batch_stride"), 0));
    g.stride_c = bounded(pairs_int(p, "Ddesc", NAMES("stridedBatchOffset", "batch_stride"), 0));
    g.alpha = pairs_real(p, NAMES("alpha"));
    g.beta = pairs_real(p, NAMES("beta"));
    struct str epilogue = pairs_get(p, "computeDesc", NAMES("epilogue"));
    g.epilogue = (uint8_t)((str_has(epilogue, "BIAS") ? 4 : 0) |
                           (str_has(epilogue, "RELU") ? 2 : 0) |
                           (str_has(epilogue, "GELU") ? 32 : 0));
    add_gemm(log, cuda ? "cublaslt" : "hipblaslt", cuda ? "cublasLtMatmul" : "hipblasLtMatmul", g,
             -1, cuda ? algorithm_of(log->scratch, line) : NULL, NULL, 1);
}

struct fields {
    struct str rest;
    bool bad; /* a field was missing or is none of its kind */
};

static struct str field(struct fields *f)
{
    struct str s = {0};
    f->bad = f->bad || !str_cut(&f->rest, ',', &s);
    return str_trim(s);
}

static int64_t int_field(struct fields *f)
{
    int64_t v = -1;
    if (str_to_i64(field(f), 10, &v) != ST_OK || bounded(v) < 0) {
        f->bad = true;
    }
    return v;
}

/* An operand: address, type where the function has any, leading dimension, stride where it is batched. */
static void operand_fields(struct fields *f, bool typed, bool strided, uint16_t *ret_type,
                           int64_t *ret_ld, int64_t *ret_stride)
{
    field(f);
    if (typed) {
        *ret_type = type_of(field(f));
    }
    *ret_ld = int_field(f);
    if (strided) {
        *ret_stride = int_field(f);
    }
}

/* rocblas_gemm_ex,N,T,m,n,k,alpha,A,a_type,lda,B,b_type,ldb,beta,C,c_type,ldc,… */
static void read_rocblas_trace(struct library_log *log, struct str line)
{
    struct fields f = {.rest = line};
    struct str name = field(&f);
    name = str_slice(name, 8, name.n); /* behind "rocblas_" */
    bool typed = str_has(name, "_ex");
    bool strided = str_has(name, "strided_batched");
    if (!str_has(name, "gemm") || (str_has(name, "batched") && !strided)) {
        return;
    }
    struct record_gemm g = {.batch = 1};
    g.type_a = g.type_b = g.type_c = typed ? TYPE_UNKNOWN : type_of(str_slice(name, 0, 1));
    g.transpose_a = transposed(field(&f));
    g.transpose_b = transposed(field(&f));
    g.m = int_field(&f);
    g.n = int_field(&f);
    g.k = int_field(&f);
    double alpha;
    g.alpha = str_to_double(field(&f), &alpha) == ST_OK ? alpha : (double)NAN;
    operand_fields(&f, typed, strided, &g.type_a, &g.lda, &g.stride_a);
    operand_fields(&f, typed, strided, &g.type_b, &g.ldb, &g.stride_b);
    double beta;
    g.beta = str_to_double(field(&f), &beta) == ST_OK ? beta : (double)NAN;
    operand_fields(&f, typed, strided, &g.type_c, &g.ldc, &g.stride_c);
    if (typed && !f.bad) { /* D, which is C for those without types */
        uint16_t type;
        int64_t skipped;
        operand_fields(&f, true, strided, &type, &skipped, &skipped);
    }
    if (strided) {
        g.batch = batch_of(int_field(&f));
    }
    if (!f.bad) {
        add_gemm(log, "rocblas", str_dup(log->scratch, name), g, -1, NULL, NULL, 1);
    }
}

/* --- convolutions ------------------------------------------------------------------------------ */

static void read_miopen(struct library_log *log, struct str line, struct pairs *p)
{
    struct arena *a = log->scratch;
    size_t at = str_find(line, "MIOpenDriver ", 0);
    struct str rest = str_slice(line, at + 13, line.n);
    struct str what;
    if (!str_cut(&rest, ' ', &what) || what.n == 0 || what.n > 40) {
        return;
    }
    const char *bench = str_dup(a, str_slice(line, at, line.n));
    struct library_log_product product = {.library = "miopen",
                                          .function = str_dup(a, what),
                                          .solution = -1,
                                          .bench = bench,
                                          .text = ""};
    if (str_starts(what, "conv")) {
        pairs_of_flags(rest, p);
        bool three = pairs_int(p, "", NAMES("spatial_dim", "_"), 2) == 3;
        int64_t direction = pairs_int(p, "", NAMES("F", "forw"), 1);
        const char *way = direction == 2   ? "backward data"
                          : direction == 4 ? "backward weights"
                                           : "forward";
        const char *type = str_is(what, "convfp16")    ? "float16"
                           : str_is(what, "convbfp16") ? "bfloat16"
                           : str_is(what, "conv")      ? "float32"
                                                       : "int8";
        int64_t in[] = {
            pairs_int(p, "", NAMES("n", "batchsize"), -1),
            pairs_int(p, "", NAMES("c", "in_channels"), -1), pairs_int(p, "", NAMES("in_d"), -1),
            pairs_int(p, "", NAMES("H", "in_h"), -1), pairs_int(p, "", NAMES("W", "in_w"), -1)};
        int64_t of[] = {
            pairs_int(p, "", NAMES("k", "out_channels"), -1), pairs_int(p, "", NAMES("fil_d"), -1),
            pairs_int(p, "", NAMES("y", "fil_h"), -1), pairs_int(p, "", NAMES("x", "fil_w"), -1)};
        const char *depth_in = three ? arena_fmt(a, "%" PRId64 "x", in[2]) : "";
        const char *depth_of = three ? arena_fmt(a, "%" PRId64 "x", of[1]) : "";
        product.text = arena_fmt(a,
                                 "%s %s %s, %" PRId64 "x%" PRId64 "x%s%" PRId64 "x%" PRId64
                                 ", %" PRId64 " of %s%" PRId64 "x%" PRId64 ", groups %" PRId64,
                                 three ? "3D" : "2D", way, type, in[0], in[1], depth_in, in[3],
                                 in[4], of[0], depth_of, of[2], of[3],
                                 pairs_int(p, "", NAMES("g", "group_count"), 1));
    }
    add(log, product, 1);
}

static void read_cudnn(struct library_log *log, struct str line)
{
    size_t at = str_find(line, "function cudnn", 0);
    size_t end = at != SIZE_MAX ? str_find_char(line, '(', at) : SIZE_MAX;
    struct str name = end != SIZE_MAX ? str_slice(line, at + 9, end) : (struct str){0};
    if (name.n == 0 || name.n > 80 ||
        !(str_has(name, "Forward") || str_has(name, "Backward") || str_ends(name, "Execute"))) {
        return;
    }
    add(log,
        (struct library_log_product){.library = "cudnn",
                                     .function = str_dup(log->scratch, name),
                                     .text = "",
                                     .solution = -1},
        1);
}

static void read_kernel(struct library_log *log, struct str line)
{
    size_t at = str_find(line, "Cijk_", 0);
    if (at == SIZE_MAX || log->last >= log->products.count) {
        return;
    }
    struct str name = str_slice(line, at, line.n);
    struct str first;
    struct library_log_product *p = &log->products.items[log->last];
    if (p->kernel == NULL && str_cut(&name, ' ', &first)) {
        p->kernel = str_dup(log->arena, first);
    }
}

/* --- lines ------------------------------------------------------------------------------------- */

static void read_line(struct library_log *log, struct str line, struct pairs *p)
{
    line = str_trim(line);
    if (line.n < 8 || line.p[0] == '\0') {
        return;
    }
    if (str_starts(line, "- {")) {
        read_profile(log, line, p);
    } else if (line.p[0] == '[' && (str_has(line, "[HIPBLASLT]") || str_has(line, "[cublasLt]"))) {
        read_trace(log, line, p);
    } else if (str_starts(line, "hipblaslt-bench ") || str_has(line, " --api_method ") ||
               str_starts(line, "rocblaslt_matmul")) {
        read_hipblaslt_bench(log, line, p);
    } else if (str_has(line, "rocblas-bench ")) {
        read_rocblas_bench(log, line, p);
    } else if (str_starts(line, "rocblas_") && str_find_char(line, ',', 0) != SIZE_MAX) {
        read_rocblas_trace(log, line);
    } else if (str_has(line, "MIOpenDriver ") && str_has(line, "MIOpen")) {
        read_miopen(log, line, p);
    } else if (str_starts(line, "Running kernel:")) {
        read_kernel(log, line);
    } else if (str_has(line, "CuDNN (v")) {
        read_cudnn(log, line);
    }
}

void library_log_read(struct library_log *log, struct str text)
{
    struct str line;
    log->scratch = arena_new(SCRATCH_MAX);
    struct pairs *p = arena_alloc(log->scratch, sizeof *p);
    struct arena_mark mark = arena_mark(log->scratch);
    log->last = SIZE_MAX;
    while (str_cut_line(&text, &line)) {
        size_t n = line.n < LIBRARY_LOG_LINE_MAX ? line.n : LIBRARY_LOG_LINE_MAX;
        read_line(log, str_slice(line, 0, n), p);
        arena_rewind(log->scratch, mark);
    }
    arena_free(log->scratch);
    log->scratch = NULL;
}
