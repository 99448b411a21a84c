// SPDX-License-Identifier: Apache-2.0
/* Matrix products of vendor libraries: options to a plan, the guard's proof, one campaign a library. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/probe/probe.h"
#include "cli/probe/state.h"
#include "cli/reproduce/reproducer_make.h"
#include "cli/session.h"
#include "device/gemm_batch.h"

enum {
    DEADLINE_MAX_S = 86400,
    SHRINK_MS = 60000,    /* for each way to fail; a device's fault costs a process each time */
    DEVICE_LIMIT_S = 120, /* for the quick plan of a device, where --time-limit says nothing */
    CHOICES_QUICK = 16,   /* of a device's library, for each product */
    CHOICES_FULL = GEMM_BATCH_MAX
};

/* Test hook: guards without holes, to show that nothing is believed then. */
#define UNGUARDED_HOOK "ASSAY_TEST_NO_GUARD"

static void add_dtypes(struct gemm_plan_options *options, const enum dtype *dtypes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        options->dtypes[options->dtype_count++] = dtypes[i];
    }
}

/* 8-bit formats are those of the vendors; AMD's first cards had forms of their own. */
static void default_dtypes(enum device_kind kind, struct gemm_plan_options *options)
{
    static const enum dtype common[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_F16};

    static const enum dtype ocp[] = {DTYPE_F8_E4M3FN, DTYPE_F8_E5M2};

    static const enum dtype fnuz[] = {DTYPE_F8_E4M3FNUZ, DTYPE_F8_E5M2FNUZ};

    add_dtypes(options, common, ARRAY_LEN(common));
    if (kind == DEVICE_CUDA || kind == DEVICE_HIP) {
        add_dtypes(options, ocp, ARRAY_LEN(ocp));
    }
    if (kind == DEVICE_HIP) {
        add_dtypes(options, fnuz, ARRAY_LEN(fnuz));
    }
}

static enum status choose_dtypes(const struct cli *cli, enum device_kind kind,
                                 struct gemm_plan_options *options, struct err *err)
{
    const char *name;
    for (size_t i = 0; (name = cli_repeat(cli, "dtype", i)) != NULL; i++) {
        enum dtype dtype;
        if (!dtype_find(str_of(name), &dtype) || !dtype_info(dtype)->is_float) {
            return err_set(err, ST_USAGE,
                           "--dtype '%s': not a floating-point format; float32, "
                           "float64, bfloat16, float16 are, and on a GPU the 8-bit ones, such as "
                           "float8_e4m3fn",
                           name);
        }
        if (options->dtype_count == ARRAY_LEN(options->dtypes)) {
            return err_set(err, ST_USAGE, "--dtype: at most %zu formats",
                           ARRAY_LEN(options->dtypes));
        }
        options->dtypes[options->dtype_count++] = dtype;
    }
    if (options->dtype_count == 0) {
        default_dtypes(kind, options);
    }
    return ST_OK;
}

static uint64_t digest_of(const struct gemm_plan *plan)
{
    uint64_t digest = gemm_plan_count(plan);
    for (size_t i = 0; i < gemm_plan_count(plan); i += 1 + i / 64) {
        struct gemm_probe p;
        gemm_plan_get(plan, i, &p);
        const uint64_t parts[] = {(uint64_t)p.shape.m,   (uint64_t)p.shape.n,
                                  (uint64_t)p.shape.k,   (uint64_t)p.shape.lda,
                                  (uint64_t)p.shape.ldc, p.seed,
                                  p.shape.dtype_ab,      p.choices};
        for (size_t j = 0; j < ARRAY_LEN(parts); j++) {
            digest = gemm_mix(digest ^ parts[j]);
        }
    }
    return digest;
}

static enum status make_plan(struct cli *cli, enum device_kind kind, enum gemm_level level,
                             struct probe_plan *ret_plan, struct err *err)
{
    bool cpu = kind == DEVICE_CPU;
    bool full = level == GEMM_LEVEL_FULL;
    struct gemm_plan_options options = {.level = level, .wide_output = cpu, .sparse_memory = cpu};
    options.choices = cpu ? 0 : full ? CHOICES_FULL : CHOICES_QUICK;
    uint64_t limit_s = 0;
    TRY(probe_time_limit(cli, cpu || full ? 0 : DEVICE_LIMIT_S, &limit_s, err));
    if (str_to_u64(str_of(cli_value(cli, "seed", "1")), 10, &options.seed) != ST_OK) {
        return err_set(err, ST_USAGE, "--seed '%s' is not a number of 64 bits",
                       cli_value(cli, "seed", "1"));
    }
    TRY(choose_dtypes(cli, kind, &options, err));
    const char *shapes = cli_value(cli, "shapes", NULL);
    if (shapes != NULL) {
        uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        TRY(gemm_wishes_read(cli->arena, shapes, memory, &options.wishes, &options.wish_count,
                             err));
    }
    struct gemm_plan *plan = gemm_plan_new(cli->arena, &options);
    *ret_plan = (struct probe_plan){
        .level = options.level, .seed = options.seed, .plan = plan, .digest = digest_of(plan)};
    ret_plan->limit_s = limit_s;
    return ST_OK;
}

struct trial_set {
    enum device_kind kind;
    int index; /* of the device */
    struct probe_plan plan;
    struct probe_library_list libraries;
    struct probe_run *runs;
    struct probe_state *state;
    uint64_t probes;
    bool folder_made; /* of the reproducer, by us */
};

static enum status prove(struct cli *cli, const struct trial_set *set, bool unguarded,
                         struct guard_proof *ret_proof, struct err *err)
{
    const struct guard_proof_options options = {
        .force_strength = unguarded,
        .strength = GUARD_NONE,
    };
    cli_progress(cli, "proving the guard: planted reads and writes past an operand");
    return guard_prove(set->kind, set->index, &options, ret_proof, err);
}

static enum status try_all(struct cli *cli, struct trial_set *set, struct finding_list *findings,
                           struct err *err)
{
    bool unguarded = getenv(UNGUARDED_HOOK) != NULL;
    struct guard_proof *proof = arena_alloc(cli->arena, sizeof *proof);
    set->plan.until_s = set->plan.limit_s != 0 ? probe_now_s() + (double)set->plan.limit_s : 0;
    TRY(prove(cli, set, unguarded, proof, err));
    set->runs = arena_array(cli->arena, set->libraries.count + 1, sizeof *set->runs);
    for (size_t i = 0; i < set->libraries.count; i++) {
        struct probe_run *run = &set->runs[i];
        run->library = set->libraries.items[i];
        run->guarded = proof->reads_proven && proof->writes_proven;
        run->guard_sentence = proof->sentence;
        run->target = (struct gemm_target){.vendor = run->library.vendor,
                                           .device_kind = set->kind,
                                           .device_index = set->index,
                                           .path = run->library.path,
                                           .map_path = set->kind == DEVICE_CPU ? 0 : proof->path,
                                           .shrink_ms = set->kind == DEVICE_CPU ? 0 : SHRINK_MS,
                                           .unguarded = unguarded};
        const char *what = arena_fmt(cli->arena, "library %zu of %zu, %s", i + 1,
                                     set->libraries.count, run->library.name);
        if (interrupt_came() || (set->plan.until_s != 0 && probe_now_s() >= set->plan.until_s)) {
            run->result = arena_alloc(cli->arena, sizeof *run->result);
            run->result->stopped = true;
            run->stop = "not tried: the campaign ended before it";
        } else {
            TRY(probe_campaign(cli, &set->plan, run, set->state, what, err));
        }
        set->probes += run->result->probes;
        probe_findings(cli, &set->plan, run, findings);
    }
    return ST_OK;
}

static const char *verdict(struct cli *cli, const struct trial_set *set,
                           const struct finding_list *findings)
{
    const char *counts = session_counts(cli, findings);
    size_t convicted = 0;
    size_t unknown = 0;
    for (size_t i = 0; i < set->libraries.count; i++) {
        convicted += set->runs[i].result->faulty != 0;
        unknown += !set->runs[i].guarded || set->runs[i].result->probes == 0;
    }
    if (unknown != 0 && convicted == 0) {
        return arena_fmt(cli->arena, "could not tell: %s", counts);
    }
    return arena_fmt(cli->arena, "%zu of %zu libraries at fault, %llu products: %s", convicted,
                     set->libraries.count, (unsigned long long)set->probes, counts);
}

static int no_library(struct cli *cli)
{
    return cli_fail(cli, EXIT_UNKNOWN,
                    "no BLAS library was found by the loader: name one with --library PATH, or "
                    "install one (Debian: libopenblas0-pthread)");
}

static enum status check_operands(const struct cli *cli, struct err *err)
{
    for (size_t i = 0; i < cli->operands.count; i++) {
        if (strcmp(cli->operands.items[i], "gemm") != 0) {
            return err_set(err, ST_USAGE,
                           "'%s': libraries are tried with the operator gemm (matrix product)",
                           cli->operands.items[i]);
        }
    }
    uint64_t deadline = 0;
    const char *text = cli_value(cli, "deadline", "10");
    if (str_to_u64(str_of(text), 10, &deadline) != ST_OK || deadline == 0 ||
        deadline > DEADLINE_MAX_S) {
        return err_set(err, ST_USAGE, "--deadline '%s': seconds from 1 to %d", text,
                       DEADLINE_MAX_S);
    }
    return ST_OK;
}

/* Of all libraries, the smallest product; of equals, the first library's. */
static struct probe_run *smallest_of(const struct trial_set *set)
{
    struct probe_run *best = NULL;
    double least = 0;
    for (size_t i = 0; i < set->libraries.count; i++) {
        struct probe_run *run = &set->runs[i];
        const struct gemm_shape *s = &run->smallest.diagnosis.probe.shape;
        double volume = (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
        if (run->smallest.found && (best == NULL || volume < least)) {
            best = run;
            least = volume;
        }
    }
    return best;
}

static void write_reproducer(struct cli *cli, const struct trial_set *set, const char *folder,
                             struct text_list *notes)
{
    struct probe_run *run = smallest_of(set);
    if (run != NULL) {
        struct reproducer r = {
            .target = &run->target,
            .identity = &run->result->identity,
            .diagnosis = &run->smallest.diagnosis,
            .title = run->smallest.title,
            .claim = run->smallest.claim,
        };
        reproducer_make(cli, &r, NULL, folder, notes);
    } else {
        *VEC_PUSH(cli->arena,
                  notes) = "no reproducer was written: nothing failed each time it was run";
    }
    if (set->folder_made) {
        rmdir(folder); /* fails where something was written */
    }
}

int probe_gemm(struct cli *cli)
{
    struct err err = {0};
    struct trial_set set = {0};
    bool full = strcmp(cli_value(cli, "level", "quick"), "full") == 0;
    enum status st = check_operands(cli, &err);
    const char *device = cli_value(cli, "device", "cpu");
    if (st == ST_OK && !probe_read_device(device, &set.kind, &set.index)) {
        st = err_set(&err, ST_USAGE, "--device '%s': cpu, cuda, hip or opencl, or cuda:1", device);
    }
    if (st == ST_OK) {
        st = probe_libraries(cli, set.kind, &set.libraries, &err);
    }
    if (st == ST_OK) {
        st = make_plan(cli, set.kind, full ? GEMM_LEVEL_FULL : GEMM_LEVEL_QUICK, &set.plan, &err);
    }
    const char *state = cli_value(cli, "resume", NULL);
    if (st == ST_OK && state != NULL) {
        st = probe_state_open(cli->arena, state, set.plan.digest, gemm_plan_count(set.plan.plan),
                              &set.state, &err);
    }
    const char *folder = cli_value(cli, "reproducer", NULL);
    if (st == ST_OK && folder != NULL) {
        st = reproducer_folder(folder, &set.folder_made, &err);
    }
    if (st != ST_OK) {
        return cli_fail(cli, st == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    if (set.libraries.count == 0) {
        return no_library(cli);
    }
    struct finding_list findings = {0};
    interrupt_watch();
    if (try_all(cli, &set, &findings, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct report report = {.command = "probe", .schema_version = 1};
    if (folder != NULL) {
        write_reproducer(cli, &set, folder, &report.notes);
    }
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    report.numbers[report.number_count++] = (struct report_number){"probes", (int64_t)set.probes};
    probe_table(cli, set.runs, set.libraries.count, &report.tables[report.table_count++]);
    report.verdict = verdict(cli, &set, &findings);
    int status = session_report(cli, &report, session_exit(&findings));
    interrupt_end();
    return status;
}

/* What programs get without asking for a library by name. */
static bool is_default(const struct probe_library *library)
{
    return str_starts(str_of(library->name), "libblas.so") ||
           str_starts(str_of(library->name), "libcblas.so");
}

enum status probe_quick(struct cli *cli, struct finding_list *findings, uint64_t *ret_probes,
                        double *ret_per_second, struct err *err)
{
    double slowest = NAN;
    struct trial_set set = {0};
    struct probe_library_list all = {0};
    TRY(make_plan(cli, DEVICE_CPU, GEMM_LEVEL_QUICK, &set.plan, err));
    TRY(probe_libraries(cli, DEVICE_CPU, &all, err));
    for (size_t i = 0; i < all.count; i++) {
        if (is_default(&all.items[i])) {
            *VEC_PUSH(cli->arena, &set.libraries) = all.items[i];
        }
    }
    if (set.libraries.count != 0) {
        TRY(try_all(cli, &set, findings, err));
    }
    for (size_t i = 0; i < set.libraries.count; i++) {
        const struct gemm_result *r = set.runs[i].result;
        if (r != NULL && r->probes != 0 && r->seconds > 0) {
            slowest = fmin(slowest, (double)r->probes / r->seconds); /* fmin leaves NaN out */
        }
    }
    *ret_probes = set.probes;
    *ret_per_second = slowest;
    return ST_OK;
}
