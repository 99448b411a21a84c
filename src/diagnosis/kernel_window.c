// SPDX-License-Identifier: Apache-2.0
/* See kernel_window.h. */
#include "diagnosis/kernel_window.h"

#include <math.h>
#include <string.h>

#include "diagnosis/prefix.h"

enum {
    BEFORE_S = 600,
    AFTER_S = 300
};

struct kernel_window kernel_window_of(const struct log_times *times,
                                      const struct machine_clock *clock)
{
    struct kernel_window w = {.from = -INFINITY, .to = INFINITY};
    if (times->first <= times->last) { /* both are there */
        double east = clock->utc_offset > 0 ? clock->utc_offset : 0;
        double west = clock->utc_offset < 0 ? clock->utc_offset : 0;
        w.from = times->first - east - clock->boot - BEFORE_S;
        w.to = times->last - west - clock->boot + AFTER_S;
    } else if (!isnan(times->written)) {
        w.to = times->written - clock->boot + AFTER_S;
    }
    return w;
}

struct str kernel_window_cut(struct arena *a, struct str text, const struct kernel_window *window,
                             size_t *ret_left_out)
{
    char *out = arena_alloc(a, text.n + 1);
    size_t n = 0;
    size_t left_out = 0;
    bool inside = true;
    struct str line;
    while (str_cut_line(&text, &line)) {
        struct prefix p = prefix_parse(line, 1970);
        if (p.clock == CLOCK_BOOT) {
            inside = p.time >= window->from && p.time <= window->to;
        }
        if (!inside) {
            left_out++;
            continue;
        }
        memcpy(out + n, line.p, line.n);
        n += line.n;
        out[n++] = '\n';
    }
    *ret_left_out = left_out;
    return (struct str){.p = out, .n = n};
}
