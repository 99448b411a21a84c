// SPDX-License-Identifier: Apache-2.0
/*
 * Cross entropy over the vocabulary, a chunk of rows at a time: the logits of all tokens never exist
 * at once. Logits are stored; softmax and logarithm are in the arithmetic's format, sums in double.
 * Backward makes the logits of each chunk again.
 */
#include "train/model_inside.h"

enum {
    CHUNK_ELEMENTS = 1 << 23, /* logits that exist at once */
    CHUNK_ROWS_MIN = 16
};

struct chunk {
    const struct run *run;
    size_t vocab;
    const int32_t *labels;
    real *logits;
    double *loss; /* [rows] */
    real scale;
};

static size_t chunk_rows(size_t vocab, size_t left)
{
    size_t rows = CHUNK_ELEMENTS / vocab;
    rows = rows < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : rows;
    return rows < left ? rows : left;
}

static real largest(const real *x, size_t n)
{
    real top = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        top = x[i] > top || x[i] != x[i] ? x[i] : top; /* a NaN is not passed over */
    }
    return top;
}

static void loss_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct chunk *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        real *row = c->logits + t * c->vocab;
        real top = largest(row, c->vocab);
        double right = (double)row[c->labels[t]] - (double)top;
        c->loss[t] = log(T(exp_row)(c->run->compute, row, c->vocab, top)) - right;
    }
}

/* d logits = scale * (softmax - one at the label), stored */
static void gradient_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct chunk *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        real *row = c->logits + t * c->vocab;
        double sum = T(exp_row)(c->run->compute, row, c->vocab, largest(row, c->vocab));
        real inverse = (real)(1 / sum);
        for (size_t i = 0; i < c->vocab; i++) {
            real one = i == (size_t)c->labels[t] ? 1 : 0;
            row[i] = T(store)(c->run, c->scale * (row[i] * inverse - one));
        }
    }
}

double T(loss_forward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                       const int32_t *labels)
{
    struct tape_mark scratch = tape_mark(run->scratch);
    struct tape_mark kept = tape_mark(run->kept);
    size_t most = chunk_rows(head->out, rows);
    struct chunk c = {.run = run, .vocab = head->out};
    c.logits = T(take)(run->scratch, most * head->out);
    c.loss = tape_take(run->scratch, most, sizeof *c.loss);
    double sum = 0;
    for (size_t first = 0; first < rows; first += most) {
        size_t n = chunk_rows(head->out, rows - first);
        T(linear_forward)(run, head, n, x + first * head->in, c.logits);
        c.labels = labels + first;
        compute_parts(run->compute, n, part_rows(head->out), loss_rows, &c);
        for (size_t t = 0; t < n; t++) {
            sum += c.loss[t];
        }
        tape_rewind(run->kept, kept);
    }
    tape_rewind(run->scratch, scratch);
    return sum;
}

static void backward_chunks(const struct run *run, const struct linear *head, size_t rows,
                            const real *x, struct chunk *c, real *dx)
{
    const int32_t *labels = c->labels;
    size_t most = chunk_rows(head->out, rows);
    struct tape_mark kept = tape_mark(run->kept);
    for (size_t first = 0; first < rows; first += most) {
        size_t n = chunk_rows(head->out, rows - first);
        const real *at = x + first * head->in;
        void *low = T(linear_forward)(c->run, head, n, at, c->logits);
        c->labels = labels + first;
        compute_parts(run->compute, n, part_rows(head->out), gradient_rows, c);
        T(linear_backward)(run, head, n, low, at, c->logits, dx + first * head->in, GRADIENT_SET);
        tape_rewind(run->kept, kept);
    }
}

void T(loss_backward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                      const int32_t *labels, real scale, real *dx)
{
    struct tape_mark scratch = tape_mark(run->scratch);
    struct chunk c = {.run = run, .vocab = head->out, .labels = labels, .scale = scale};
    c.logits = T(take)(run->scratch, chunk_rows(head->out, rows) * head->out);
    if (run->precision != PRECISION_BF16 || head->lora_a != NULL || !head->weight->trainable) {
        backward_chunks(run, head, rows, x, &c, dx);
    } else {
        /* A framework's gradient of the head is one product over all rows, stored once: the chunks are
         * summed unrounded first. */
        struct run unrounded = *run;
        struct param sum = *head->weight;
        struct linear part = *head;
        unrounded.precision = PRECISION_F32;
        part.weight = &sum;
        sum.grad = T(take)(run->scratch, sum.count);
        memset(sum.grad, 0, sum.count * sizeof(real));
        backward_chunks(&unrounded, &part, rows, x, &c, dx);
        T(round_store)(run, dx, rows * head->in);
        T(grad_add)(run, head->weight, sum.grad);
    }
    tape_rewind(run->scratch, scratch);
}
