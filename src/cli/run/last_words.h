// SPDX-License-Identifier: Apache-2.0
/* What a program said on standard error of its own end: the exception that nobody caught, the assertion, and the lines
 * of Python that its faulthandler lists. */
#ifndef ASSAY_CLI_RUN_LAST_WORDS_H
#define ASSAY_CLI_RUN_LAST_WORDS_H

#include "base/arena.h"
#include "base/finding.h"

/* Adds them to the first finding of a fatal signal, and to the title of an abort(). Does nothing where there is none or
 * stderr.log has no such words. The log is shared: words of another process of the job may be the ones. */
void last_words_add(struct arena *a, const char *folder, struct finding_list *findings);

#endif
