// SPDX-License-Identifier: Apache-2.0
/* Built with AddressSanitizer by traps.sh. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    void *p = NULL;
    char *volatile q = malloc(10);
    (void)argv;
    if (posix_memalign(&p, 64, 1000) != 0 || q == NULL) {
        return 2;
    }
    free(p);
    q = realloc(q, 100);
    free(q);
    if (argc > 1) {
        return q[5]; /* after it was freed */
    }
    puts("done");
    return 0;
}
