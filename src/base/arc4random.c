// SPDX-License-Identifier: Apache-2.0
/*
 * libstdc++ 12, linked statically for vectorscan, refers to arc4random, which glibc has only since
 * 2.36. This definition takes its place, so that the program runs from glibc 2.35 on.
 */
#include <stdint.h>
#include <stdlib.h>

#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void)
{
    uint32_t v;
    if (getrandom(&v, sizeof v, 0) != sizeof v) {
        abort(); /* as arc4random(3): never returns weak numbers */
    }
    return v;
}
