// SPDX-License-Identifier: Apache-2.0
/* Two plug-ins with a BLAS each, loaded and unloaded in turn, often at one address. usage: traps_unload A B */
#include <dlfcn.h>
#include <stdio.h>

static int fail(const char *what)
{
    printf("FAILED: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    const char *const paths[] = {argv[1], argv[argc - 1]};
    const float wanted[] = {15, 115};
    for (int i = 0; i < 40; i++) {
        void *plugin = dlopen(paths[i % 2], RTLD_NOW | RTLD_LOCAL);
        float (*f)(void) = plugin != NULL ? (float (*)(void))dlsym(plugin, "plugin_product") : NULL;
        if (f == NULL) {
            return fail(dlerror());
        }
        float got = f();
        if (!(got == wanted[i % 2])) {
            printf("round %d: %g\n", i, (double)got);
            return fail("another library answered");
        }
        dlclose(plugin);
        if (dlopen(paths[i % 2], RTLD_NOW | RTLD_NOLOAD) != NULL) {
            return fail("a plug-in stayed loaded");
        }
    }
    puts("done");
    return 0;
}
