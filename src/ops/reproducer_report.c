// SPDX-License-Identifier: Apache-2.0
/*
 * report.md: an issue to copy. The headings are those of ROCm's form; PyTorch's "Describe the bug" is
 * the first of them and its "Versions" is the last.
 */
#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

#include "ops/reproducer_fill.h"
#include "ops/reproducer_write.h"

enum {
    REPORT_MAX = 1 << 20,
    WORDS_MAX = 1000,
    BAR = 24
};

static const char operand_letters[] = "ABC?";

static void add_heading(struct strbuf *out, const char *text)
{
    strbuf_fmt(out, "\n## %s\n\n", text);
}

static void add_lines(struct strbuf *out, const struct reproducer_line_list *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        strbuf_fmt(out, "* %s: %s\n", lines->items[i].name,
                   reproducer_redact(out->arena, lines->items[i].text));
    }
}

/* Which bytes belong to whom, and where the access went. */
static void add_picture(struct strbuf *out, const struct reproducer *r)
{
    const struct gemm_probe *p = &r->diagnosis->probe;
    const struct gemm_fault *f = &r->diagnosis->fault;
    const struct gemm_shape *s = &p->shape;
    const uint64_t bytes[] = {gemm_extent_a(s) * dtype_info(s->dtype_ab)->size,
                              gemm_extent_b(s) * dtype_info(s->dtype_ab)->size,
                              gemm_extent_c(s) * dtype_info(s->dtype_c)->size};
    bool end = p->side == GUARD_END;
    strbuf_addz(out, "```\n");
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
        char letter = operand_letters[i];
        bool at_hole = p->only == 0 || p->only == i + 1;
        const char *beside = at_hole ? "no access" : "readable ";
        strbuf_fmt(out, "%c  ...%s| %10" PRIu64 " bytes of %c |%s...\n", letter,
                   end ? "readable " : beside, bytes[i], letter, end ? beside : "readable ");
    }
    if (fill_is_edge(f->kind) && f->operand != GEMM_OPERAND_NONE && !f->distance_unknown) {
        strbuf_fmt(out, "first byte touched outside: %s%" PRId64 " from the %s of %c\n",
                   f->distance >= 0 ? "+" : "", f->distance,
                   f->distance >= 0 ? "end" : "first byte", operand_letters[f->operand]);
    }
    strbuf_fmt(
        out,
        "'|' is where an operand %s, to the byte. Beside it lies a boundary of pages, and the\n"
        "page there is not mapped, or mapped without access. Elements are column-major, element\n"
        "(i, j) at i + j * ld; sizes count from the first to the last element.\n```\n",
        end ? "ends" : "begins");
}

static const char *library_argument(struct arena *a, const struct reproducer *r)
{
    const char *path = r->target->path != NULL ? r->target->path : "";
    return strcmp(fill_library(a, path), path) == 0
               ? ""
               : arena_fmt(a, " %s", reproducer_redact(a, path));
}

static void add_steps(struct strbuf *out, const struct reproducer *r)
{
    struct arena *a = out->arena;
    const char *library = library_argument(a, r);
    const char *path = reproducer_redact(a, r->target->path != NULL ? r->target->path : "");
    strbuf_fmt(out,
               "```\n"
               "cc -O1 -o reproducer reproducer.c -ldl -lm\n"
               "./reproducer%s\n"
               "./reproducer --slack%s      # control: readable memory next to each operand\n"
               "./reproducer OTHER_LIBRARY      # control: the same product by another library\n"
               "```\n\nSeen on the machine that made this report:\n\n",
               library, library);
    struct text_list seen = {0};
    reproducer_seen(a, &r->check, &seen);
    for (size_t i = 0; i < seen.count; i++) {
        strbuf_fmt(out, "* %s\n", reproducer_redact(a, seen.items[i]));
    }
    if (r->target->vendor == &gemm_vendor_blas) {
        strbuf_fmt(out,
                   "\nWith assay (the program that wrote this report), the product in all its "
                   "placements and entry points:\n\n```\nassay probe --library %s --shapes "
                   "shapes.txt\n```\n",
                   path);
    }
}

static void add_bench(struct strbuf *out, const struct reproducer *r)
{
    const char *line = reproducer_bench(out->arena, r);
    if (line == NULL) {
        return;
    }
    strbuf_fmt(
        out, "\nThe same product for the bench of the library:\n\n```\n%s\n```\n\n%s", line,
        fill_is_edge(r->diagnosis->fault.kind)
            ? "The bench allocates without a hole, so that memory lies behind the operands: it "
              "is expected to pass. The layout below is what makes the product fail.\n"
            : "");
}

static void add_neighbours(struct strbuf *out, const struct gemm_diagnosis *d)
{
    for (int fails = 0; fails < 2; fails++) {
        struct strbuf words;
        strbuf_init(&words, out->arena, WORDS_MAX);
        for (size_t i = 0; i < d->neighbours.count; i++) {
            if (d->neighbours.items[i].fails == (fails == 1)) {
                strbuf_fmt(&words, "%s%s", words.n != 0 ? ", " : "", d->neighbours.items[i].change);
            }
        }
        if (words.n != 0) {
            strbuf_fmt(out, "* nearest products that %s: %s\n", fails == 1 ? "fail too" : "pass",
                       words.p);
        }
    }
    if (d->clean_bytes >= 0) {
        strbuf_fmt(out,
                   "* with %" PRId64
                   " readable bytes at the edge, all of %zu failing products that "
                   "were tried pass\n",
                   d->clean_bytes, d->padded);
    }
    if (d->dirty_bytes > 0) {
        strbuf_fmt(out, "* %" PRId64 " readable bytes at the edge do not hide it\n",
                   d->dirty_bytes);
    }
}

/* Kernel families by what became of them; those that this build does not have tell nothing. */
static void add_kernels(struct strbuf *out, const struct gemm_diagnosis *d)
{
    for (enum gemm_kernel_verdict v = 0; v < GEMM_KERNEL_REFUSED; v++) {
        struct strbuf words;
        strbuf_init(&words, out->arena, WORDS_MAX);
        const char *variable = "";
        for (size_t i = 0; i < d->kernels.count; i++) {
            const struct gemm_kernel *k = &d->kernels.items[i];
            if (k->verdict == v) {
                variable = k->variable;
                strbuf_fmt(&words, "%s%s%s%s%s", words.n != 0 ? ", " : "", k->value,
                           k->name[0] != '\0' ? " (" : "", k->name, k->name[0] != '\0' ? ")" : "");
            }
        }
        if (words.n != 0) {
            strbuf_fmt(out, "* %s, %s: %s\n", variable, gemm_kernel_verdict_name(v), words.p);
        }
    }
}

enum status reproducer_report(struct arena *a, const struct reproducer *r, const char *folder,
                              struct err *err)
{
    const struct gemm_diagnosis *d = r->diagnosis;
    struct strbuf out;
    struct strbuf shape;
    strbuf_init(&out, a, REPORT_MAX);
    strbuf_init(&shape, a, WORDS_MAX);
    gemm_shape_print(&shape, &d->probe.shape);
    strbuf_fmt(&out, "# %s\n", reproducer_redact(a, r->title));
    add_heading(&out, "Problem Description");
    strbuf_fmt(&out, "%s\n\nSmallest product found: %s, through %s.\n",
               reproducer_redact(a, r->claim), shape.p, d->fault.choice.name);
    add_heading(&out, "Steps to Reproduce");
    add_steps(&out, r);
    add_bench(&out, r);
    add_heading(&out, "Where the operands lie");
    add_picture(&out, r);
    add_heading(&out, "Additional Information");
    add_neighbours(&out, d);
    add_kernels(&out, d);
    add_lines(&out, &r->tried);
    add_heading(&out, "Versions (Operating System, CPU, GPU, ROCm Version, ROCm Component)");
    strbuf_fmt(&out, "* component: %s%s%s\n* library: %s\n", r->identity->family,
               r->identity->version[0] != '\0' ? " " : "", r->identity->version,
               reproducer_redact(a, r->target->path != NULL ? r->target->path : "not named"));
    if (r->identity->kernel[0] != '\0') {
        strbuf_fmt(&out, "* kernels the library chose here: %s\n", r->identity->kernel);
    }
    add_lines(&out, &r->stack);
    return reproducer_put(a, folder, "report.md", strbuf_str(&out), err);
}
