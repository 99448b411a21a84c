// SPDX-License-Identifier: Apache-2.0
/*
 * What the families of operators share: bounds of sums, random numbers, lookups that must succeed.
 * For src/ops/op_*.c only.
 *
 * Bounds follow Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 2 to 4: a
 * sum of n products in any order has an error of at most n u S to first order, S the sum of the
 * terms' magnitudes, whatever the blocking. Rounding an intermediate of magnitude |t| to the format
 * of the case adds u_mid |t|. The final rounding of the result is added by op_problem_solve.
 */
#ifndef ASSAY_OPS_OP_INSIDE_H
#define ASSAY_OPS_OP_INSIDE_H

#include "ops/op.h"

/* Bound of element `i` of a result that sums `terms` products whose magnitudes sum to `sum`:
 * ((terms + 2) u_acc + 2 u_in + mid u_mid) sum, with `mid` roundings of intermediates. */
double op_sum_error(const struct op_problem *p, double terms, double mid, double sum);

/* The same written to r->bound[i]. Where the values lie on the grid, `integers` says that the
 * factors besides the operands are whole, and every partial sum has its place in the narrowest
 * format around, the result is exact: no bound at all, not even for the last rounding. */
void op_bound_sum(const struct op_problem *p, struct op_array *r, size_t i, double terms,
                  double mid, double sum, bool integers);

/* Half the spacing of subnormal numbers in the format of the case: what storing a factor below the
 * smallest normal number may lose beside its relative error. */
double op_stored_loss(const struct op_problem *p);

/* Value of r->bound[i] that stands for "exact"; op_problem_solve turns it into 0. */
#define OP_BOUND_EXACT (-1.0)

/* Scratch doubles; freed when op_problem_solve returns. */
double *op_scratch(struct op_problem *p, size_t count);

/* The input or output of that position when present, else NULL. */
const double *op_in(const struct op_problem *p, size_t position);
double *op_out(struct op_problem *p, size_t position);
const double *op_dout(const struct op_problem *p, size_t position);
double *op_grad(struct op_problem *p, size_t position);

/* A linear layer over tensors of any rank: inputs 0, 1, 2 are x, weight, bias. */
struct op_linear_view {
    size_t rows, n, k;
    const double *x, *weight, *bias; /* bias may be NULL */
    const double *dy;
};
struct op_linear_view op_linear_view(const struct op_problem *p, size_t rows, size_t n, size_t k);
void op_linear_forward(const struct op_linear_view *v, double *y);
void op_linear_backward(const struct op_linear_view *v, double *dx, double *dweight, double *dbias);
void op_linear_bound(struct op_problem *p, const struct op_linear_view *v);

/* ---- numbers ---- */

struct op_random {
    uint64_t state;
};

/* A stream of its own for each tensor of a case. */
struct op_random op_random_of(const struct op_case *c, unsigned stream);
uint64_t op_random_next(struct op_random *r);
double op_random_unit(struct op_random *r); /* [0, 1) */
double op_random_bell(struct op_random *r); /* mean 0, variance 1, |x| < 3.5; same everywhere */
int64_t op_random_below(struct op_random *r, int64_t n);

/* Rounds the values of an array to its format. */
void op_array_round(struct op_array *a);

/* x * sigmoid(x), its derivative; sigmoid itself. */
double op_sigmoid(double x);
double op_silu(double x);
double op_silu_slope(double x);

#endif
