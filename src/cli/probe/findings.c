// SPDX-License-Identifier: Apache-2.0
/* From results to findings, and the table of libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/probe/probe.h"
#include "ops/gemm_localise.h"

void probe_table(struct cli *cli, const struct probe_run *runs, size_t count,
                 struct report_table *ret_table)
{
    static const struct report_column columns[] = {
        {"library", "library", 0},
        {"family", "family", 0},
        {"version", "version", 0},
        {"kernels", "kernels", 0},
        {"probes", "probes", 0},
        {"faulty", "faulty", 0},
        {"declined", NULL, 0},
        {"skipped", NULL, 0},
        {"worst", "worst that passed/bound", 3},
        {"per_second", "per second", 0},
        {"verdict", "verdict", 0},
        {"path", NULL, 0},
    };
    struct value *cells = arena_array(cli->arena, count * ARRAY_LEN(columns) + 1, sizeof *cells);
    struct value *v = cells;
    const struct value none = {.kind = VALUE_NULL};
    for (size_t i = 0; i < count; i++) {
        const struct gemm_result *r = runs[i].result;
        bool tried = r->probes != 0;
        bool told = tried && runs[i].guarded && !r->stopped;
        *v++ = value_string(runs[i].library.name);
        *v++ = tried ? value_string(r->identity.family) : none;
        *v++ = r->identity.version[0] != '\0' ? value_string(r->identity.version) : none;
        *v++ = r->identity.kernel[0] != '\0' ? value_string(r->identity.kernel) : none;
        *v++ = value_int((int64_t)r->probes);
        *v++ = value_int((int64_t)r->faulty);
        *v++ = value_int((int64_t)r->declined);
        *v++ = value_int((int64_t)r->skipped);
        *v++ = tried ? value_real(r->worst) : none;
        *v++ = tried && r->seconds > 0 ? value_int((int64_t)((double)r->probes / r->seconds))
                                       : none;
        *v++ = value_string(r->faulty != 0 ? "at fault" : told ? "clean" : "could not tell");
        *v++ = runs[i].library.path != NULL ? value_string(runs[i].library.path) : none;
    }
    *ret_table = (struct report_table){.key = "libraries",
                                       .columns = columns,
                                       .column_count = ARRAY_LEN(columns),
                                       .cells = cells,
                                       .row_count = count};
}

/* --- words ------------------------------------------------------------------------------------- */

static const char operand_letters[] = "ABC?";

static const char *library_title(struct cli *cli, const struct probe_run *run)
{
    const struct blas_identity *id = &run->result->identity;
    const char *slash = strrchr(id->file, '/');
    if (strcmp(id->family, "blas") == 0 && slash != NULL) {
        return arena_strdup(cli->arena, slash + 1); /* a family without a name */
    }
    return arena_fmt(cli->arena, "%s%s%s", id->family, id->version[0] != '\0' ? " " : "",
                     id->version);
}

static const char *title_of(struct cli *cli, const struct probe_run *run,
                            const struct gemm_diagnosis *d)
{
    static const char *const words[GEMM_FAULT_KIND_COUNT] = {
        [GEMM_READS_OUTSIDE] = "reads outside operand",
        [GEMM_WRITES_OUTSIDE] = "writes outside operand",
        [GEMM_TOUCHES_OUTSIDE] = "touches memory outside operand",
        [GEMM_STRAYS] = "touches memory that is not mapped, far from every operand",
        [GEMM_WRITES_GAP] = "writes between the columns of operand",
        [GEMM_LEAVES_UNWRITTEN] = "leaves cells unwritten in operand",
        [GEMM_NOT_FINITE] = "gives NaN or infinity where the result is a number, in operand",
        [GEMM_INACCURATE] = "is less accurate than rounding allows, in operand",
        [GEMM_FLOAT_MODE] = "changes the floating-point mode of the calling thread",
        [GEMM_ILLEGAL] = "runs an instruction that this CPU does not have (wrong kernel)",
        [GEMM_ABORTS] = "aborts the process",
        [GEMM_CRASHES] = "ends the process",
        [GEMM_HANGS] = "does not return within the deadline",
        [GEMM_DEVICE_LOST] = "loses the device",
    };
    const struct gemm_fault *f = &d->fault;
    const char *text = words[f->kind] != NULL ? words[f->kind] : "is at fault";
    if (f->operand == GEMM_OPERAND_NONE) {
        return arena_fmt(cli->arena, "%s: matrix product %s", library_title(cli, run), text);
    }
    return arena_fmt(cli->arena, "%s: matrix product %s %c", library_title(cli, run), text,
                     operand_letters[f->operand]);
}

static void evidence(struct cli *cli, struct finding *to, const char *source, const char *text)
{
    *VEC_PUSH(cli->arena, &to->evidence) = (struct evidence){.source = source, .text = text};
}

static const char *place_words(struct cli *cli, const struct gemm_fault *f)
{
    char c = operand_letters[f->operand];
    bool edge = f->kind == GEMM_READS_OUTSIDE || f->kind == GEMM_WRITES_OUTSIDE ||
                f->kind == GEMM_TOUCHES_OUTSIDE;
    const char *verb = f->kind == GEMM_WRITES_OUTSIDE  ? "write"
                       : f->kind == GEMM_READS_OUTSIDE ? "read"
                                                       : "access";
    if (f->distance_unknown) {
        return arena_fmt(cli->arena,
                         "access outside %c: it fails with %c alone next to memory that is not "
                         "mapped; the device tells no address",
                         c, c);
    }
    if (edge && f->distance >= 0) {
        return arena_fmt(cli->arena, "%s of %c, %lld bytes behind its last byte (distance +%lld)",
                         verb, c, (long long)f->distance, (long long)f->distance);
    }
    if (edge) {
        return arena_fmt(cli->arena, "%s of %c, %lld bytes before its first byte", verb, c,
                         (long long)-f->distance);
    }
    if (f->row >= 0) {
        return arena_fmt(
            cli->arena, "cell (%lld, %lld) holds %.9g, expected %.9g within %.3g; %lld cells wrong",
            (long long)f->row, (long long)f->column, f->got, f->want, f->bound,
            (long long)f->bad_cells);
    }
    return f->text[0] != '\0' ? arena_strdup(cli->arena, f->text)
                              : arena_fmt(cli->arena, "signal %d", f->signal);
}

static const char *neighbour_words(struct cli *cli, const struct gemm_diagnosis *d)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 400);
    for (size_t i = 0; i < d->neighbours.count; i++) {
        if (!d->neighbours.items[i].fails) {
            strbuf_fmt(&out, "%s%s", out.n != 0 ? ", " : "", d->neighbours.items[i].change);
        }
    }
    return out.n != 0 ? out.p : "none of those tried";
}

static void kernel_evidence(struct cli *cli, struct finding *to, const struct gemm_diagnosis *d)
{
    for (enum gemm_kernel_verdict v = 0; v < GEMM_KERNEL_REFUSED; v++) {
        struct strbuf out;
        strbuf_init(&out, cli->arena, 600);
        const char *variable = "";
        for (size_t i = 0; i < d->kernels.count; i++) {
            const struct gemm_kernel *k = &d->kernels.items[i];
            if (k->verdict == v) {
                variable = k->variable;
                strbuf_fmt(&out, "%s%s", out.n != 0 ? ", " : "",
                           k->name[0] != '\0' ? k->name : k->value);
            }
        }
        if (out.n != 0) {
            evidence(cli, to, variable,
                     arena_fmt(cli->arena, "kernels %s: %s", gemm_kernel_verdict_name(v), out.p));
        }
    }
}

static void remedies(struct cli *cli, struct finding *to, const struct gemm_diagnosis *d)
{
    for (size_t i = 0; i < d->kernels.count; i++) {
        const struct gemm_kernel *k = &d->kernels.items[i];
        if (k->verdict == GEMM_KERNEL_CLEAN) {
            *VEC_PUSH(cli->arena, &to->remedy) = arena_fmt(
                cli->arena,
                "export %s=%s   # kernels%s%s: clean on the %llu failing products that were tried "
                "again",
                k->variable, k->value, k->name[0] != '\0' ? " " : "", k->name,
                (unsigned long long)k->tried);
            break;
        }
    }
    *VEC_PUSH(cli->arena, &to->remedy) =
        "Use another library for this product, or a version that assay probe acquits.";
}

static double volume(const struct gemm_shape *s)
{
    return (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
}

static void keep_smallest(struct probe_run *run, const struct gemm_diagnosis *d,
                          const struct finding *told)
{
    struct probe_smallest *best = &run->smallest;
    if (d->repeats &&
        (!best->found || volume(&d->probe.shape) < volume(&best->diagnosis.probe.shape))) {
        *best = (struct probe_smallest){
            .found = true, .diagnosis = *d, .title = told->title, .claim = told->claim};
    }
}

/* Operands that no job of today has: offsets past 2^31 bytes by a huge leading dimension. */
static bool spans_far(const struct gemm_shape *s)
{
    int64_t widest = s->lda > s->ldb ? s->lda : s->ldb;
    int64_t longest = s->m > s->n ? s->m : s->n;
    widest = widest > s->ldc ? widest : s->ldc;
    longest = longest > s->k ? longest : s->k;
    return (double)widest * (double)longest * dtype_info(s->dtype_ab)->size >= 2147483648.0;
}

/* Faults with far-spanning operands whose cause is known from the library's source. */
static const struct {
    const char *family, *cause;
} far_causes[] = {
    {"libxsmm",
     "known cause: the code generator computes offsets as leading dimension times column times element "
     "size in 32 bits (src/generator_gemm_*_microkernel.c of 1.17), so that they wrap at 2^32 and are signed "
     "from 2^31 on; leading dimensions of that size are accepted without a check. The call is as the "
     "prototype of libxsmm_dgemm says; LIBXSMM_TARGET=generic, which generates no code, is right"},
};

static void far_evidence(struct cli *cli, struct finding *to, const char *family)
{
    for (size_t i = 0; i < ARRAY_LEN(far_causes); i++) {
        if (strcmp(far_causes[i].family, family) == 0) {
            evidence(cli, to, far_causes[i].family, far_causes[i].cause);
        }
    }
}

void probe_explain(struct cli *cli, const struct gemm_source *source, struct probe_run *run,
                   enum gemm_fault_kind kind, enum gemm_operand operand, uint64_t count,
                   struct finding_list *findings)
{
    struct gemm_diagnosis d = {0};
    struct err err = {0};
    bool hurried = interrupt_came();
    enum status st = ST_ABSENT;
    if (!hurried) {
        cli_progress(cli, "%s: shrinking %s", run->library.name, gemm_fault_slug(kind));
        st = gemm_localise(cli->arena, &run->target, source, run->result, kind, operand, &d, &err);
    }
    if (st != ST_OK || !d.repeats) {
        for (size_t i = run->result->fault_count; i > 0; i--) {
            const struct gemm_fault *f = &run->result->faults[i - 1];
            d.fault = f->kind == kind && f->operand == operand ? *f : d.fault;
        }
        source->get(source->context, d.fault.index, &d.probe);
    }
    struct finding *to = VEC_PUSH(cli->arena, findings);
    *to = (struct finding){.id = gemm_fault_slug(d.fault.kind), .severity = SEVERITY_ERROR};
    to->confidence = d.repeats ? 1 : 0.6;
    to->title = title_of(cli, run, &d);
    to->claim = arena_fmt(
        cli->arena, "%llu of %llu products (%llu of them in this way) are at fault, through %s%s",
        (unsigned long long)run->result->faulty, (unsigned long long)run->result->probes,
        (unsigned long long)count, d.fault.choice.name,
        d.repeats && d.cut_short
            ? "; the smallest one found until the time for it was over fails each time it is run."
        : d.repeats   ? "; the smallest one found fails each time it is run."
        : d.cut_short ? "; there was no time to run them a second time."
        : hurried     ? "; it was not run a second time, because of the interruption."
                      : "; it did not come again when the products were run a second time.");
    bool far = spans_far(&d.probe.shape);
    if (far) {
        to->severity = SEVERITY_WARNING;
        to->claim = arena_fmt(cli->arena,
                              "%s Its operands span more than 2^31 bytes by their leading "
                              "dimension, as those of hardly any training do.",
                              to->claim);
    }
    struct strbuf shape;
    strbuf_init(&shape, cli->arena, 300);
    gemm_shape_print(&shape, &d.probe.shape);
    const char *source_name = run->library.path != NULL ? run->library.path : run->library.name;
    evidence(cli, to, source_name,
             arena_fmt(cli->arena, "smallest product: %s, %s", shape.p, d.fault.choice.name));
    evidence(cli, to, source_name,
             arena_fmt(cli->arena, "%s; operands at the %s of their memory",
                       place_words(cli, &d.fault), guard_side_name(d.fault.side)));
    if (d.repeats) {
        evidence(cli, to, source_name,
                 arena_fmt(cli->arena, "nearest products that pass: %s", neighbour_words(cli, &d)));
    }
    if (d.dirty_bytes > 0) {
        evidence(cli, to, source_name,
                 arena_fmt(cli->arena,
                           "hiding it takes more than %lld readable bytes at the edge (%zu failing "
                           "products tried); farthest first access %+lld bytes",
                           (long long)d.dirty_bytes, d.padded, (long long)d.farthest));
    }
    if (d.clean_bytes >= 0) {
        evidence(cli, to, source_name,
                 arena_fmt(cli->arena,
                           "with %lld readable bytes at the edge none of %zu failing products, the "
                           "smallest and the farthest reaching, would fail; farthest first access "
                           "%+lld bytes",
                           (long long)d.clean_bytes, d.padded, (long long)d.farthest));
    }
    if (run->result->identity.kernel[0] != '\0') {
        evidence(
            cli, to, source_name,
            arena_fmt(cli->arena, "kernel family chosen here: %s", run->result->identity.kernel));
    }
    if (far) {
        far_evidence(cli, to, run->result->identity.family);
    }
    kernel_evidence(cli, to, &d);
    remedies(cli, to, &d);
    keep_smallest(run, &d, to);
}

/* A result without a fault, or beside one, that says less than "clean". */
static void reservations(struct cli *cli, const struct probe_run *run,
                         struct finding_list *findings)
{
    const struct gemm_result *r = run->result;
    const char *why = NULL;
    const char *id = "gemm-not-tried";
    if (!run->guarded) {
        id = "gemm-guard-not-proven";
        why = run->guard_sentence;
    } else if (!r->opened || r->stopped) {
        why = r->refusal[0] != '\0' ? r->refusal
              : run->stop != NULL   ? run->stop
                                    : "the campaign was stopped";
    } else if (r->probes == 0) {
        why = "it offers none of the products of this plan";
    } else if (r->skipped != 0) {
        why = arena_fmt(cli->arena, "%llu products were skipped for want of memory",
                        (unsigned long long)r->skipped);
    }
    if (why == NULL) {
        return;
    }
    struct finding *to = VEC_PUSH(cli->arena, findings);
    *to = (struct finding){.id = id, .severity = SEVERITY_UNKNOWN, .confidence = 1};
    to->title = arena_fmt(cli->arena, "could not tell about %s", run->library.name);
    to->claim = arena_strdup(cli->arena, why);
}

void probe_findings(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                    struct finding_list *findings)
{
    const struct gemm_result *r = run->result;
    struct gemm_source source = gemm_source_of_plan(plan->plan);
    for (enum gemm_fault_kind kind = 1; kind < GEMM_FAULT_KIND_COUNT && run->guarded; kind++) {
        for (size_t operand = 0; operand <= GEMM_OPERAND_NONE; operand++) {
            uint64_t count = r->by_way[kind][operand];
            if (count != 0) {
                probe_explain(cli, &source, run, kind, (enum gemm_operand)operand, count, findings);
            }
        }
    }
    reservations(cli, run, findings);
}
