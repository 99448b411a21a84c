// SPDX-License-Identifier: Apache-2.0
/* Stands in for libFuzzer in ordinary builds: runs a target over every file of the folders named on
 * the command line, so that inputs that once broke something are tried with each unit test run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    int status = 1;
    uint8_t *data = NULL;
    long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (size < 0 || fseek(f, 0, SEEK_SET) != 0) {
        perror(path);
        goto done;
    }
    /* Exactly as large as the input, so that valgrind and sanitizers see one byte too far. */
    data = malloc(size != 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        goto done;
    }
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    status = 0;
done:
    free(data);
    fclose(f);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            perror(argv[i]);
            return 1;
        }
        for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
            char path[4096];
            if (e->d_name[0] == '.') {
                continue;
            }
            if (snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name) < (int)sizeof path) {
                status |= run_file(path);
                count++;
            }
        }
        closedir(dir);
    }
    printf("%u inputs\n", count);
    return status != 0 || count == 0;
}
