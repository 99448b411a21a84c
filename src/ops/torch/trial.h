// SPDX-License-Identifier: Apache-2.0
/*
 * One operator case run by the user's PyTorch and judged: operands written into the shared file in
 * the layout asked for, results read back and held against the float64 reference.
 */
#ifndef ASSAY_OPS_TORCH_TRIAL_H
#define ASSAY_OPS_TORCH_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#include "ops/op.h"
#include "ops/torch/agent.h"

/* How a tensor of two or more dimensions lies in memory; others are dense. */
enum torch_layout {
    TORCH_DENSE = 0,
    TORCH_PADDED,      /* rows further apart than they are long; NaN in between */
    TORCH_TRANSPOSED,  /* the last two dimensions exchanged */
    TORCH_TOKEN_MAJOR, /* four dimensions, the middle two exchanged: [batch, heads, time, dim] as a
                             * view of a projection's [batch, time, heads, dim] */
    TORCH_LAST_TOKEN_MAJOR, /* the last input of four dimensions alone: values of attention */
    TORCH_LAYOUT_COUNT
};

enum torch_side {
    TORCH_SIDE_END = 0, /* operands end at a hole */
    TORCH_SIDE_BEGIN,   /* operands begin at one */
    TORCH_SIDE_NONE,    /* ordinary memory */
    TORCH_SIDE_COUNT
};

struct torch_probe {
    const char *way; /* of the agent: "F.linear" */
    enum torch_layout layout;
    enum torch_side side;
    const char *only;   /* guard this operand alone; "": all of them */
    bool outputs_alone; /* guard only what torch allocates itself, where that can be done */
    int64_t pad_bytes;  /* mapped bytes between the operand and its hole */
    bool backward;
    int deadline_ms;
};

/* Ordered from good to bad, so that the worst of several is the largest. */
enum torch_verdict {
    TORCH_OK = 0,
    TORCH_NOT_RUN,    /* an earlier step ended the case, or there is no such step */
    TORCH_MISSING,    /* this PyTorch says that it does not have it */
    TORCH_UNTOLD,     /* could not tell: exception, garbage instead of an answer */
    TORCH_INACCURATE, /* further from the reference than the bound allows */
    TORCH_WRONG_SHAPE,
    TORCH_MISALIGNED, /* the device reports an address that is no multiple of an access's width */
    TORCH_TIMEOUT,
    TORCH_CRASHED,
    TORCH_OVERWRITTEN, /* wrote outside an operand, or into one that it only reads */
    TORCH_FAULTED,     /* touched memory outside its operands */
    TORCH_VERDICT_COUNT
};

/* The element that is worst against its bound. Texts live on the arena of the run. */
struct torch_worst {
    const char *tensor; /* "y", "dweight"; NULL: nothing was judged */
    const char *index;  /* "3,17" */
    double got, wanted, error, bound;
    double largest; /* |reference| of the tensor's elements, at most */
    double ratio;   /* error / bound; infinite for NaN */
    bool
        whole; /* no element: RMS(error)/RMS(value) of the tensor in `error`, its limit in `bound` */
};

struct torch_step {
    enum torch_verdict verdict;
    struct torch_worst worst;
};

struct torch_result {
    struct torch_step forward, backward;
    const char *message; /* of an exception, a death, an over-write; "" when there is none */
    struct torch_fault fault;
    double seconds[2]; /* forward, backward, as the agent's clock saw them */
};

/* `p` is made, filled and solved; `probe->backward` only where it was solved with gradients. ST_LIMIT
 * when the operands do not fit the shared file, ST_IO when the process is gone. */
enum status torch_trial_run(struct torch_agent *agent, struct arena *a, const struct op_problem *p,
                            const struct torch_probe *probe, struct torch_result *ret_result,
                            struct err *err) MUST_USE;

/* Error against bound for every element, and of the tensor as a whole where the operator limits that; NaN
 * is wrong wherever the reference is a number. *worst is replaced by what is farther off. */
enum torch_verdict torch_judge(struct arena *a, const char *name, const struct op_array *array,
                               const double *got, struct torch_worst *worst);

/* What an answer says without its numbers: verdicts, message, seconds, over-writes. */
void torch_answer_read(struct arena *a, const struct tree *answer, struct torch_result *ret_result);

/* The same for a worker that did not answer: the step in which it ended carries the verdict. */
void torch_answer_ended(struct arena *a, const struct torch_reply *reply,
                        struct torch_result *ret_result);

const char *torch_layout_name(enum torch_layout layout);    /* "dense" */
const char *torch_side_name(enum torch_side side);          /* "end" */
const char *torch_verdict_name(enum torch_verdict verdict); /* "inaccurate" */

#endif
