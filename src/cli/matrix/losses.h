// SPDX-License-Identifier: Apache-2.0
/*
 * The losses of the clean trials of each route against those of the base. A route that ends well and
 * computes something else is a fault that no count of failures shows.
 */
#ifndef ASSAY_CLI_MATRIX_LOSSES_H
#define ASSAY_CLI_MATRIX_LOSSES_H

#include "cli/matrix/matrix.h"

struct matrix_losses {
    const char *cell; /* "same", "different", "could not tell", "other inputs", "inputs unproven",
                         "unlike"; NULL: nothing to compare */
    enum loss_grade grade; /* LOSS_NOT_JUDGED where inputs or work differ, too */
    const char *why;       /* sentence behind the grade; NULL */
};

/* Those trials alone that ended well. */
struct compare_route matrix_clean(struct arena *a, const struct compare_route *r);

/* One a route, by its index; that of the base says nothing. */
const struct matrix_losses *matrix_losses_make(struct matrix *m);

/* Names of the routes of that grade, "linear, eager"; NULL where there are none. */
const char *matrix_losses_names(struct matrix *m, const struct matrix_losses *l,
                                enum loss_grade grade);

/* The routes whose losses differ or cannot be told, and which side stands alone. */
void matrix_losses_judge(struct matrix *m, const struct matrix_losses *l,
                         struct finding_list *findings);

#endif
