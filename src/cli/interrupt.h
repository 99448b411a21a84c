// SPDX-License-Identifier: Apache-2.0
/* Ctrl-C in a command that has something to say about what it did until then. */
#ifndef ASSAY_CLI_INTERRUPT_H
#define ASSAY_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT is remembered; a second one ends the process at once. Where
 * it is ignored, as in a shell's background job, it stays so. */
void interrupt_watch(void);
bool interrupt_came(void);

/* Ends the process as SIGINT ends it, where one came, so that a shell knows; else returns. */
void interrupt_end(void);

#endif
