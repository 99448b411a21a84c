// SPDX-License-Identifier: Apache-2.0
/*
 * Libraries that have a function of one name in front of another, as libcudnn.so.9 has libcudnn_graph.so.9 behind it,
 * and a job that calls them. Built as BACK (does the work), FRONT (finds BACK's function by name; with CALL it calls
 * it, else it ends in a jump there), LAUNCHER (a plug-in that calls it, of which a program may have hundreds), JOB.
 * With LINKED the job is linked with one. usage of the job: linked | lookup FRONT | launchers LAUNCHER...
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int hipEventSynchronize(void *event);
int plugin_wait(void);
typedef int (*wait_function)(void *);

enum {
    FINE = 42,
    TIMES = 3
};

#if defined(BACK)
int hipEventSynchronize(void *event)
{
    return event == (void *)1 ? FINE : -1;
}
#elif defined(FRONT)
static wait_function back;

static void find(void)
{
    void *library = dlopen("libshimback.so", RTLD_NOW | RTLD_LOCAL);
    back = library != NULL ? (wait_function)dlsym(library, "hipEventSynchronize") : NULL;
}

int hipEventSynchronize(void *event)
{
    if (back == NULL) {
        find();
    }
# ifdef CALL
    volatile int rc = back(event);
    return rc;
# else
    return back(event);
# endif
}
#elif defined(LAUNCHER)
int plugin_wait(void)
{
    volatile int rc = hipEventSynchronize((void *)1);
    return rc;
}
#else
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "launchers") != 0) {
# ifdef LINKED
        wait_function launch = hipEventSynchronize;
# else
        wait_function launch = NULL;
# endif
        if (argc > 2) {
            void *front = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
            launch = front != NULL ? (wait_function)dlsym(front, "hipEventSynchronize") : NULL;
        }
        for (int i = 0; i < TIMES; i++) {
            if (launch == NULL || launch((void *)1) != FINE) {
                return 1;
            }
        }
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*launch)(void) = library != NULL ? (int (*)(void))dlsym(library, "plugin_wait") : NULL;
        for (int k = 0; k < TIMES; k++) {
            if (launch == NULL || launch() != FINE) {
                puts(launch == NULL ? dlerror() : "wrong");
                return 1;
            }
        }
    }
    return 0;
}
#endif
