// SPDX-License-Identifier: Apache-2.0
/*
 * Pickles read as data. A pickle is a program for a small stack machine that can call any Python
 * function; here the machine is walked through without calling anything. What it would call or
 * import is compared with a list of what training code is known to write (pickle_globals.def), and
 * every value is kept as a tree in which calls stand as calls.
 *
 * The result never means "safe". It means: no global outside the list, and so many bytes that were
 * not understood.
 *
 * Source: CPython Lib/pickletools.py and Lib/pickle.py (protocols 0 to 5), torch/_weights_only_
 * unpickler.py for what torch writes.
 *
 * Values form a graph: shared, and even cyclic when the memo is used for that. Walk it with a budget.
 */
#ifndef ASSAY_MODEL_PICKLE_H
#define ASSAY_MODEL_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include "model/issue.h"

enum pickle_kind {
    PICKLE_NONE = 0,
    PICKLE_BOOL,  /* integer */
    PICKLE_INT,   /* integer */
    PICKLE_LONG,  /* beyond 64 bits: bytes, little-endian two's complement; or text of protocol 0 */
    PICKLE_REAL,  /* real */
    PICKLE_TEXT,  /* text, UTF-8 as stored */
    PICKLE_BYTES, /* text */
    PICKLE_TUPLE, /* items */
    PICKLE_LIST,  /* items */
    PICKLE_DICT,  /* items: key, value, key, value */
    PICKLE_SET,   /* items */
    PICKLE_GLOBAL,     /* global */
    PICKLE_CALL,       /* callee, args; then items (appended or set) and state (BUILD) */
    PICKLE_PERSISTENT, /* args: the identifier */
    PICKLE_EXTENSION,  /* integer: code of the copyreg registry */
    PICKLE_BUFFER,     /* out-of-band buffer of protocol 5 */
    PICKLE_KIND_COUNT
};

enum pickle_standing {
    PICKLE_ALLOWED = 0, /* on the list, and we know what it builds */
    PICKLE_KNOWN,       /* written by known training code; what it builds is not understood here */
    PICKLE_OUTSIDE,     /* anything else */
    PICKLE_DANGEROUS,   /* outside, and known for running code or reaching files or the network */
    PICKLE_STANDING_COUNT
};

struct pickle_value {
    enum pickle_kind kind;
    bool pairs;    /* of a call: items are keys and values, not list items */
    bool new_form; /* of a call: NEWOBJ, not REDUCE */
    uint32_t count;
    uint32_t capacity;

    union {
        int64_t integer;
        double real;
        struct str text;
        struct pickle_value **items;
        struct pickle_global *global;

        struct {
            struct pickle_value *callee;
            struct pickle_value *args; /* a tuple, or whatever else stood there */
            struct pickle_value **items;
            struct pickle_value *state;
        } call;
    };
};

struct pickle_global {
    struct str module;
    struct str name;
    enum pickle_standing standing;
    uint64_t at;     /* offset of the opcode that named it first */
    uint32_t uses;   /* times it was named */
    uint32_t called; /* times it was called or instantiated */
};

struct pickle {
    struct pickle_value *root; /* NULL when it never came to a STOP */
    uint64_t used;             /* bytes up to and with STOP, or up to the opcode that failed */
    bool complete;             /* came to STOP */
    int protocol;              /* as claimed by PROTO; 0 without */
    uint64_t opcodes;
    uint64_t bytes_not_understood; /* from the opcode that failed to the end */

    struct {
        struct pickle_global **items;
        size_t count;
        size_t capacity;
    } globals; /* in the order of their first naming */

    struct {
        struct pickle_value **items;
        size_t count;
        size_t capacity;
    } persistent; /* every persistent id, in the order of the file */

    size_t outside; /* globals outside the list, computed names and registry codes included */
    size_t known;   /* globals known and not understood */
};

/* Ceilings. */
struct pickle_limits {
    uint64_t values;
    uint64_t memo;
    uint64_t stack;
};

#define PICKLE_LIMITS_DEFAULT \
 ((struct pickle_limits){.values = 8000000, .memo = 4000000, .stack = 4000000})

/*
 * Reads one pickle at the start of `bytes`. Everything it would name, call or set in a way that
 * training code does not write becomes an issue (ids pickle-...), also when reading fails later: an
 * unpickler runs what comes before a broken opcode. ST_FORMAT and ST_LIMIT leave *ret_pickle with
 * what was read up to there. `what` names the pickle in issues ("data.pkl").
 */
enum status pickle_read(struct arena *a, struct str bytes, const char *what,
                        struct pickle_limits limits, struct issues *issues,
                        struct pickle *ret_pickle, struct err *err) MUST_USE;

/* Standing of a global by the list. */
enum pickle_standing pickle_standing_of(struct str module, struct str name);

/* True when bytes could be the start of a pickle; for telling files apart. */
bool pickle_looks_like(struct str bytes);

/* Adds one note about what was read: globals on the list, known ones by name, bytes not
 * understood. For a file's report; the wording never promises safety. */
void pickle_summary(const struct pickle *p, const char *what, struct issues *issues);

/* ---- looking into values ---- */

/* Value of a text key in a dict (or in a call with pairs, like OrderedDict); NULL when absent. */
struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);

/* True for a global of that name. */
bool pickle_is_global(const struct pickle_value *v, const char *module, const char *name);

/* Argument number i of a call, or item i of a tuple or list; NULL when there is none. */
struct pickle_value *pickle_arg(const struct pickle_value *v, size_t i);

/* Keys and values of a dict, or of a call that builds one. count is the number of pairs. */
struct pickle_value *const *pickle_pairs(const struct pickle_value *v, size_t *ret_count);

/* Integer of an int or bool. */
bool pickle_int(const struct pickle_value *v, int64_t *ret_value);

#endif
