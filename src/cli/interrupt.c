// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

static volatile sig_atomic_t came;

static void on_signal(int number)
{
    (void)number;
    came = 1;
}

void interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(SIGINT, &action, NULL);
    }
}

bool interrupt_came(void)
{
    return came != 0;
}

void interrupt_end(void)
{
    if (came != 0) {
        fflush(NULL);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
}
