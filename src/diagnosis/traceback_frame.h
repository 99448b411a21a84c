// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of a traceback's body, in the three forms that people paste:
 * Python itself   '  File "train.py", line 12, in main' and the source line indented below it;
 * IPython         'Cell In[3], line 2', 'File ~/x/train.py:12, in main(a)', '~/x/train.py in main(a)', and
 *                 '---> 12     loss.backward()';
 * Rich            '│ /x/train.py:12 in main       │' and '│ ❱  12 │   loss.backward()     │', where a long
 *                 path is broken over two lines.
 */
#ifndef ASSAY_DIAGNOSIS_TRACEBACK_FRAME_H
#define ASSAY_DIAGNOSIS_TRACEBACK_FRAME_H

#include "base/str.h"

enum frame_part {
    FRAME_NONE = 0, /* no line of a traceback's body */
    FRAME_HEAD,     /* names a frame */
    FRAME_CODE,     /* the source line of the frame named last */
    FRAME_OTHER     /* belongs to it, says nothing more */
};

enum {
    FRAME_PATH_MAX = 400,
    FRAME_NAME_MAX = 160,
    FRAME_CODE_MAX = 240
};

struct trace_frame {
    char file[FRAME_PATH_MAX];
    char function[FRAME_NAME_MAX]; /* "" when the form has none */
    char line[32];                 /* "" while it is not known */
    char code[FRAME_CODE_MAX];     /* "" while it has not come */
};

/* What a reader keeps between the lines of one traceback. Zero it at the head. */
struct frame_reader {
    bool python_head;            /* the line before was Python's head of a frame */
    char broken[FRAME_PATH_MAX]; /* first half of a path that Rich broke, or "" */
};

/*
 * Reads a line behind its prefix into *f: a head begins the frame anew, code completes it. The line
 * must not be empty.
 */
enum frame_part trace_frame_read(struct frame_reader *r, struct trace_frame *f, struct str body);

/* Python's head of a frame, whole or without its beginning: what a traceback without its first lines opens with. */
bool trace_frame_opens(struct str body);

/* The file is of an installed package, the standard library or a frozen module: not the program's. */
bool trace_frame_is_library(const char *file);

#endif
