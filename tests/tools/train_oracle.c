// SPDX-License-Identifier: Apache-2.0
/* train_oracle MODEL DUMP [ADAPTER]: every tensor of a dump beside this program's own step, one a line:
 * error, what was expected, limit, name. Exit 1 when one is wrong. */
#include <stdio.h>

#include "train/oracle.h"

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: train_oracle MODEL DUMP [ADAPTER]\n");
        return 64;
    }
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct oracle_report r;
    const struct oracle_options options = {.folder = argv[1],
                                           .against = argv[2],
                                           .model = {.lora.adapter = argc > 3 ? argv[3] : NULL}};
    if (oracle_run(a, &options, &r, &err) != ST_OK) {
        fprintf(stderr, "train_oracle: %s\n", err.text);
        return 2;
    }
    for (size_t i = 0; i < r.rows.count; i++) {
        const struct oracle_row *row = &r.rows.items[i];
        printf("%.3g\t%.3g\t%.3g\t%s\t%s%s\n", row->error, row->expected, row->limit,
               row->wrong ? "WRONG" : "ok", row->name, row->why != NULL ? row->why : "");
    }
    printf("# %zu of %zu tensors compared, %zu wrong, %zu strange (%s)\n", r.rows.count, r.tensors,
           r.wrong, r.strange, r.strange_example != NULL ? r.strange_example : "none");
    arena_free(a);
    return r.wrong != 0;
}
