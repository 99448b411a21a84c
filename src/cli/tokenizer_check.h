// SPDX-License-Identifier: Apache-2.0
/* assay tokenizer check: a tokenizer against the files beside it, and against another one. */
#ifndef ASSAY_CLI_TOKENIZER_CHECK_H
#define ASSAY_CLI_TOKENIZER_CHECK_H

#include "cli/command.h"

int tokenizer_check(struct cli *cli);

#endif
