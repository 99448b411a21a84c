// SPDX-License-Identifier: Apache-2.0
/* Training configurations; the folders they name do not exist. */
#include <stdint.h>

#include "facts/facts.h"
#include "facts/job_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena *a = arena_new(512u << 20);
    struct fs fs = {.prefix = "/nonexistent"};
    struct str text = {.p = (const char *)bytes, .n = n};
    struct job_config config;
    struct err err = {0};
    if (job_config_parse(a, &fs, text, "/w/train.yaml", &config, &err) == ST_OK) {
        job_config_facts(&config, &fs, facts_new(a), a);
    }
    arena_free(a);
    return 0;
}
