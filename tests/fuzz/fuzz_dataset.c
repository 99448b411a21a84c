// SPDX-License-Identifier: Apache-2.0
/* Records of training data in every form: lines must rise, views lie inside of the input, and whatever a
 * record is, its sample can be read and ordered. */
#include <stdlib.h>
#include <string.h>

#include "model/data_sample.h"
#include "model/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_sample(struct arena *a, const struct dataset_record *r)
{
    struct tree_limits limits = {.bytes = 1 << 20, .nodes = 100000, .depth = 64};
    const struct tree *tree;
    struct data_sample s;
    size_t turn = SIZE_MAX;
    if (r->is_text) {
        data_sample_of_text(a, r->text, &s);
    } else if (tree_from_json(a, r->text, "fuzz", limits, &tree, NULL) == ST_OK) {
        data_sample_read(a, tree, &s);
    } else {
        return;
    }
    if (data_sample_order(&s, &turn) != NULL && turn >= s.turns.count) {
        abort();
    }
    if (s.layout >= DATA_LAYOUT_COUNT || (s.turns.count != 0 && s.turns.items == NULL)) {
        abort();
    }
}

static void read_form(struct arena *a, enum dataset_form form, const uint8_t *data, size_t size)
{
    struct dataset d = {.form = form, .line = 1};
    struct dataset_record r;
    struct err err;
    bool any = true;
    uint64_t line = 0;
    d.map = file_map_of_bytes("fuzz", (struct str){.p = (const char *)data, .n = size});
    while (dataset_next(&d, a, &r, &any, &err) == ST_OK && any) {
        if (r.line < line || r.text.p < (const char *)data ||
            r.text.p + r.text.n > (const char *)data + size) {
            abort();
        }
        line = r.line;
        read_sample(a, &r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)1 << 30);
    for (int form = 0; form < DATASET_FORM_COUNT; form++) {
        read_form(a, (enum dataset_form)form, data, size);
    }
    arena_free(a);
    return 0;
}
