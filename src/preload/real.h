// SPDX-License-Identifier: Apache-2.0
/* Functions of libc that are hooked here and that the recorder itself needs unhooked. */
#ifndef ASSAY_PRELOAD_REAL_H
#define ASSAY_PRELOAD_REAL_H

#include <signal.h>

int real_sigaction(int signal, const struct sigaction *act, struct sigaction *ret_old);

#endif
