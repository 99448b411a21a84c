// SPDX-License-Identifier: Apache-2.0
/* The tables of a qualification: figures, switches, libraries. */
#ifndef ASSAY_CLI_QUALIFY_TABLES_H
#define ASSAY_CLI_QUALIFY_TABLES_H

#include "cli/qualify/qualify.h"

/* Adds those that have rows. */
void qualify_tables(struct qualify *q, struct report *report);

#endif
