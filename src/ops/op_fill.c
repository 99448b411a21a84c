// SPDX-License-Identifier: Apache-2.0
/*
 * Inputs of a case from its seed. Integer arithmetic up to one exact scaling, no function of the C
 * library, so that the same case has the same numbers on every machine.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t op_random_next(struct op_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

struct op_random op_random_of(const struct op_case *c, unsigned stream)
{
    struct op_random r = {.state = c->seed * 0x2545f4914f6cdd1du + stream};
    r.state = op_random_next(&r);
    return r;
}

double op_random_unit(struct op_random *r)
{
    return (double)(op_random_next(r) >> 11) * 0x1p-53;
}

/* Four uniform numbers of 16 bits: the sum has variance 4/12, so times sqrt(3) it is 1. */
double op_random_bell(struct op_random *r)
{
    uint64_t bits = op_random_next(r);
    int64_t sum = (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) +
                  (int64_t)(bits >> 32 & 0xffff) + (int64_t)(bits >> 48);
    return (double)(2 * sum - 4 * 65535) * (1.7320508075688772 / 131072);
}

int64_t op_random_below(struct op_random *r, int64_t n)
{
    return n > 0 ? (int64_t)(op_random_next(r) % (uint64_t)n) : 0;
}

void op_array_round(struct op_array *a)
{
    for (size_t i = 0; i < a->count; i++) {
        a->value[i] = dtype_round(a->dtype, a->value[i]);
    }
}

static int64_t longest_dim(const struct op_problem *p)
{
    int64_t longest = 1;
    for (size_t i = 0; i < p->c.op->input_count; i++) {
        for (size_t d = 0; d < p->input[i].rank; d++) {
            longest = p->input[i].dim[d] > longest ? p->input[i].dim[d] : longest;
        }
    }
    return longest;
}

/* +-1 and +-2, and zeros so many that a sum over the longest dimension stays below 2^8. */
static double grid_value(struct op_random *r, double density)
{
    if (op_random_unit(r) >= density) {
        return 0;
    }
    uint64_t bits = op_random_next(r);
    double magnitude = bits & 2 ? 2 : 1;
    return bits & 1 ? magnitude : -magnitude;
}

/* Power of two by which ordinary values are scaled; exact. */
static int value_exponent(enum op_values values, const struct op_array *a, int64_t longest)
{
    const struct dtype_info *info = dtype_info(a->dtype);
    switch (values) {
    case OP_VALUES_DENORMAL: return info->min_exponent - 4;
    case OP_VALUES_TINY: return info->min_exponent + 1;
    case OP_VALUES_HUGE: return (ilogb(info->largest) - ilogb((double)longest)) / 2 - 3;
    default: return 0;
    }
}

static void fill_array(const struct op_problem *p, struct op_array *a, unsigned stream,
                       enum op_values values, int64_t longest)
{
    struct op_random r = op_random_of(&p->c, stream);
    double density = fmin(1.0, sqrt(60.0 / (double)longest));
    int exponent = value_exponent(values, a, longest);
    double scale = ldexp(1.0, exponent), last = 0;
    for (size_t i = 0; i < a->count; i++) {
        double v = values == OP_VALUES_GRID ? grid_value(&r, density) : op_random_bell(&r);
        if (values == OP_VALUES_ONE_SIGN) {
            v = fabs(v);
        } else if (values == OP_VALUES_CANCEL && i % 2) {
            v = -last * (1 + v * 0x1p-9);
        }
        last = v;
        a->value[i] = v * scale;
    }
    op_array_round(a);
}

void op_problem_fill(struct op_problem *p)
{
    int64_t longest = longest_dim(p);
    for (size_t i = 0; i < p->c.op->input_count; i++) {
        if (p->input[i].spec && dtype_info(p->input[i].dtype)->is_float) {
            fill_array(p, &p->input[i], (unsigned)i, p->c.values, longest);
        }
    }
    /* Gradients of the result stay ordinary where the inputs are at an end of the format. */
    enum op_values values = p->c.values == OP_VALUES_GRID || p->c.values == OP_VALUES_ONE_SIGN ||
                                    p->c.values == OP_VALUES_CANCEL
                                ? p->c.values
                                : OP_VALUES_RANDOM;
    for (size_t i = 0; i < p->c.op->output_count; i++) {
        if (p->grad_output[i].spec) {
            fill_array(p, &p->grad_output[i], 100 + (unsigned)i, values, longest);
        }
    }
    if (p->c.op->fill) {
        p->c.op->fill(p);
    }
}
