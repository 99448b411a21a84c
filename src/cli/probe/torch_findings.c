// SPDX-License-Identifier: Apache-2.0
/* What a campaign through the user's PyTorch concluded: its findings and its table. */
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "cli/probe/torch.h"

struct context {
    struct cli *cli;
    const struct torch_hello *hello;
    const char *python, *device;
    const struct torch_campaign_result *result;
    struct finding_list *findings;
};

static const char *dtype_name(const struct torch_row *r)
{
    return dtype_info(r->dtype)->name;
}

static const struct torch_cell *cell_of(const struct torch_row *r, bool backward)
{
    return backward ? &r->backward : &r->forward;
}

static const char *step_name(bool backward)
{
    return backward ? "backward" : "forward";
}

static void add_evidence(struct context *x, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(x->cli->arena, &f->evidence) = (struct evidence){.source = source, .text = text};
}

static void add_remedy(struct context *x, struct finding *f, const char *text)
{
    *VEC_PUSH(x->cli->arena, &f->remedy) = text;
}

/* Ways of the same operator, format and step that were tried and are right: "F.linear, addmm". */
static const char *acquitted(struct context *x, const struct torch_row *row, bool backward)
{
    struct strbuf out;
    strbuf_init(&out, x->cli->arena, 1000);
    for (size_t i = 0; i < x->result->rows.count; i++) {
        const struct torch_row *r = &x->result->rows.items[i];
        if (r != row && r->dtype == row->dtype && strcmp(r->op, row->op) == 0 &&
            cell_of(r, backward)->verdict == TORCH_OK) {
            strbuf_fmt(&out, "%s%s", out.n != 0 ? ", " : "", r->way);
        }
    }
    return out.n != 0 ? out.p : NULL;
}

/* ---- the claim of each verdict ---- */

static const char *inaccurate_claim(struct context *x, const struct torch_cell *c)
{
    const struct torch_worst *w = &c->worst;
    double got = isnan(w->got) ? (double)NAN : w->got; /* without the sign of a NaN */
    const char *element = *w->index != '\0'
                              ? arena_fmt(x->cli->arena, "%s[%s]", w->tensor, w->index)
                              : w->tensor;
    if (w->whole) {
        return arena_fmt(x->cli->arena,
                         "%s as a whole is off: its RMS error is %.3g of its RMS value, %.3g times "
                         "what is allowed (%.3g).",
                         w->tensor, w->error, w->ratio, w->bound);
    }
    if (!(w->bound >= 0 && isfinite(w->error))) {
        return arena_fmt(x->cli->arena,
                         "The worst element, %s, is %g; the float64 reference is %.9g.", element,
                         got, w->wanted);
    }
    return arena_fmt(
        x->cli->arena,
        "The worst element, %s, is %.9g; the float64 reference is %.9g. It is off by %.3g, "
        "%.3g times what rounding in a correct implementation explains (%.3g).",
        element, got, w->wanted, w->error, w->ratio, w->bound);
}

const char *probe_torch_fault_text(struct cli *cli, const struct torch_fault *f,
                                   enum torch_side side, const char *otherwise)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 2000);
    const char *what = f->signal == 0 ? "touches" : f->is_write ? "writes" : "reads";
    if (f->operand == NULL) {
        strbuf_fmt(&out, "It %s memory that it was not given: %s.", what, otherwise);
    } else if (f->signal == 0) { /* a GPU tells no address */
        strbuf_fmt(&out, "It touches memory %s operand %s.",
                   side == TORCH_SIDE_BEGIN ? "in front of" : "behind", f->operand);
    } else {
        strbuf_fmt(&out, "It %s memory %s operand %s, %llu bytes from its edge.", what,
                   f->after ? "behind" : "in front of", f->operand,
                   (unsigned long long)f->distance);
    }
    if (f->library != NULL) {
        strbuf_fmt(&out, " The instruction is in %s at offset 0x%llx.", f->library,
                   (unsigned long long)f->offset);
    }
    return out.p;
}

static const char *fault_claim(struct context *x, const struct torch_cell *c)
{
    const char *text = probe_torch_fault_text(x->cli, &c->fault, c->probe.side, c->message);
    const char *pad = c->clean_pad == 0
                          ? ""
                          : arena_fmt(x->cli->arena,
                                      " With %lld mapped bytes there it does not fault.",
                                      (long long)c->clean_pad);
    return arena_fmt(x->cli->arena,
                     "%s%s In ordinary memory the neighbouring bytes are usually there, and the "
                     "numbers are right until they are not.",
                     text, pad);
}

static const char *claim_of(struct context *x, const struct torch_cell *c)
{
    switch (c->verdict) {
    case TORCH_INACCURATE: return inaccurate_claim(x, c);
    case TORCH_FAULTED: return fault_claim(x, c);
    case TORCH_WRONG_SHAPE:
        return arena_fmt(x->cli->arena, "A result does not fit: %s.", c->message);
    case TORCH_OVERWRITTEN: return arena_fmt(x->cli->arena, "%s.", c->message);
    case TORCH_MISALIGNED:
        return "The device reports a misaligned address: the kernel reads several elements at once "
               "and was given operands whose addresses or strides are no multiple of that. PyTorch "
               "took the operands, and the process is lost with the next call.";
    case TORCH_TIMEOUT: return "It did not end before the deadline and was killed.";
    case TORCH_CRASHED: return arena_fmt(x->cli->arena, "The process was lost: %s.", c->message);
    default: return arena_fmt(x->cli->arena, "It could not be judged: %s.", c->message);
    }
}

static const char *const ids[TORCH_VERDICT_COUNT] = {
    [TORCH_MISSING] = "torch-operator-missing",
    [TORCH_UNTOLD] = "torch-not-judged",
    [TORCH_INACCURATE] = "torch-inaccurate",
    [TORCH_WRONG_SHAPE] = "torch-wrong-shape",
    [TORCH_MISALIGNED] = "torch-misaligned",
    [TORCH_TIMEOUT] = "torch-hang",
    [TORCH_CRASHED] = "torch-crash",
    [TORCH_OVERWRITTEN] = "torch-overwrite",
    [TORCH_FAULTED] = "torch-out-of-bounds",
};

static const char *const verbs[TORCH_VERDICT_COUNT] = {
    [TORCH_UNTOLD] = "could not be judged",
    [TORCH_INACCURATE] = "is inaccurate",
    [TORCH_WRONG_SHAPE] = "gives a wrong shape",
    [TORCH_MISALIGNED] = "does not bear the alignment of its operands",
    [TORCH_TIMEOUT] = "hangs",
    [TORCH_CRASHED] = "crashes",
    [TORCH_OVERWRITTEN] = "writes where it must not",
    [TORCH_FAULTED] = "leaves its operands",
};

/* A way of an operator that is one matrix product. */
static bool is_product(const struct torch_row *r)
{
    return strcmp(r->op, "linear") == 0 || strcmp(r->op, "gemm") == 0 ||
           (strcmp(r->op, "patch_embed") == 0 && strcmp(r->way, "F.linear") == 0);
}

/* PyTorch lets products in 16 bits on a GPU add up partial sums in 16 bits, by default. Each such sum
 * rounds by u of its size, which is that of the tensor's large elements, also where the result is
 * small by cancellation. On an H200 the switch brings these errors below the bound
 * (bench/results/2026-11-29-h200-qualify.md). */
static void judge_reduction(struct context *x, const struct torch_row *r,
                            const struct torch_cell *c, struct finding *f)
{
    const double explained = 2 * dtype_unit_roundoff(r->dtype) * c->worst.largest;
    const char *format = r->dtype == DTYPE_BF16 ? "bf16" : "fp16";
    if (strncmp(x->device, "cuda", 4) != 0 || c->verdict != TORCH_INACCURATE ||
        (r->dtype != DTYPE_BF16 && r->dtype != DTYPE_F16) || !(c->worst.error <= explained) ||
        c->worst.whole || !is_product(r)) {
        return;
    }
    f->severity = SEVERITY_WARNING;
    f->claim = arena_fmt(x->cli->arena,
                         "%s PyTorch lets this device add up partial sums in 16 bits, which can "
                         "explain an error of this size.",
                         f->claim);
    add_remedy(
        x, f,
        arena_fmt(x->cli->arena,
                  "torch.backends.cuda.matmul.allow_%s_reduced_precision_reduction = False   "
                  "# sums in float32",
                  format));
}

/* A loud failure on operands with gaps between their rows can be avoided; every other one is a fault. */
static enum severity severity_of(const struct torch_row *r, const struct torch_cell *c)
{
    if (c->verdict == TORCH_UNTOLD) {
        return SEVERITY_UNKNOWN;
    }
    return c->verdict == TORCH_MISALIGNED && r->layout == TORCH_ROW_STRIDED ? SEVERITY_WARNING
                                                                            : SEVERITY_ERROR;
}

static void add_verdict(struct context *x, const struct torch_row *r, bool backward)
{
    struct arena *a = x->cli->arena;
    const struct torch_cell *c = cell_of(r, backward);
    struct finding *f = VEC_PUSH(a, x->findings);
    *f = (struct finding){
        .id = ids[c->verdict],
        .severity = severity_of(r, c),
        .confidence = 1,
    };
    f->title = arena_fmt(a, "%s %s of %s by %s %s%s", dtype_name(r), step_name(backward), r->op,
                         r->way, verbs[c->verdict],
                         r->layout == TORCH_ROW_STRIDED ? " on strided operands"
                         : r->layout == TORCH_ROW_DENSE ? " on dense operands"
                                                        : "");
    f->claim = arena_fmt(a, "%s %zu of %zu probes of this kind are bad.", claim_of(x, c), c->bad,
                         c->probes);
    judge_reduction(x, r, c, f);
    const char *seed = strstr(c->case_text, "seed=");
    add_evidence(
        x, f, "probe",
        arena_fmt(a, "%s; by %s, %s layout, operands %s", c->case_text, r->way,
                  torch_layout_name(c->probe.layout),
                  c->probe.side == TORCH_SIDE_BEGIN ? "begin at a hole" : "end at a hole"));
    if (c->message != NULL && c->message[0] != '\0' && c->verdict != TORCH_FAULTED) {
        add_evidence(x, f, "torch", c->message);
    }
    if (c->passes != NULL) {
        add_evidence(x, f, "a case that passes", c->passes);
    }
    if (c->verdict == TORCH_MISALIGNED && r->layout == TORCH_ROW_STRIDED) {
        add_remedy(x, f, "Give it dense operands: x.contiguous() for each of them.");
    }
    const char *others = acquitted(x, r, backward);
    if (others != NULL) {
        add_remedy(x, f, arena_fmt(a, "Right in the same format: %s.", others));
    }
    if (seed != NULL) {
        add_remedy(x, f,
                   arena_fmt(a, "assay probe --torch=%s --device %s --dtype %s --seed %.*s %s",
                             x->python, x->device, dtype_name(r),
                             (int)strspn(seed + 5, "0123456789"), seed + 5, r->op));
    }
}

/* ---- missing ---- */

/* True when some way has this step of the operator in the format. */
static bool served(struct context *x, const struct torch_row *row, bool backward)
{
    for (size_t i = 0; i < x->result->rows.count; i++) {
        const struct torch_row *r = &x->result->rows.items[i];
        const struct torch_cell *c = cell_of(r, backward);
        if (r->dtype == row->dtype && strcmp(r->op, row->op) == 0 && c->verdict != TORCH_MISSING &&
            c->verdict != TORCH_NOT_RUN) {
            return true;
        }
    }
    return false;
}

static bool is_missing(const struct torch_row *r, bool backward)
{
    return cell_of(r, backward)->verdict == TORCH_MISSING;
}

/* One finding for an operator that no way has in a format. */
static void add_missing(struct context *x, size_t at, bool backward)
{
    const struct torch_rows *rows = &x->result->rows;
    const struct torch_row *row = &rows->items[at];
    struct arena *a = x->cli->arena;
    for (size_t i = 0; i < at; i++) {
        const struct torch_row *r = &rows->items[i];
        if (r->dtype == row->dtype && strcmp(r->op, row->op) == 0 && is_missing(r, backward)) {
            return; /* said already */
        }
    }
    struct finding *f = VEC_PUSH(a, x->findings);
    *f = (struct finding){.id = backward ? "torch-backward-missing" : "torch-operator-missing",
                          .severity = SEVERITY_WARNING,
                          .confidence = 1};
    f->title = arena_fmt(a, "%s %s of %s is not implemented on %s", dtype_name(row),
                         step_name(backward), row->op, x->device);
    f->claim = arena_fmt(
        a,
        "torch %s refuses it in every way that was tried; training that needs it in "
        "this format stops there.",
        x->hello->torch);
    for (size_t i = at; i < rows->count; i++) {
        const struct torch_row *r = &rows->items[i];
        if (r->dtype == row->dtype && strcmp(r->op, row->op) == 0 && is_missing(r, backward)) {
            add_evidence(x, f, r->way, cell_of(r, backward)->message);
        }
    }
}

/* One note for a way that is not there while others are. */
static void add_missing_way(struct context *x, size_t at, bool backward)
{
    const struct torch_rows *rows = &x->result->rows;
    const struct torch_row *row = &rows->items[at];
    struct arena *a = x->cli->arena;
    const char *formats = "";
    for (size_t i = 0; i < rows->count; i++) {
        const struct torch_row *r = &rows->items[i];
        if (strcmp(r->op, row->op) != 0 || strcmp(r->way, row->way) != 0 ||
            !is_missing(r, backward) || !served(x, r, backward)) {
            continue;
        }
        if (i < at) {
            return;
        }
        formats = arena_fmt(a, "%s%s%s", formats, *formats != '\0' ? ", " : "", dtype_name(r));
    }
    struct finding *f = VEC_PUSH(a, x->findings);
    *f = (struct finding){.id = "torch-way-missing", .severity = SEVERITY_NOTE, .confidence = 1};
    f->title = arena_fmt(a, "%s %s by %s is not there for %s", row->op, step_name(backward),
                         row->way, formats);
    f->claim = "Other ways to call the operator have it in these formats.";
    add_evidence(x, f, "torch", cell_of(row, backward)->message);
}

void probe_torch_findings(struct cli *cli, const struct torch_hello *hello, const char *python,
                          const char *device, const struct torch_campaign_result *result,
                          struct finding_list *findings)
{
    struct context x = {cli, hello, python, device, result, findings};
    for (int v = TORCH_VERDICT_COUNT - 1; v > TORCH_MISSING; v--) {
        for (size_t i = 0; i < result->rows.count; i++) {
            for (int backward = 0; backward < 2; backward++) {
                const struct torch_row *r = &result->rows.items[i];
                if ((int)cell_of(r, backward)->verdict == v) {
                    add_verdict(&x, r, backward);
                }
            }
        }
    }
    for (int note = 0; note < 2; note++) {
        for (size_t i = 0; i < result->rows.count; i++) {
            for (int backward = 0; backward < 2; backward++) {
                const struct torch_row *r = &result->rows.items[i];
                if (!is_missing(r, backward) || served(&x, r, backward) != note) {
                    continue;
                }
                if (note) {
                    add_missing_way(&x, i, backward);
                } else {
                    add_missing(&x, i, backward);
                }
            }
        }
    }
}

/* ---- table ---- */

static const struct report_column columns[] = {
    {"op", "operator", 0},       {"way", "way", 0},
    {"dtype", "format", 0},      {"layout", "layout", 0},
    {"forward", "forward", 0},   {"forward_error", "err/bound", 3},
    {"backward", "backward", 0}, {"backward_error", "err/bound", 3},
    {"probes", "probes", 0},     {"note", "note", 0},
    {"seconds", NULL, 3},
};

static const char *const layout_names[] = {
    [TORCH_ROW_DENSE] = "dense", [TORCH_ROW_STRIDED] = "strided", [TORCH_ROW_ALL] = "all"};

static struct value cell_word(const struct torch_row *r, bool backward, bool proven)
{
    const struct torch_cell *c = cell_of(r, backward);
    if (backward && r->no_backward) {
        return value_string("none");
    }
    if (c->verdict == TORCH_OK && !proven) {
        return value_string("could not tell");
    }
    return value_string(torch_verdict_name(c->verdict));
}

static struct value cell_error(const struct torch_cell *c)
{
    return c->worst.tensor != NULL ? value_real(c->worst.ratio)
                                   : (struct value){.kind = VALUE_NULL};
}

/* What was chosen for the row, and how many cases this PyTorch does not have. */
static struct value note_of(struct arena *a, const struct torch_row *r)
{
    const struct torch_cell *c = &r->forward;
    const char *note = r->note != NULL ? r->note : "";
    if (c->missing > 0 && c->verdict != TORCH_MISSING) {
        note = arena_fmt(a, "%s%s%zu of %zu not there", note, *note != '\0' ? "; " : "", c->missing,
                         c->probes);
    }
    return *note != '\0' ? value_string(note) : (struct value){.kind = VALUE_NULL};
}

void probe_torch_table(struct cli *cli, const struct torch_campaign_result *result, bool proven,
                       struct report_table *ret_table)
{
    size_t n = ARRAY_LEN(columns), rows = 0;
    struct value *cells = arena_array(cli->arena, result->rows.count * n + 1, sizeof *cells);
    for (size_t i = 0; i < result->rows.count; i++) {
        const struct torch_row *r = &result->rows.items[i];
        if (r->forward.probes == 0 && r->backward.probes == 0) {
            continue; /* no case of the plan fits this way */
        }
        struct value *c = cells + n * rows++;
        c[0] = value_string(r->op);
        c[1] = value_string(r->way);
        c[2] = value_string(dtype_name(r));
        c[3] = value_string(layout_names[r->layout]);
        c[4] = cell_word(r, false, proven);
        c[5] = cell_error(&r->forward);
        c[6] = cell_word(r, true, proven);
        c[7] = cell_error(&r->backward);
        c[8] = value_int((int64_t)(r->forward.probes > r->backward.probes ? r->forward.probes
                                                                          : r->backward.probes));
        c[9] = note_of(cli->arena, r);
        c[10] = value_real(r->seconds);
    }
    *ret_table = (struct report_table){.key = "operators",
                                       .heading = "Operators",
                                       .columns = columns,
                                       .column_count = n,
                                       .cells = cells,
                                       .row_count = rows};
}

/* ---- times ---- */

static const struct report_column time_columns[] = {
    {"op", "operator", 0},
    {"way", "way", 0},
    {"dtype", "format", 0},
    {"forward_ms", "forward ms", 4},
    {"backward_ms", "backward ms", 4},
    {"ratio", "against F.linear", 4},
};

static struct value real_or_null(double r)
{
    return isfinite(r) ? value_real(r) : (struct value){.kind = VALUE_NULL};
}

void probe_torch_times(struct cli *cli, const struct torch_times *times,
                       struct report_table *ret_table)
{
    size_t n = ARRAY_LEN(time_columns);
    struct value *cells = arena_array(cli->arena, times->count * n + 1, sizeof *cells);
    for (size_t i = 0; i < times->count; i++) {
        const struct torch_time *t = &times->items[i];
        struct value *c = cells + n * i;
        c[0] = value_string("patch_embed");
        c[1] = value_string(t->way);
        c[2] = value_string(dtype_info(t->dtype)->name);
        c[3] = real_or_null(t->forward_s * 1e3);
        c[4] = real_or_null(t->backward_s * 1e3);
        c[5] = real_or_null((t->forward_s + t->backward_s) /
                            torch_time_of(times, "F.linear", t->dtype));
    }
    *ret_table = (struct report_table){.key = "times",
                                       .heading = "Times (medians)",
                                       .columns = time_columns,
                                       .column_count = n,
                                       .cells = cells,
                                       .row_count = times->count};
}
