// SPDX-License-Identifier: Apache-2.0
/* Needles as they look where a hexadecimal number of a shape (line_shape.h) reaches into them. */
#include <string.h>

#include "base/vec.h"

#include "diagnosis/line_shape.h"
#include "diagnosis/needle.h"

enum {
    RUNS_MAX = 6,
    RUNS_TAKEN = RUNS_MAX + 1 /* one more shows that there are too many */
};

/* A run of hexadecimal digits, [from, to), that can be a number or the end or beginning of one. */
struct run {
    size_t from;
    size_t to;
};

static bool is_hex(unsigned char c)
{
    return c == '0' || (c >= 'a' && c <= 'f');
}

/* Certainly part of a word, whatever was folded. */
static bool is_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || c == '0';
}

static size_t runs_of(const struct needle *n, struct run runs[RUNS_TAKEN])
{
    size_t count = 0;
    for (size_t at = 0; at < n->n && count < RUNS_TAKEN; at++) {
        size_t from = at;
        while (at < n->n && is_hex(n->text[at])) {
            at++;
        }
        bool left_open = from == 0;
        bool right_open = at == n->n;
        if (at == from || (!left_open && is_word(n->text[from - 1]) && n->text[from - 1] != 'x') ||
            (!right_open && is_word(n->text[at])) ||
            (!left_open && !right_open && at - from < SHAPE_HEX_MIN)) {
            continue;
        }
        runs[count++] = (struct run){.from = from, .to = at};
    }
    return count;
}

void needle_list_add_hex(struct arena *a, struct needle_list *list)
{
    size_t plain = list->count;
    for (size_t i = 0; i < plain; i++) {
        struct run runs[RUNS_TAKEN];
        size_t count = runs_of(&list->items[i], runs);
        if (count == RUNS_TAKEN) { /* a part of a needle is one, too */
            count = RUNS_MAX;
            list->items[i].n = runs[RUNS_MAX].from;
            memset(&list->items[i].after, 255, sizeof list->items[i].after);
        }
        for (unsigned which = 1; which < 1u << count; which++) {
            struct needle n = list->items[i];
            for (size_t k = 0; k < count; k++) {
                if ((which >> k & 1) != 0) {
                    memset(n.text + runs[k].from, '1', runs[k].to - runs[k].from);
                }
            }
            *VEC_PUSH(a, list) = n;
        }
    }
}
