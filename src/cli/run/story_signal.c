// SPDX-License-Identifier: Apache-2.0
/* See story_signal.h. */
#include "cli/run/story_signal.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

enum {
    NULL_BYTES = 64 << 10, /* a member of a struct at NULL; nothing is ever mapped there */
    STACK_NEAR = 64 << 10, /* a frame reaches that far from the stack pointer */
};

/* Libraries that only carry out what another one asked: the caller is the one to look at. */
static bool is_runtime(const char *frame)
{
    static const char *const names[] = {"libc.so",    "libc-",    "libm.so",      "ld-linux",
                                        "libstdc++.", "libc++.",  "libc++abi.so", "libgcc_s.",
                                        "libpthread", "linux-vd", "[vdso]"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_starts(str_of(frame), names[i])) {
            return true;
        }
    }
    return false;
}

/* "libc.so.6: __memmove, called by libmyop.so: fail" */
static const char *place_text(struct arena *a, const struct fault_story *s,
                              const struct text_list *frames, bool skip)
{
    const char *first = frames->count > 0 ? frames->items[0]
                        : s->code != NULL ? maps_base_name(s->code)
                                          : "code of no library";
    const char *caller = NULL;
    for (size_t i = 0; i < frames->count && caller == NULL; i++) {
        caller = is_runtime(frames->items[i]) ? NULL : frames->items[i];
    }
    if (caller == NULL || caller == first) {
        return first;
    }
    /* A place within the C library without a name says nothing. */
    int n = (int)strcspn(first, "+");
    return skip ? caller : arena_fmt(a, "%.*s, called by %s", n, first, caller);
}

static void advise(struct arena *a, struct finding *f, const char *text)
{
    *VEC_PUSH(a, &f->remedy) = text;
}

static void advise_python(struct arena *a, const struct record_header *head, struct finding *f)
{
    if (strstr(head->program, "python") != NULL) {
        advise(a, f,
               "assay run --env PYTHONFAULTHANDLER=1 -- COMMAND prints the line of Python in which "
               "each thread was");
    }
}

static void tell_sent(struct arena *a, const struct record_header *head, const char *name,
                      const char *place, struct finding *f)
{
    bool itself = head->fault_sender == head->pid;
    f->id = RUN_SIGNAL_SENT;
    f->title = itself ? arena_fmt(a, "process %d sent signal %s to itself", head->pid, name)
                      : arena_fmt(a, "process %d was sent signal %s by process %d", head->pid, name,
                                  head->fault_sender);
    f->claim = arena_fmt(a,
                         "No instruction failed: the signal came from %s, while the process was in "
                         "%s.",
                         itself ? "kill() or raise() of the process" : "another process", place);
    f->confidence = 0.6;
    advise(a, f,
           itself ? "look in its frames for who called kill or raise"
                  : "ask what that process is, and why it ends this one");
}

static void tell_abort(struct arena *a, const struct record_header *head, const char *place,
                       struct finding *f)
{
    f->id = RUN_SIGNAL_ABORT;
    f->title = arena_fmt(a, "abort() in %s", place);
    f->claim = "The program ended itself by abort(): a C++ exception that nobody caught, an "
               "assertion, or a check of the allocator. Which one, it says on standard error.";
    f->confidence = 0.5;
    advise(a, f, "read the lines of stderr.log in front of the end");
    advise_python(a, head, f);
}

static void tell_overflow(struct arena *a, const struct record_header *head, const char *place,
                          struct finding *f)
{
    f->id = RUN_SIGNAL_OVERFLOW;
    f->title = arena_fmt(a, "the stack ran out in %s", place);
    f->claim = arena_fmt(
        a,
        "The address that could not be reached, 0x%" PRIx64 ", lies at the stack pointer, "
        "0x%" PRIx64 ": calls went too deep (a recursion without end), or one frame is too large.",
        head->fault.address, head->fault_stack);
    f->confidence = 0.85;
    advise(a, f, "look in the frames for what calls itself");
    advise(a, f, "where the depth is wanted: ulimit -s 65536, threading.stack_size() for threads");
    advise_python(a, head, f);
}

static const char *fault_text(struct arena *a, const struct record_header *head,
                              const struct fault_story *s, const char *name)
{
    bool null = s->addressed && s->address < NULL_BYTES;
    switch (s->signal) {
    case SIGSEGV:
        if (!s->addressed) {
            return "it used an address that no program can have";
        }
        return arena_fmt(a, "it %s address 0x%" PRIx64 "%s",
                         s->address == head->fault.instruction ? "jumped to"
                         : s->write                            ? "wrote to"
                                                               : "read",
                         s->address, null ? ", near null: a pointer that points to nothing" : "");
    case SIGBUS:
        return arena_fmt(a,
                         "address 0x%" PRIx64
                         " has no memory behind it: a mapped file that is shorter, "
                         "or /dev/shm is full",
                         s->address);
    case SIGILL: return "it has an instruction that this processor does not know";
    case SIGFPE: return "it divided a whole number by zero";
    default: return arena_fmt(a, "it met signal %s", name);
    }
}

static void tell_processor(struct arena *a, const struct record_header *head,
                           const struct fault_story *s, const char *name, const char *place,
                           struct finding *f)
{
    f->id = RUN_SIGNAL_FATAL;
    f->title = arena_fmt(a, "signal %s in %s", name, place);
    f->claim = arena_fmt(a,
                         "The process met signal %s in %s: %s. No recorded call was in flight in "
                         "that thread.%s",
                         name, place, fault_text(a, head, s, name),
                         s->block != NULL ? " The address lies near a recorded block." : "");
    f->confidence = s->block != NULL ? 0.7 : 0.4;
    bool memory = s->signal == SIGSEGV && !(s->addressed && s->address < NULL_BYTES);
    if (memory && head->guard != RECORD_GUARD_PROVEN) {
        advise(a, f,
               "assay run --guard -- COMMAND makes an access outside a block fail where it "
               "happens");
    } else if (s->signal == SIGBUS) {
        advise(a, f, "df -h /dev/shm; docker run --shm-size=16g");
    } else if (s->signal == SIGILL) {
        advise(a, f, "a build of that library for this processor: lscpu tells what it has");
    }
    advise_python(a, head, f);
    if (strstr(place, "+0x") != NULL) {
        advise(a, f,
               "addr2line -Cfe LIBRARY OFFSET names the line of a frame given as LIBRARY+OFFSET");
    }
}

void run_story_signal(struct arena *a, const struct record_header *head,
                      const struct fault_story *s, const struct text_list *frames,
                      struct finding *f)
{
    const char *name = sigabbrev_np(s->signal);
    name = name != NULL ? name : "?";
    f->layer = "application";
    bool raised = head->fault_sender == head->pid && s->signal == SIGABRT &&
                  head->fault.code == SI_TKILL;
    uint64_t away = s->address > head->fault_stack ? s->address - head->fault_stack
                                                   : head->fault_stack - s->address;
    if (raised) {
        tell_abort(a, head, place_text(a, s, frames, true), f);
    } else if (head->fault_sender != 0) {
        tell_sent(a, head, name, place_text(a, s, frames, false), f);
    } else if (s->signal == SIGSEGV && s->addressed && head->fault_stack != 0 &&
               away <= STACK_NEAR) {
        tell_overflow(a, head, place_text(a, s, frames, false), f);
    } else {
        tell_processor(a, head, s, name, place_text(a, s, frames, false), f);
    }
}

bool run_story_is_signal(const char *id)
{
    static const char *const ids[] = {RUN_SIGNAL_FATAL, RUN_SIGNAL_OVERFLOW, RUN_SIGNAL_ABORT,
                                      RUN_SIGNAL_SENT};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        if (strcmp(ids[i], id) == 0) {
            return true;
        }
    }
    return false;
}
