// SPDX-License-Identifier: Apache-2.0
/* One input as every file of a model folder and of a data set: safetensors, index, tokenizer, rows. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "facts/facts.h"
#include "facts/job_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void write_file(const char *root, const char *name, const uint8_t *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(99);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char info[] = "{\"d\":{\"file_name\":\"rows.json\"}}";
    static const char config[] = "stage: sft\nmodel_name_or_path: /\ndataset_dir: /\ndataset: d\n";
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "tokenizer.json",    "tokenizer_config.json",
                                        "config.json",       "rows.json",
                                        "dataset_info.json"};
    char root[] = "/tmp/assay-fuzz-XXXXXX";
    if (mkdtemp(root) == NULL) {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        write_file(root, names[i], bytes, n);
    }
    write_file(root, "dataset_info.json", (const uint8_t *)info, sizeof info - 1);
    struct arena *a = arena_new(512u << 20);
    struct fs fs = {.prefix = root};
    struct job_config c;
    if (job_config_parse(a, &fs, STR(config), "/train.yaml", &c, NULL) == ST_OK) {
        job_config_facts(&c, &fs, facts_new(a), a);
    }
    arena_free(a);
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        unlink(path);
    }
    rmdir(root);
    return 0;
}
