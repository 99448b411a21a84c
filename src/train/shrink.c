// SPDX-License-Identifier: Apache-2.0
/* config.json of a smaller model: a few numbers replaced, everything else as it stands. */
#include "train/shrink.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_out.h"

#include "train/plan.h"
#include "train/vision.h"

enum {
    TEXT_MAX = 16 << 20,
    STEP = 32, /* widths are multiples of it */
    HALVINGS = 14
};

struct edit {
    const char *key;
    size_t value;
};

/* What is replaced in the object that describes the text model, and in the vision tower's. */
struct small {
    struct edit text[10];
    size_t text_count;
    struct edit vision[6];
    size_t vision_count;
    size_t layers;
    size_t levels; /* deepstack blocks that stay, the first ones */
};

static size_t scaled(size_t n, double by, size_t step)
{
    size_t steps = (size_t)((double)n * by / (double)step + 0.5);
    return steps < 1 ? step : steps * step;
}

/* Layers after which the kinds begin again: 4 for three linear layers and a full one. */
static size_t period_of(const struct model_config *c)
{
    for (size_t p = 1; p < c->layers; p++) {
        size_t i = p;
        while (i < c->layers && c->layer_kind[i] == c->layer_kind[i - p]) {
            i++;
        }
        if (i == c->layers) {
            return p;
        }
    }
    return c->layers;
}

static void put(struct edit *edits, size_t *count, const char *key, size_t value)
{
    edits[(*count)++] = (struct edit){key, value};
}

/* The model with widths times `by` and that many layers. */
static void make_small(const struct model_config *c, double by, size_t layers, struct small *s)
{
    size_t kv = scaled(c->kv_heads, by, 1);
    const struct linear_attention_config *l = &c->linear_attention;
    *s = (struct small){0};
    s->layers = layers;
    put(s->text, &s->text_count, "hidden_size", scaled(c->hidden, by, STEP));
    put(s->text, &s->text_count, "intermediate_size", scaled(c->intermediate, by, STEP));
    put(s->text, &s->text_count, "num_hidden_layers", s->layers);
    put(s->text, &s->text_count, "num_key_value_heads", kv);
    put(s->text, &s->text_count, "num_attention_heads", kv * (c->heads / c->kv_heads));
    put(s->text, &s->text_count, "head_dim", c->head_dim);
    if (l->heads != 0) {
        size_t heads = scaled(l->heads, by, 1);
        put(s->text, &s->text_count, "linear_num_key_heads", heads);
        put(s->text, &s->text_count, "linear_num_value_heads", heads * (l->v_heads / l->heads));
    }
    if (c->vision != NULL) {
        const struct vision_config *v = c->vision;
        size_t heads = scaled(v->heads, by, 1);
        size_t depth = scaled(v->depth, by, 1);
        s->levels = v->levels;
        put(s->vision, &s->vision_count, "depth", depth > v->levels ? depth : v->levels);
        put(s->vision, &s->vision_count, "num_heads", heads);
        put(s->vision, &s->vision_count, "hidden_size", heads * (v->hidden / v->heads));
        put(s->vision, &s->vision_count, "intermediate_size", scaled(v->intermediate, by, STEP));
        put(s->vision, &s->vision_count, "out_hidden_size", s->text[0].value);
    }
}

/* ---- writing the document again ---- */

struct writer {
    struct json_out j;
    const struct model_config *config;
    const struct small *small;
};

static void write_node(struct writer *w, const struct tree *t);

static void write_scalar(struct json_out *j, const struct tree *t)
{
    struct value v = t->value;
    json_value(j, &v);
}

static const struct edit *edit_of(const struct writer *w, const struct tree *object,
                                  const char *key)
{
    const struct tree *vision = tree_get(w->config->root, "vision_config");
    const struct edit *edits = object == w->config->text ? w->small->text
                               : object == vision        ? w->small->vision
                                                         : NULL;
    size_t count = object == w->config->text ? w->small->text_count : w->small->vision_count;
    for (size_t i = 0; edits != NULL && i < count; i++) {
        if (strcmp(edits[i].key, key) == 0) {
            return &edits[i];
        }
    }
    return NULL;
}

/* The first `count` children of a list. */
static void write_first(struct writer *w, const struct tree *list, size_t count)
{
    json_list(&w->j);
    for (const struct tree *t = list->child; t != NULL && count != 0; t = t->next, count--) {
        write_node(w, t);
    }
    json_list_end(&w->j);
}

static void write_member(struct writer *w, const struct tree *object, const struct tree *t)
{
    const struct edit *edit = edit_of(w, object, t->key);
    json_key(&w->j, t->key);
    if (edit != NULL) {
        json_int(&w->j, (int64_t)edit->value);
    } else if (strcmp(t->key, "layer_types") == 0 && t->kind == TREE_LIST) {
        write_first(w, t, w->small->layers);
    } else if (strcmp(t->key, "deepstack_visual_indexes") == 0 && t->kind == TREE_LIST) {
        json_list(&w->j);
        for (size_t i = 0; i < w->small->levels; i++) {
            json_int(&w->j, (int64_t)i);
        }
        json_list_end(&w->j);
    } else if (strcmp(t->key, "mtp_num_hidden_layers") == 0 ||
               strcmp(t->key, "max_window_layers") == 0) {
        json_int(&w->j, t->key[1] == 't' ? 0 : (int64_t)w->small->layers);
    } else {
        write_node(w, t);
    }
}

static void write_object(struct writer *w, const struct tree *t)
{
    json_object(&w->j);
    for (const struct tree *m = t->child; m != NULL; m = m->next) {
        write_member(w, t, m);
    }
    /* head_dim that follows from the other numbers in the file does so no more. */
    if (t == w->config->text && tree_get(t, "head_dim") == NULL) {
        json_key(&w->j, "head_dim");
        json_int(&w->j, (int64_t)w->config->head_dim);
    }
    if (t == w->config->text && tree_get(t, "num_key_value_heads") == NULL) {
        json_key(&w->j, "num_key_value_heads");
        json_int(&w->j, (int64_t)w->small->text[3].value);
    }
    json_object_end(&w->j);
}

static void write_node(struct writer *w, const struct tree *t)
{
    if (t->kind == TREE_MAP) {
        write_object(w, t);
    } else if (t->kind == TREE_LIST) {
        write_first(w, t, t->count);
    } else {
        write_scalar(&w->j, t);
    }
}

static enum status try_size(struct arena *a, const struct model_config *config, double by,
                            size_t layers, const char **ret_text, uint64_t *ret_params,
                            struct err *err)
{
    struct small small;
    struct strbuf text;
    struct model_config made;
    struct plan_counts counts;
    make_small(config, by, layers, &small);
    struct writer w = {.config = config, .small = &small};
    strbuf_init(&text, a, TEXT_MAX);
    json_init(&w.j, &text);
    write_node(&w, config->root);
    strbuf_addc(&text, '\n');
    TRY(config_parse(a, strbuf_str(&text), "config.json of the small model", &made, err));
    plan_count(&made, NULL, &counts);
    *ret_text = text.p;
    *ret_params = counts.weights;
    return ST_OK;
}

struct choice {
    const char *text;
    uint64_t params;
    double badness; /* distance from what was asked for, and from the proportions of the model */
};

/* The width that comes closest with so many layers, by bisection: more width, never fewer parameters. */
static enum status best_width(struct arena *a, const struct model_config *config, uint64_t params,
                              size_t layers, struct choice *best, struct err *err)
{
    double low = 0;
    double high = 1;
    double deep = (double)layers / (double)config->layers;
    for (int i = 0; i < HALVINGS; i++) {
        double by = (low + high) / 2;
        struct choice c;
        TRY(try_size(a, config, by, layers, &c.text, &c.params, err));
        c.badness = fabs((double)c.params - (double)params) / (double)params +
                    0.1 * fabs(log(by / deep));
        if (c.badness < best->badness) {
            *best = c;
        }
        *(c.params < params ? &low : &high) = by;
    }
    return ST_OK;
}

enum status shrink_config(struct arena *a, const struct model_config *config, uint64_t params,
                          const char **ret_text, uint64_t *ret_params, struct err *err)
{
    struct plan_counts whole;
    struct choice best = {.badness = INFINITY};
    size_t period = period_of(config);
    plan_count(config, NULL, &whole);
    if (params >= whole.weights) {
        return err_set(err, ST_USAGE,
                       "the model has %" PRIu64 " parameters itself; --params must be smaller",
                       whole.weights);
    }
    TRY(try_size(a, config, 0, period, &best.text, &best.params, err));
    if (best.params > params + params / 4) {
        return err_set(err, ST_USAGE,
                       "the smallest model with this vocabulary of %zu has %" PRIu64
                       " parameters; --params must be that at least",
                       config->vocab, best.params);
    }
    for (size_t layers = period; layers <= config->layers; layers += period) {
        TRY(best_width(a, config, params, layers, &best, err));
    }
    *ret_text = best.text;
    *ret_params = best.params;
    return ST_OK;
}
