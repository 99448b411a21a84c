// SPDX-License-Identifier: Apache-2.0
/*
 * Asking a library of the Lt family for its algorithms, with functions of our own in its table: all of them
 * for the first problem of a kind, then only those that were good for one, and never one that the library
 * does not accept for the problem at hand.
 */
#include <string.h>

#include "base/str.h"

#include "device/lt.h"
#include "unit.h"

enum {
    IDS = 3,
    TILES = 4,
    STAGES = 2,
    ALL = IDS * TILES * STAGES,
    CAPACITY = 4096,
    INVALID = 7
};

static unsigned checks;
static uint32_t largest_tile; /* that the library accepts */

/* An algorithm's record: id, tile, stages. */
static int ids(void *handle, int compute, int scale, int a, int b, int c, int d, int wanted,
               int *to, int *count)
{
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
    for (*count = 0; *count < IDS && *count < wanted; ++*count) {
        to[*count] = *count;
    }
    return 0;
}

static int init(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                void *record)
{
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
    memset(record, 0, LT_ALGORITHM_BYTES_MAX);
    memcpy(record, &id, sizeof id);
    return 0;
}

static int capability(const void *record, int which, void *value, size_t bytes, size_t *written)
{
    (void)record;
    static const uint32_t list[] = {1, 2, 3, 4};
    size_t n = which == 6 ? TILES : which == 13 ? STAGES : 0; /* tiles, stages */
    if (n == 0) {
        memset(value, 0, bytes);
        return 0;
    }
    *written = n * sizeof list[0];
    if (value != NULL) {
        memcpy(value, list, bytes < *written ? bytes : *written);
    }
    return 0;
}

static int config_set(void *record, int which, const void *value, size_t bytes)
{
    memcpy((char *)record + (size_t)which * 4, value, bytes);
    return 0;
}

static int config_get(const void *record, int which, void *value, size_t bytes, size_t *written)
{
    memcpy(value, (const char *)record + (size_t)which * 4, bytes);
    *written = bytes;
    return 0;
}

/* result: algorithm, workspace, state. */
static int check(void *handle, void *desc, void *a, void *b, void *c, void *d, const void *record,
                 void *result)
{
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
    uint32_t tile;
    size_t workspace;
    memcpy(&tile, (const char *)record + 4, sizeof tile);
    workspace = tile * 1000;
    memcpy((char *)result + 64, &workspace, sizeof workspace);
    checks++;
    return tile <= largest_tile ? 0 : INVALID;
}

static void describe(const struct lt_api *api, const unsigned char *record,
                     struct gemm_choice *choice)
{
    (void)api;
    choice->id = record[0];
    str_print(choice->name, sizeof choice->name, "id %d tile %d stages %d", record[0], record[4],
              record[24]);
}

static struct gemm_library library_of(struct arena *a, const struct lt_traits *traits)
{
    struct gemm_library library = {.traits = traits, .arena = a};
    library.api = (struct lt_api){.algorithm_ids = ids,
                                  .algorithm_init = init,
                                  .algorithm_check = check,
                                  .capability = capability,
                                  .config_set = config_set,
                                  .config_get = config_get};
    library.problem.shape = (struct gemm_shape){.m = 8, .n = 8, .k = 8, .batch = 1};
    library.problem.shape.dtype_ab = library.problem.shape.dtype_c = DTYPE_BF16;
    library.problem.shape.alignment_bytes = 16;
    return library;
}

static const struct lt_traits traits = {.types = {[DTYPE_BF16] = 15, [DTYPE_F32] = 1},
                                        .algorithm_bytes = 64,
                                        .result_bytes = 96,
                                        .workspace_offset = 64,
                                        .state_offset = 72,
                                        .describe = describe};

static size_t ask(struct gemm_library *library, struct gemm_choice *choices, size_t first)
{
    size_t count = first;
    checks = 0;
    lt_enumerate(library, choices, CAPACITY, &count);
    return count;
}

static void all_are_asked_for_once_a_kind(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct gemm_library library = library_of(a, &traits);
    struct gemm_choice *choices = arena_array(a, CAPACITY, sizeof *choices);
    largest_tile = 3;
    assert_int_equal(ask(&library, choices, 0), IDS * 3 * STAGES);
    assert_true(checks >= ALL);
    library.problem.shape.m = 9; /* another problem of the kind */
    largest_tile = 2;
    assert_int_equal(ask(&library, choices, 0), IDS * 2 * STAGES);
    assert_int_equal(checks, IDS * 3 * STAGES); /* those that could do the first one */
    for (size_t i = 0; i < IDS * 2 * STAGES; i++) {
        uint32_t tile;
        memcpy(&tile, choices[i].opaque + 4, sizeof tile);
        assert_true(tile <= 2);
        assert_int_equal(choices[i].workspace_bytes, tile * 1000);
        assert_non_null(strstr(choices[i].name, "stages"));
    }
    library.problem.shape.transpose_a = true; /* another kind */
    largest_tile = TILES;
    assert_int_equal(ask(&library, choices, 0), ALL);
    assert_true(checks >= ALL);
    arena_free(library.pool_arena);
    arena_free(a);
}

static void all_are_asked_for_again_in_time(void **state)
{
    (void)state;

    enum {
        USES = 64
    };
    struct arena *a = arena_new(0);
    struct gemm_library library = library_of(a, &traits);
    struct gemm_choice *choices = arena_array(a, CAPACITY, sizeof *choices);
    largest_tile = 1;
    ask(&library, choices, 0);
    largest_tile = TILES; /* the first problem was a small one */
    for (int i = 1; i < USES; i++) {
        assert_int_equal(ask(&library, choices, 0), IDS * STAGES);
    }
    assert_int_equal(ask(&library, choices, 0), ALL);
    assert_int_equal(ask(&library, choices, 0), ALL);
    assert_int_equal(checks, ALL); /* out of the pool, which has grown */
    arena_free(library.pool_arena);
    arena_free(a);
}

static void short_list_holds_every_algorithm(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct gemm_library library = library_of(a, &traits);
    struct gemm_choice choices[IDS + 1];
    largest_tile = TILES;
    size_t count = 0;
    lt_enumerate(&library, choices, IDS + 1, &count);
    assert_int_equal(count, IDS + 1);
    bool seen[IDS] = {false};
    for (size_t i = 0; i < count; i++) {
        seen[choices[i].id] = true;
    }
    for (size_t i = 0; i < IDS; i++) {
        assert_true(seen[i]);
    }
    arena_free(library.pool_arena);
    arena_free(a);
}

static void heuristic_is_not_repeated(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct gemm_library library = library_of(a, &traits);
    struct gemm_choice *choices = arena_array(a, CAPACITY, sizeof *choices);
    largest_tile = TILES;
    size_t all = ask(&library, choices, 0);
    struct gemm_choice best = choices[all - 1];
    for (int round = 0; round < 2; round++) {
        choices[0] = best; /* what a heuristic put first */
        assert_int_equal(ask(&library, choices, 1), ALL);
        size_t seen = 0;
        for (size_t i = 0; i < ALL; i++) {
            seen += memcmp(choices[i].opaque, best.opaque, sizeof best.opaque) == 0;
        }
        assert_int_equal(seen, 1);
    }
    arena_free(library.pool_arena);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_asked_for_once_a_kind),
        cmocka_unit_test(all_are_asked_for_again_in_time),
        cmocka_unit_test(short_list_holds_every_algorithm),
        cmocka_unit_test(heuristic_is_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
