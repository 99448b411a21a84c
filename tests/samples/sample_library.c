// SPDX-License-Identifier: Apache-2.0
/* Read by test_elf; never run. */
#include <math.h>
#include <stdlib.h>

int sample_defined(const char *text);
double sample_root(double x);
extern int sample_missing(int x);
extern int sample_weak(int x) __attribute__((weak));

int sample_defined(const char *text)
{
    const char *a = getenv("SAMPLE_SWITCH");
    const char *b = getenv("LONGER_SAMPLE_TAIL");
    if (sample_weak != NULL) {
        return sample_weak(1);
    }
    return sample_missing(a != b) + (text != NULL);
}

double sample_root(double x)
{
    return cbrt(x);
}
