// SPDX-License-Identifier: Apache-2.0
/*
 * The user's own Python with its PyTorch, as a process that runs one operator case after another.
 *
 * The program that it runs is built in (agent/guard.py and its neighbours). Requests and answers are JSON, one
 * object a line, over a socket; tensors lie in a file that both map. What happens to the process is
 * an answer too: a fault with its address, a death, a hang, a line that is no answer. The process
 * then has a new worker (or is gone, which torch_agent_ask() reports as ST_IO from then on).
 *
 * Everything that comes back is hostile input: sizes and offsets are checked by torch_answer_view().
 */
#ifndef ASSAY_OPS_TORCH_AGENT_H
#define ASSAY_OPS_TORCH_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tree.h"

/* First offset of the shared file that tensors may use; before it lies the fault record. */
#define TORCH_SHARED_HEADER 4096

struct torch_agent;

struct torch_agent_options {
    const char *python; /* program, searched in PATH when it has no slash */
    const char *device; /* "cpu" or "cuda" (torch's word for HIP as well) */
    size_t shared_bytes;
    int start_ms; /* until torch is imported and the guard is proven */
};

/* What the process says of itself; texts are never NULL. */
struct torch_hello {
    const char *python;     /* "3.11.2" */
    const char *executable; /* as Python names it */
    const char *torch;      /* "2.11.0+cu130" */
    const char *cuda, *hip; /* versions that torch was built for, or "" */
    const char *device;     /* "NVIDIA H200", "CPU" */
    bool proven;            /* planted accesses of one element were caught there */
    bool broken;       /* not even an access inside an operand went well: the guard does not work */
    const char *proof; /* how the proof came out */
    bool guards_outputs; /* what torch allocates itself is guarded as well */
    const struct tree *variants;
};

enum torch_end {
    TORCH_ANSWERED = 0,
    TORCH_FAULT,   /* a signal with an address, see `fault` */
    TORCH_DIED,    /* signal or exit code without more */
    TORCH_HUNG,    /* the deadline passed; the worker was killed */
    TORCH_GARBAGE, /* a line that is no answer to this request; the worker was killed */
    TORCH_END_COUNT
};

/* A signal in the worker, in terms of the operands it had. */
struct torch_fault {
    int signal;
    bool is_write;       /* of SIGSEGV, as the processor says */
    const char *operand; /* nearest operand whose hole was touched, or NULL: none was */
    bool after;          /* behind its last byte, else before its first */
    uint64_t distance;   /* bytes from that edge; 0 is the first byte outside */
    const char *library; /* file of the faulting instruction, or NULL */
    uint64_t offset;     /* of that instruction in the file's mapping */
};

enum {
    TORCH_OPERANDS_MAX = 24
};

struct torch_reply {
    enum torch_end end;
    bool in_backward;                         /* that far the worker had come when it ended */
    const struct tree *answer;                /* of TORCH_ANSWERED */
    struct torch_fault fault;                 /* of TORCH_FAULT */
    int signal, code;                         /* of TORCH_DIED */
    const char *operands[TORCH_OPERANDS_MAX]; /* that the worker had placed, in order */
    size_t operand_count;
    const char *text; /* of TORCH_GARBAGE and TORCH_DIED: what was said last; never NULL */
};

/* Starts the interpreter and waits for its proof. ST_ABSENT: no such program; ST_UNSUPPORTED: it runs
 * and is no Python with PyTorch; ST_IO: it died or hung on the way. */
enum status torch_agent_start(struct arena *a, const struct torch_agent_options *options,
                              struct torch_agent **ret_agent, struct err *err) MUST_USE;

const struct torch_hello *torch_agent_hello(const struct torch_agent *agent);

/* The shared file; valid until torch_agent_stop(). */
unsigned char *torch_agent_shared(const struct torch_agent *agent, size_t *ret_bytes);

/* A number that no request of this process had yet. */
int64_t torch_agent_next_id(struct torch_agent *agent);

/* Sends one request (an object with the member "id"; line breaks are taken out) and waits. The reply
 * lives on `a`. ST_IO when the process is gone for good. */
enum status torch_agent_ask(struct torch_agent *agent, struct arena *a, struct strbuf *request,
                            int64_t id, int deadline_ms, struct torch_reply *ret_reply,
                            struct err *err) MUST_USE;

/* Ends the process. NULL is fine. */
void torch_agent_stop(struct torch_agent *agent);

#endif
