// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the events of three patterns: log-gpu-target, log-rocm-build (a line that only a ROCm build
 * prints) and log-env. A log that names two targets (a display GPU beside a card) does not say which
 * of them failed.
 */
#include "diagnosis/log_machine.h"

#include <inttypes.h>
#include <string.h>

/* Targets that exist only as the GPU of an APU, and only as a card. gfx942 and gfx900 are both.
 * Source: LLVM docs/AMDGPUUsage.rst, table of processors, column "dGPU, APU". */
static const char *const apu_targets[] = {"gfx902",  "gfx909",  "gfx90c",  "gfx1013", "gfx1033",
                                          "gfx1035", "gfx1036", "gfx1037", "gfx1103", "gfx1150",
                                          "gfx1151", "gfx1152", "gfx1153"};
static const char *const card_targets[] = {
    "gfx906",  "gfx908",  "gfx90a",  "gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031",
    "gfx1032", "gfx1034", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx950"};

static bool listed(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *place_of(struct arena *arena, const struct event *e)
{
    return arena_fmt(arena, "%s:%" PRIu64, e->source, e->line);
}

/* The one event whose capture all others repeat; NULL when there is none or they differ. */
static const struct event *with_one_voice(const struct log_facts *log, const char *id,
                                          const char *capture)
{
    const struct event *first = NULL;
    for (size_t i = 0; i < log->events.count; i++) {
        const struct event *e = &log->events.items[i];
        const char *value = event_capture(e, capture);
        if (strcmp(e->pattern->id, id) != 0 || value == NULL) {
            continue;
        }
        if (first != NULL && strcmp(event_capture(first, capture), value) != 0) {
            return NULL;
        }
        first = first != NULL ? first : e;
    }
    return first;
}

/* "gfx90a" is 90010, "gfx1151" is 110501: the last two digits, hexadecimal, are minor and step. */
static int64_t target_version(const char *gfx)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(gfx);
    int64_t major = 0;
    if (n < 6 || str_to_i64((struct str){gfx + 3, n - 5}, 10, &major) != ST_OK) {
        return -1;
    }
    const char *minor = strchr(hex, gfx[n - 2]);
    const char *step = strchr(hex, gfx[n - 1]);
    return minor != NULL && step != NULL ? major * 10000 + (minor - hex) * 100 + (step - hex) : -1;
}

static void add_gpu(struct facts *f, const struct event *e)
{
    const char *gfx = event_capture(e, "gfx");
    const char *place = place_of(facts_arena(f), e);
    int64_t version = target_version(gfx);
    if (version >= 0) {
        facts_int(f, "gpu[0].gfx_target_version", version, place);
    }
    facts_string(f, "gpu[0].gfx", gfx, place);
    facts_string(f, "gpu[0].vendor", "0x1002", place);
    if (listed(apu_targets, ARRAY_LEN(apu_targets), gfx)) {
        facts_bool(f, "gpu[0].integrated", true, place);
    } else if (listed(card_targets, ARRAY_LEN(card_targets), gfx)) {
        facts_bool(f, "gpu[0].integrated", false, place);
    }
}

/* A variable that is set to two values holds neither for certain. */
static void add_variables(struct facts *f, const struct log_facts *log)
{
    for (size_t i = 0; i < log->events.count; i++) {
        const struct event *e = &log->events.items[i];
        const char *name = event_capture(e, "name");
        const char *value = event_capture(e, "value");
        if (strcmp(e->pattern->id, "log-env") != 0 || name == NULL || value == NULL) {
            continue;
        }
        const char *place = place_of(facts_arena(f), e);
        const char *key = arena_fmt(facts_arena(f), "env.%s", name);
        const char *known = facts_get_string(f, key, NULL);
        if (facts_get(f, key) == NULL) {
            facts_set(f, key, value_string(value), place);
        } else if (known != NULL && strcmp(known, value) != 0) {
            facts_set_state(f, key, FACT_UNREADABLE, place, "the log sets it to different values");
        }
    }
}

static void copy_facts(struct arena *arena, const struct facts *given, struct facts *f)
{
    size_t count = 0;
    const struct fact *const *items = facts_sorted(given, arena, &count);
    for (size_t i = 0; i < count; i++) {
        if (items[i]->state == FACT_KNOWN) {
            facts_set(f, items[i]->key, items[i]->value, items[i]->source);
        } else {
            facts_set_state(f, items[i]->key, items[i]->state, items[i]->source, items[i]->reason);
        }
    }
}

/* Whether somebody looked at the environment of the job. */
static bool environment_read(const struct facts *given, struct arena *arena)
{
    size_t count = 0;
    const struct fact *const *items = facts_sorted(given, arena, &count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(items[i]->key, "env.", 4) == 0) {
            return true;
        }
    }
    return false;
}

const struct facts *log_machine_facts(struct arena *arena, const struct facts *given,
                                      const struct log_facts *log)
{
    if (log == NULL) {
        return given;
    }
    bool gpu_read = given != NULL && (facts_get(given, "gpu[0].gfx") != NULL ||
                                      facts_get(given, "gpu[0].vendor") != NULL ||
                                      facts_get(given, "gpu.count") != NULL);
    const struct event *gpu = gpu_read ? NULL : with_one_voice(log, "log-gpu-target", "gfx");
    bool env = log_facts_event(log, "log-env", 0) != NULL &&
               (given == NULL || !environment_read(given, arena));
    bool rocm = !gpu_read && gpu == NULL && log_facts_event(log, "log-rocm-build", 0) != NULL &&
                log_facts_event(log, "torch-version-cuda", 0) == NULL;
    if (gpu == NULL && !env && !rocm) {
        return given;
    }
    struct facts *f = facts_new(arena);
    if (given != NULL) {
        copy_facts(arena, given, f);
    }
    if (gpu != NULL) {
        add_gpu(f, gpu);
    }
    if (rocm) {
        facts_string(f, "gpu[0].vendor", "0x1002",
                     place_of(arena, log_facts_event(log, "log-rocm-build", 0)));
    }
    if (env) {
        add_variables(f, log);
    }
    return f;
}
