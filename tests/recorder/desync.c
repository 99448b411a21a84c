// SPDX-License-Identifier: Apache-2.0
/*
 * A rank that makes collectives and then waits for ever, as one does whose peers do not come. Built as LIBRARY (a NCCL
 * that does nothing) and as the job. usage: desync_job CALLS [ODD [COMMUNICATORS]]: call number ODD is another one
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation,
                  void *comm, void *stream);
int ncclAllGather(const void *send, void *receive, size_t count, int type, void *comm,
                  void *stream);
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream);

#ifdef LIBRARY
int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation,
                  void *comm, void *stream)
{
    return send == NULL || receive == NULL || count == 0 || type + operation < 0 || comm == NULL ||
           stream != NULL;
}

int ncclAllGather(const void *send, void *receive, size_t count, int type, void *comm, void *stream)
{
    return send == NULL || receive == NULL || count == 0 || type < 0 || comm == NULL ||
           stream != NULL;
}

int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
    return buffer == NULL || count == 0 || type + peer < 0 || comm == NULL || stream != NULL;
}
#else
int main(int argc, char **argv)
{
    static float buffer[8];
    static int comms[4];
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 10;
    long odd = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    long communicators = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    for (long i = 1; i <= calls; i++) {
        void *comm = &comms[i % communicators % 4];
        int rc = ncclSend(buffer, 4, 7, 0, comm, NULL);
        rc |= i == odd ? ncclAllGather(buffer, buffer, 8, 7, comm, NULL)
                       : ncclAllReduce(buffer, buffer, (size_t)(100 + i), 7, 0, comm, NULL);
        if (rc != 0) {
            return 1;
        }
    }
    puts("waits");
    fflush(stdout);
    pause();
    return 0;
}
#endif
