// SPDX-License-Identifier: Apache-2.0
/* What assay reproduce says: of the product that fails alone, or of there being none. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "cli/reproduce/job.h"

enum {
    REPLAYS_SHOWN = 40,
    GUILTY_SHOWN = 8,
    REASONS_SHOWN = 6,
    WORDS_MAX = 2000
};

static void add_evidence(struct cli *cli, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(cli->arena, &f->evidence) = (struct evidence){.source = source, .text = text};
}

const char *reproduce_plain_words(struct cli *cli, const struct replay *r)
{
    if (r->plain_probes == 0) {
        return "without the guard the call could not be run";
    }
    if (r->plain_faulty == 0) {
        return arena_fmt(cli->arena,
                         "without the guard the same call passes in all %" PRIu64
                         " runs: what lies next to its operands in memory decides, not the "
                         "numbers",
                         r->plain_probes);
    }
    return arena_fmt(cli->arena, "without the guard %" PRIu64 " of %" PRIu64 " runs fail too",
                     r->plain_faulty, r->plain_probes);
}

/* Which of the algorithms that were tried failed: the others are a control. */
const char *reproduce_guilty_words(struct cli *cli, const struct replay *r)
{
    const struct gemm_result *result = r->run.result;
    struct strbuf out;
    size_t listed = 0;
    strbuf_init(&out, cli->arena, WORDS_MAX);
    for (size_t i = 0; i < result->fault_count && listed < GUILTY_SHOWN; i++) {
        bool known = false;
        for (size_t j = 0; j < i && !known; j++) {
            known = strcmp(result->faults[j].choice.name, result->faults[i].choice.name) == 0;
        }
        if (!known) {
            strbuf_fmt(&out, "%s%s", listed++ != 0 ? "; " : "", result->faults[i].choice.name);
        }
    }
    return out.p;
}

/* The finding of probe, with the story of the run in front. */
static void tell_found(struct reproduce_job *j)
{
    struct cli *cli = j->cli;
    struct replay *r = j->found;
    const struct suspect *s = r->suspect;
    const struct gemm_source source = gemm_source_of_list(&r->what.probes);
    probe_explain(cli, &source, &r->run, r->kind, r->operand, r->count, &j->findings);
    struct finding *f = &j->findings.items[j->findings.count - 1];
    struct evidence_list after = f->evidence;
    bool cpu = r->what.device_kind == DEVICE_CPU;
    f->evidence = (struct evidence_list){0};
    f->claim = arena_fmt(
        cli->arena,
        "%s %s, recorded in the run (%s), fails when it is replayed alone: %" PRIu64 " of %" PRIu64
        " runs (%s).%s%s",
        s->function, fault_gemm_text(cli->arena, &s->gemm), suspect_reason_name(s->reason),
        r->run.result->faulty, r->run.result->probes,
        cpu ? "both sides, all entry points in turn, two kinds of values"
            : "both sides, the recorded algorithm and others",
        r->as_recorded ? " It is the fault that was recorded: the same operand, the same direction."
        : s->story != NULL ? " The run recorded another fault of the same call."
                           : "",
        r->same_function ? ""
        : cpu            ? " It came through another entry point than the recorded one."
                         : " It came by another algorithm than the recorded one.");
    if (s->story != NULL) {
        add_evidence(cli, f, s->record,
                     arena_fmt(cli->arena, "in the run: %s %s", s->function, s->story));
    }
    add_evidence(cli, f, s->record,
                 arena_fmt(cli->arena,
                           "the record holds %" PRIu64 " calls of this product, served "
                           "by %s",
                           s->calls, s->library != NULL ? s->library : "a library not named"));
    add_evidence(cli, f, "replay", reproduce_plain_words(cli, r));
    add_evidence(cli, f, "replay",
                 arena_fmt(cli->arena, "the runs that failed went through: %s",
                           reproduce_guilty_words(cli, r)));
    for (size_t i = 0; i < after.count; i++) {
        *VEC_PUSH(cli->arena, &f->evidence) = after.items[i];
    }
    r->run.smallest.claim = f->claim;
}

static const char *not_found_text(struct reproduce_job *j, size_t passed, size_t others,
                                  bool device)
{
    return arena_fmt(
        j->cli->arena,
        "%zu recorded product%s replayed alone and passed, with the operands at holes on both "
        "sides, %s%s. For what passed this excludes an access outside the operands and wrong "
        "numbers on this machine. What remains: products that were not tried, values, threads and "
        "streams of the run, memory that other code freed or overwrote, work that is no matrix "
        "product.",
        passed, passed == 1 ? " was" : "s were",
        device ? "by the recorded algorithm and by up to 16 others that the library offers"
               : "through every entry point, with two kinds of values, in one thread",
        others != 0
            ? arena_fmt(j->cli->arena, "; %zu more were not tried or could not be told", others)
            : "");
}

/* Why products were not tried, each reason once. */
static void add_reasons(struct reproduce_job *j, struct finding *f)
{
    for (size_t i = 0; i < j->replays.count && f->evidence.count < REASONS_SHOWN; i++) {
        const struct replay *r = &j->replays.items[i];
        bool known = r->why == NULL;
        for (size_t k = 0; k < i && !known; k++) {
            known = j->replays.items[k].why != NULL && strcmp(j->replays.items[k].why, r->why) == 0;
        }
        if (!known) {
            add_evidence(j->cli, f, r->suspect->record,
                         arena_fmt(j->cli->arena, "%s %s, %s: %s", r->suspect->function,
                                   fault_gemm_text(j->cli->arena, &r->suspect->gemm),
                                   replay_verdict_name(r->verdict), r->why));
        }
    }
}

static void tell_not_found(struct reproduce_job *j)
{
    struct cli *cli = j->cli;
    size_t passed = 0;
    struct finding *f = VEC_PUSH(cli->arena, &j->findings);
    *f = (struct finding){.id = "not-reproduced", .severity = SEVERITY_UNKNOWN, .confidence = 1};
    bool device = false;
    for (size_t i = 0; i < j->replays.count; i++) {
        const struct replay *r = &j->replays.items[i];
        passed += r->verdict == REPLAY_PASSED;
        device = device || r->what.device_kind != DEVICE_CPU;
    }
    f->title = j->suspects.faulted ? "the fault of the run does not come in isolation"
                                   : "no recorded product fails in isolation";
    f->claim = not_found_text(j, passed, j->replays.count - passed, device);
    if (passed == 0) {
        f->title = "no recorded product could be replayed";
        f->claim = "Nothing was tried, so nothing is excluded.";
    }
    *VEC_PUSH(cli->arena, &f->remedy) =
        "assay run --guard --quarantine -- COMMAND stops where the program itself reads freed memory";
    if (passed < j->suspects.list.count) {
        *VEC_PUSH(cli->arena, &f->remedy) =
            "assay reproduce RUN --time SECONDS tries more of the recorded products";
    }
    add_reasons(j, f);
}

/* Which of the run's forced kernels mattered, once the libraries have said who they are. */
static void note_forced_kernels(struct reproduce_job *j)
{
    const struct blas_forcing *told = NULL;
    for (size_t i = 0; i < j->replays.count; i++) {
        const struct gemm_result *r = j->replays.items[i].run.result;
        const struct blas_forcing *forcing = r != NULL ? blas_forcing_of(r->identity.family) : NULL;
        const char *value = forcing != NULL ? getenv(forcing->variable) : NULL;
        if (value != NULL && forcing != told) {
            told = forcing;
            *VEC_PUSH(j->cli->arena, &j->notes) = arena_fmt(
                j->cli->arena, "replayed with the run's %s=%s", forcing->variable, value);
        }
    }
}

/* --- switches ---------------------------------------------------------------------------------- */

/* Variables of the run that should have kept it away from a library. What each does:
 * knowledge/switches.yaml. */
static const struct {
    const char *variable, *value, *family;
} leaving[] = {
    {"TORCH_BLAS_PREFER_HIPBLASLT", "0", "hipblaslt"},
    {"TORCH_BLAS_PREFER_CUBLASLT", "0", "cublaslt"},
    {"ROCBLAS_USE_HIPBLASLT", "0", "hipblaslt"},
    {"DISABLE_ADDMM_HIP_LT", "1", "hipblaslt"},
    {"DISABLE_ADDMM_CUDA_LT", "1", "cublaslt"},
};

static void tell_switches(struct reproduce_job *j)
{
    struct cli *cli = j->cli;
    const struct tree *environment = tree_get(j->run, "environment");
    for (size_t i = 0; i < ARRAY_LEN(leaving); i++) {
        uint64_t calls = 0;
        for (size_t s = 0; s < j->suspects.list.count; s++) {
            const struct suspect *suspect = &j->suspects.list.items[s];
            calls += strcmp(suspect->family, leaving[i].family) == 0 ? suspect->calls : 0;
        }
        const char *value = tree_text(environment, leaving[i].variable, NULL);
        if (value == NULL || strcmp(value, leaving[i].value) != 0 || calls == 0) {
            continue;
        }
        struct finding *f = VEC_PUSH(cli->arena, &j->findings);
        *f = (struct finding){
            .id = "switch-not-in-effect", .severity = SEVERITY_NOTE, .confidence = 1};
        f->title = arena_fmt(cli->arena, "%s=%s did not keep the run away from %s",
                             leaving[i].variable, value, leaving[i].family);
        f->claim = arena_fmt(cli->arena,
                             "The variable was set for the run, and %" PRIu64
                             " products of %s are in "
                             "its record. One switch is no control: others reach the library by "
                             "another way.",
                             calls, leaving[i].family);
        add_evidence(cli, f, "run.json",
                     arena_fmt(cli->arena, "%s=%s", leaving[i].variable, value));
    }
}

void reproduce_tell(struct reproduce_job *j)
{
    if (j->found != NULL) {
        tell_found(j);
    } else {
        tell_not_found(j);
    }
    note_forced_kernels(j);
    tell_switches(j);
}

/* --- the table --------------------------------------------------------------------------------- */

void reproduce_table(struct reproduce_job *j, struct report_table *ret_table)
{
    static const struct report_column columns[] = {
        {"function", "function", 0}, {"product", "product", 0}, {"reason", "why", 0},
        {"calls", "calls", 0},       {"runs", "runs", 0},       {"faulty", "at fault", 0},
        {"verdict", "alone", 0},     {"note", "because", 0},    {"library", NULL, 0},
        {"seconds", NULL, 3},
    };
    struct arena *a = j->cli->arena;
    size_t shown = j->replays.count < REPLAYS_SHOWN ? j->replays.count : REPLAYS_SHOWN;
    struct value *cells = arena_array(a, shown * ARRAY_LEN(columns) + 1, sizeof *cells);
    struct value *v = cells;
    const struct value none = {.kind = VALUE_NULL};
    for (size_t i = 0; i < shown; i++) {
        const struct replay *r = &j->replays.items[i];
        const struct suspect *s = r->suspect;
        bool ran = r->run.result != NULL;
        *v++ = value_string(s->function);
        *v++ = value_string(fault_gemm_text(a, &s->gemm));
        *v++ = value_string(suspect_reason_name(s->reason));
        *v++ = value_int((int64_t)s->calls);
        *v++ = ran ? value_int((int64_t)r->run.result->probes) : none;
        *v++ = ran ? value_int((int64_t)r->run.result->faulty) : none;
        *v++ = value_string(replay_verdict_name(r->verdict));
        *v++ = r->why != NULL ? value_string(r->why) : none;
        const char *library = ran ? r->run.library.path : s->library;
        *v++ = library != NULL ? value_string(library) : none;
        *v++ = value_real(r->seconds);
    }
    if (shown < j->replays.count) {
        *VEC_PUSH(a, &j->notes) = arena_fmt(a, "%zu more products are not listed",
                                            j->replays.count - shown);
    }
    *ret_table = (struct report_table){.key = "replays",
                                       .heading = "replayed alone:",
                                       .columns = columns,
                                       .column_count = ARRAY_LEN(columns),
                                       .cells = cells,
                                       .row_count = shown};
}
