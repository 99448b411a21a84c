// SPDX-License-Identifier: Apache-2.0
/* A case as text, then operands nobody checked: indices outside of everything, NaN, infinities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/judge_op.h"
#include "ops/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ELEMENTS_MAX = 3000 /* so that one input takes no second */
};

static bool is_small(const struct op_case *c)
{
    size_t total = 0;
    for (size_t i = 0; i < c->op->input_count + c->op->output_count; i++) {
        bool result = i >= c->op->input_count;
        struct op_array shape;
        const struct op_tensor *spec = result ? &c->op->outputs[i - c->op->input_count]
                                              : &c->op->inputs[i];
        if (op_array_shape(c, spec, result, &shape, NULL) != ST_OK) {
            abort(); /* the case was checked */
        }
        total += shape.count;
    }
    return total <= ELEMENTS_MAX;
}

/* The bytes after the line become elements of all operands, in turn. */
static void spoil(struct op_problem *p, const uint8_t *data, size_t size)
{
    for (size_t i = 0; size && i < p->c.op->input_count; i++) {
        struct op_array *x = &p->input[i];
        for (size_t k = 0; k < x->count && k < size; k++) {
            static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1, 1e9, 0.5, -0.0};
            x->value[k] = data[k] < 128 ? x->value[k] : odd[data[k] % 8];
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    struct str line = {.p = (const char *)data, .n = end ? (size_t)(end - data) : size};
    struct op_case c, again;
    struct op_problem p;
    struct err err;
    if (op_case_parse(line, &c, &err) != ST_OK || !is_small(&c)) {
        return 0;
    }
    struct arena *a = arena_new((size_t)512 << 20);
    if (op_case_parse(str_of(op_case_text(a, &c)), &again, &err) != ST_OK || again.op != c.op ||
        op_problem_make(a, &c, &p, &err) != ST_OK) {
        abort();
    }
    op_problem_fill(&p);
    if (end) {
        spoil(&p, end, (size_t)(data + size - end));
    }
    op_problem_solve(&p, true);
    struct op_judged judged;
    op_judge(&p.output[0], false, DTYPE_F64, p.output[0].value, NULL, &judged);
    (void)op_judged_text(a, &judged);
    arena_free(a);
    return 0;
}
