// SPDX-License-Identifier: Apache-2.0
#ifndef ASSAY_TESTS_TRIAL_H
#define ASSAY_TESTS_TRIAL_H

#include "device/device.h"

/* Seconds of the monotonic clock. */
double trial_now(void);

/* trial DEVICE gemm LIBRARY [SECONDS [ALGORITHMS [PATH]]] (trial_gemm.c): the status of the program. */
int trial_gemm(enum device_kind kind, int argc, char **argv);

#endif
