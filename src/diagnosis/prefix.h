// SPDX-License-Identifier: Apache-2.0
/*
 * What launchers, loggers, containers and the kernel put in front of a line: time, rank, names.
 * Forms: "[rank3]:", "[default0]:", "0: " (srun -l), "[1,3]<stderr>:" (Open MPI),
 * "(RayTrainWorker pid=7)", "INFO 06-11 10:00:01 [x.py:1]", "[INFO|x.py:1] 2025-05-23 09:29:40,911 >>",
 * "[2025-03-02 09:10:11,118] [INFO] [RANK:0]", "W0611 10:00:01.5 12 x.cpp:3]", "[W611 10:00:01.5 x.cpp:3]",
 * "2025-11-29T12:00:00.1Z stderr F", "Nov 29 12:00:00 host kernel:", "[  123.456]", "12/06/2024 10:11:12 - INFO -",
 * "2025-11-29T12:00:00+0000 host train.sh[44]: ", "[pod/x/main] ", "trainer-1  | ", "> ", "kernel: ",
 * before the lines of a traceback "name  | ", "[80746] " and "(Process) ", too.
 */
#ifndef ASSAY_DIAGNOSIS_PREFIX_H
#define ASSAY_DIAGNOSIS_PREFIX_H

#include "base/str.h"

enum clock_kind {
    CLOCK_NONE = 0,
    CLOCK_WALL,
    CLOCK_BOOT
};

struct prefix {
    double time; /* seconds since the epoch (as if the text were UTC) or since boot; NaN without */
    enum clock_kind clock;
    int rank;        /* -1 when the line does not say */
    int64_t pid;     /* of a Ray worker, -1 without: tells writers apart where ranks do not */
    bool kernel;     /* dmesg or "kernel:" form */
    bool none;       /* no line of this shape (line_shape.h) has a prefix */
    struct str body; /* the line behind the prefix, indentation kept */
};

/* `year` completes dates that have none. */
struct prefix prefix_parse(struct str line, int year);

#endif
