// SPDX-License-Identifier: Apache-2.0
/* From results to findings, and the table of libraries. */
#include <stdio.h>
#include <string.h>

#include "cli/probe.h"

void probe_table(struct cli *cli, const struct probe_run *runs, size_t count,
                 struct report_table *ret_table)
{
    static const struct report_column columns[] = {
        {"library", "library", 0},       {"family", "family", 0},   {"version", "version", 0},
        {"kernels", "kernels", 0},       {"probes", "probes", 0},   {"faulty", "faulty", 0},
        {"declined", NULL, 0},           {"skipped", NULL, 0},      {"worst", "worst/bound", 3},
        {"per_second", "per second", 0}, {"verdict", "verdict", 0}, {"path", NULL, 0},
    };
    struct value *cells = arena_array(cli->arena, count * ARRAY_LEN(columns) + 1, sizeof *cells);
    struct value *v = cells;
    for (size_t i = 0; i < count; i++) {
        const struct gemm_result *r = runs[i].result;
        const struct value none = {.kind = VALUE_NULL};
        bool tried = r->probes != 0;
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
        *v++ = value_string(r->faulty != 0               ? "at fault"
                            : !tried || !runs[i].guarded ? "could not tell"
                                                         : "clean");
        *v++ = value_string(runs[i].library.path);
    }
    *ret_table = (struct report_table){.key = "libraries",
                                       .columns = columns,
                                       .column_count = ARRAY_LEN(columns),
                                       .cells = cells,
                                       .row_count = count};
}

void probe_findings(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                    struct finding_list *findings)
{
    (void)plan;
    const struct gemm_result *r = run->result;
    for (size_t i = 0; i < r->fault_count && i < 10; i++) {
        const struct gemm_fault *f = &r->faults[i];
        struct strbuf out;
        strbuf_init(&out, cli->arena, 1000);
        struct gemm_probe p;
        gemm_plan_get(plan->plan, f->index, &p);
        gemm_shape_print(&out, &p.shape);
        strbuf_fmt(
            &out,
            " %s op %d side %d dist %lld cell %lld,%lld got %g want %g bound %g bad %lld %s %s",
            gemm_fault_slug(f->kind), f->operand, f->side, (long long)f->distance,
            (long long)f->row, (long long)f->column, f->got, f->want, f->bound,
            (long long)f->bad_cells, f->choice.name, gemm_values_name(p.values));
        *VEC_PUSH(cli->arena, findings) = (struct finding){.id = gemm_fault_slug(f->kind),
                                                           .severity = SEVERITY_ERROR,
                                                           .title = out.p,
                                                           .claim = r->refusal};
    }
    if (!r->opened) {
        *VEC_PUSH(cli->arena, findings) = (struct finding){
            .id = "x", .severity = SEVERITY_UNKNOWN, .title = r->refusal, .claim = ""};
    }
}
