// SPDX-License-Identifier: Apache-2.0
/* Variables of the job, as collectors ask for them. */
#include <string.h>

#include "facts/collect.h"

const char *collect_env(const struct collect *c, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; c->env != NULL && c->env[i] != NULL; i++) {
        if (strncmp(c->env[i], name, n) == 0 && c->env[i][n] == '=') {
            return c->env[i] + n + 1;
        }
    }
    return NULL;
}
