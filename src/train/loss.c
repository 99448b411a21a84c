// SPDX-License-Identifier: Apache-2.0
/*
 * Cross entropy over the vocabulary, a chunk of rows at a time: the logits of all tokens never exist
 * at once. Logits are stored; softmax is in the arithmetic's format, sums and logarithm in double.
 * Backward makes the logits of each chunk again, unless one chunk held them all.
 *
 * run->float_loss does as log_softmax of frameworks on the CPU instead: the sum of a row in eight running
 * sums and its logarithm, each in the arithmetic's format. In float32 small terms are then lost beside
 * the large sum that they are added to, the same way in every row: with 49,152 words the sum is too
 * small by up to 5e-6, with 248,320 by up to 2e-5 (measured, PyTorch 2.15, logits of deviation 3), where
 * a rounding is 6e-8. A gradient whose rows nearly cancel shows that many times larger. For oracle.c.
 */
#include "train/model_inside.h"

enum {
    CHUNK_ELEMENTS = 1 << 24, /* logits that exist at once */
    CHUNK_ROWS_MIN = 16
};

/* What forward leaves for backward when one chunk held everything. */
struct loss_kept {
    real *p;     /* [rows, vocab]: exp(logit - largest of the row) */
    double *sum; /* [rows] of that */
    void *low;   /* of an adapter of the head */
};

struct chunk {
    const struct run *run;
    size_t vocab;
    const int32_t *labels;
    real *logits; /* [rows, vocab]; then exponentials; in backward their gradient */
    double *loss; /* [rows] */
    double *sum;  /* [rows] */
    real scale;
};

/* The reference keeps nothing and takes small chunks: the general way at any size. */
static size_t chunk_rows(const struct run *run, size_t vocab, size_t left)
{
    size_t rows = run->compute->reference ? 0 : CHUNK_ELEMENTS / vocab;
    rows = rows < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : rows;
    return rows < left ? rows : left;
}

/* Sum of the row's exponentials, which become x. */
static double row_sum(const struct run *run, size_t n, real *x, real top)
{
    double exact = T(exp_row)(run->compute, x, n, top);
    if (!run->float_loss) {
        return exact;
    }
    real s[8] = {0};
    for (size_t i = 0; i < n; i++) {
        s[i % 8] += x[i];
    }
    real sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    return exp((double)real_log(sum));
}

/* A row of logits becomes exponentials: loss = log(sum) - (logit of the label - top) */
static void loss_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct chunk *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        real *row = c->logits + t * c->vocab;
        real top = T(largest)(c->vocab, row);
        double right = (double)row[c->labels[t]] - (double)top;
        c->sum[t] = row_sum(c->run, c->vocab, row, top);
        c->loss[t] = log(c->sum[t]) - right;
    }
}

/* loss_rows() for backward, where the loss is known. */
static void softmax_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct chunk *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        real *row = c->logits + t * c->vocab;
        c->sum[t] = row_sum(c->run, c->vocab, row, T(largest)(c->vocab, row));
    }
}

/* d logits = scale * (softmax - one at the label), stored; over what softmax_rows left */
static void gradient_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct chunk *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        real *row = c->logits + t * c->vocab;
        real inverse = (real)(1 / c->sum[t]);
        real right = row[c->labels[t]] * inverse - 1;
        for (size_t i = 0; i < c->vocab; i++) {
            row[i] = c->scale * (row[i] * inverse);
        }
        row[c->labels[t]] = c->scale * right;
    }
}

static void gradient(struct chunk *c, size_t rows)
{
    compute_parts(c->run->compute, rows, part_rows(c->vocab), gradient_rows, c);
    T(round_store)(c->run, c->logits, rows * c->vocab);
}

static bool fits(const struct run *run, const struct linear *head, size_t rows)
{
    return rows != 0 && !run->compute->reference && rows <= CHUNK_ELEMENTS / head->out;
}

double T(loss_forward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                       const int32_t *labels, struct loss_kept **ret_kept)
{
    bool whole = fits(run, head, rows);
    struct tape_mark scratch = tape_mark(run->scratch);
    struct loss_kept *kept = whole ? tape_take(run->kept, 1, sizeof *kept) : NULL;
    struct tape *tape = whole ? run->kept : run->scratch;
    size_t most = chunk_rows(run, head->out, rows);
    struct chunk c = {.run = run, .vocab = head->out};
    c.logits = T(take)(tape, most * head->out);
    c.sum = tape_take(tape, most, sizeof *c.sum);
    c.loss = tape_take(run->scratch, most, sizeof *c.loss);
    double sum = 0;
    for (size_t first = 0; first < rows; first += most) {
        size_t n = chunk_rows(run, head->out, rows - first);
        struct tape_mark mark = tape_mark(run->kept);
        void *low = T(linear_forward)(run, head, n, x + first * head->in, c.logits);
        c.labels = labels + first;
        compute_parts(run->compute, n, part_rows(head->out), loss_rows, &c);
        for (size_t t = 0; t < n; t++) {
            sum += c.loss[t];
        }
        if (whole) {
            *kept = (struct loss_kept){.p = c.logits, .sum = c.sum, .low = low};
        } else {
            tape_rewind(run->kept, mark);
        }
    }
    tape_rewind(run->scratch, scratch);
    *ret_kept = kept;
    return sum;
}

/* Chunk by chunk: logits again, d logits in their place, then the head's own backward. */
static void backward_chunks(const struct run *run, const struct linear *head, size_t rows,
                            const real *x, const struct loss_kept *kept, struct chunk *c, real *dx)
{
    const int32_t *labels = c->labels;
    if (kept != NULL) {
        c->logits = kept->p;
        c->sum = kept->sum;
        gradient(c, rows);
        T(linear_backward)(run, head, rows, kept->low, x, c->logits, dx, GRADIENT_SET);
        return;
    }
    size_t most = chunk_rows(run, head->out, rows);
    struct tape_mark mark = tape_mark(run->kept);
    c->logits = T(take)(run->scratch, most * head->out);
    c->sum = tape_take(run->scratch, most, sizeof *c->sum);
    for (size_t first = 0; first < rows; first += most) {
        size_t n = chunk_rows(run, head->out, rows - first);
        const real *at = x + first * head->in;
        void *low = T(linear_forward)(c->run, head, n, at, c->logits);
        c->labels = labels + first;
        compute_parts(run->compute, n, part_rows(head->out), softmax_rows, c);
        gradient(c, n);
        T(linear_backward)(run, head, n, low, at, c->logits, dx + first * head->in, GRADIENT_SET);
        tape_rewind(run->kept, mark);
    }
}

void T(loss_backward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                      const int32_t *labels, const struct loss_kept *kept, real scale, real *dx)
{
    struct tape_mark scratch = tape_mark(run->scratch);
    struct chunk c = {.run = run, .vocab = head->out, .labels = labels, .scale = scale};
    if (run->precision != PRECISION_BF16 || head->lora_a != NULL || !head->weight->trainable) {
        backward_chunks(run, head, rows, x, kept, &c, dx);
    } else {
        /* A framework's gradient of the head is one product over all rows, stored once: the chunks
         * are summed unrounded first. */
        struct run unrounded = *run;
        struct param sum = *head->weight;
        struct linear part = *head;
        unrounded.precision = PRECISION_F32;
        part.weight = &sum;
        sum.grad = T(take)(run->scratch, sum.count);
        memset(sum.grad, 0, sum.count * sizeof(real));
        backward_chunks(&unrounded, &part, rows, x, kept, &c, dx);
        T(round_store)(run, dx, rows * head->in);
        T(grad_add)(run, head->weight, sum.grad);
    }
    tape_rewind(run->scratch, scratch);
}
