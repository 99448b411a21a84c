// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a log: never a crash, and the same result however the bytes arrive and whether or not what
 * was found out about shapes of lines is kept. The first byte chooses the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>

#include "diagnosis/log_read.h"
#include "diagnosis/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct log_facts *read_in(struct arena *a, struct str bytes, size_t chunk,
                                       bool line_by_line)
{
    static const struct pattern patterns[] = {
        {.id = "fault",
         .regex = "Memory access fault by GPU node-\\d+",
         .capture = "node-(?<node>\\d+)",
         .logs = LOG_ANY,
         .kind = PATTERN_FAULT},
        {.id = "killed", .regex = "^Killed\\s*$", .logs = LOG_ANY, .kind = PATTERN_CONSEQUENCE},
        {.id = "wide", .regex = "error[^a-z]{1,9}code", .logs = LOG_ANY, .kind = PATTERN_FAULT},
        {.id = "clear", .regex = "no error", .logs = LOG_ANY, .kind = PATTERN_CLEAR}};
    static struct knowledge k = {.patterns = (struct pattern *)patterns, .patterns_count = 4};
    static struct arena *kept; /* the database is made once */
    struct log_reader *r;
    struct err err;
    if (kept == NULL) {
        kept = arena_new(0);
        if (scan_compile(kept, patterns, 4, SCAN_PLATFORM_BASELINE, &k.scanner_db[0].bytes,
                         &k.scanner_db[0].size, &err) != ST_OK) {
            abort();
        }
    }
    const struct log_options options = {.line_by_line = line_by_line};
    if (log_reader_new(a, &k, &options, &r, &err) != ST_OK ||
        log_reader_add_bytes(r, "x", bytes, chunk, false, &err) != ST_OK) {
        abort();
    }
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    return lf;
}

static void must_agree(const struct log_facts *one, const struct log_facts *two)
{
    if (one->events.count != two->events.count || one->run.lines != two->run.lines ||
        one->run.steps != two->run.steps || map_count(one->series) != map_count(two->series)) {
        abort();
    }
    for (size_t i = 0; i < one->events.count; i++) {
        if (one->events.items[i].line != two->events.items[i].line ||
            one->events.items[i].offset != two->events.items[i].offset) {
            abort();
        }
    }
}

/* The bytes four times, the digits of each copy moved on: shapes are remembered from the second on. */
static struct str with_other_digits(struct arena *a, struct str bytes)
{
    enum {
        COPIES = 4
    };

    char *out = arena_alloc(a, COPIES * (bytes.n + 1));
    size_t n = 0;
    for (int c = 0; c < COPIES; c++) {
        for (size_t i = 0; i < bytes.n; i++) {
            char b = bytes.p[i];
            out[n++] = b >= '0' && b <= '9' ? (char)('0' + (b - '0' + 3 * c) % 10) : b;
        }
        out[n++] = '\n';
    }
    return (struct str){.p = out, .n = n};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct arena *a = arena_new(0);
    struct str bytes = {.p = (const char *)data + 1, .n = size - 1};
    must_agree(read_in(a, bytes, SIZE_MAX, false), read_in(a, bytes, (size_t)data[0] + 1, false));
    struct str repeated = with_other_digits(a, bytes);
    must_agree(read_in(a, repeated, SIZE_MAX, false), read_in(a, repeated, SIZE_MAX, true));
    arena_free(a);
    return 0;
}
