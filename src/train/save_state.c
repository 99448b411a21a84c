// SPDX-License-Identifier: Apache-2.0
/* assay_state.json: what a resumed run needs beside weights and moments. */
#include <inttypes.h>
#include <string.h>

#include "base/file_map.h"
#include "base/json_out.h"
#include "base/tree.h"

#include "train/save.h"

enum {
    STATE_BYTES_MAX = 1 << 20
};

/* Reals as text that gives the same bits back. */
static void put_real(struct json_out *j, double x)
{
    char text[40];
    str_print(text, sizeof text, "%.17g", x);
    json_string(j, text);
}

void save_state_text(const struct save_state *state, const struct save_target *target,
                     struct strbuf *out)
{
    struct json_out j;

    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"step", state->step},           {"epoch", state->place.epoch},
                   {"next", state->place.next},     {"tokens", state->tokens},
                   {"labels", state->labels},       {"clipped", state->clipped},
                   {"zclip_seen", state->clip.seen}};

    json_init(&j, out);
    json_object(&j);
    json_key(&j, "assay_state");
    json_int(&j, 1);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        json_key(&j, numbers[i].key);
        json_int(&j, (int64_t)numbers[i].value);
    }
    json_field(&j, "products", state->products);
    json_key(&j, "threads");
    json_int(&j, (int64_t)state->threads);
    char hash[20];
    str_print(hash, sizeof hash, "%016" PRIx64, state->data_hash);
    json_field(&j, "data_hash", hash);
    json_key(&j, "zclip_mean");
    put_real(&j, state->clip.mean);
    json_key(&j, "zclip_variance");
    put_real(&j, state->clip.variance);
    json_key(&j, "zclip_warmup");
    json_list(&j);
    for (size_t i = 0; i < state->clip.seen; i++) {
        put_real(&j, state->clip.warmup[i]);
    }
    json_list_end(&j);
    json_key(&j, "losses");
    json_list(&j);
    for (size_t i = 0; i < SAVE_WINDOW && i < state->step; i++) {
        put_real(&j, state->window[i]);
    }
    json_list_end(&j);
    json_key(&j, "settings");
    json_object(&j);
    for (size_t i = 0; i < target->setting_count; i++) {
        json_field(&j, target->settings[i].name, target->settings[i].value);
    }
    json_object_end(&j);
    json_object_end(&j);
    strbuf_addc(out, '\n');
}

static bool get_real(const struct tree *t, double *ret)
{
    return t != NULL && t->text != NULL && str_to_double(str_of(t->text), ret) == ST_OK;
}

/* A list of at most `most` reals; their number, or SIZE_MAX when it is none. */
static size_t get_reals(const struct tree *list, double *to, size_t most)
{
    size_t n = 0;
    if (list == NULL || list->kind != TREE_LIST || list->count > most) {
        return SIZE_MAX;
    }
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        if (!get_real(t, &to[n++])) {
            return SIZE_MAX;
        }
    }
    return n;
}

static bool get_numbers(const struct tree *root, struct save_state *s)
{
    uint64_t seen = 0;

    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"step", &s->step},     {"epoch", &s->place.epoch}, {"next", &s->place.next},
                   {"tokens", &s->tokens}, {"labels", &s->labels},     {"clipped", &s->clipped},
                   {"zclip_seen", &seen}};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const char *text = tree_text(root, numbers[i].key, NULL);
        if (text == NULL || str_to_u64(str_of(text), 10, numbers[i].to) != ST_OK) {
            return false;
        }
    }
    const char *hash = tree_text(root, "data_hash", "");
    s->clip.seen = (uint32_t)seen;
    return seen <= ZCLIP_WARMUP && str_to_u64(str_of(hash), 16, &s->data_hash) == ST_OK &&
           get_real(tree_get(root, "zclip_mean"), &s->clip.mean) &&
           get_real(tree_get(root, "zclip_variance"), &s->clip.variance) &&
           get_reals(tree_get(root, "zclip_warmup"), s->clip.warmup, ZCLIP_WARMUP) == seen &&
           get_reals(tree_get(root, "losses"), s->window, SAVE_WINDOW) ==
               (s->step < SAVE_WINDOW ? s->step : SAVE_WINDOW);
}

static enum status check_settings(const struct tree *settings, const struct save_target *target,
                                  const char *path, struct err *err)
{
    for (size_t i = 0; i < target->setting_count; i++) {
        const struct save_setting *now = &target->settings[i];
        const char *then = tree_text(settings, now->name, "(not set)");
        if (strcmp(then, now->value) != 0) {
            return err_set(
                err, ST_USAGE,
                "--%s was %s when '%s' was written and is %s now; a resumed run goes on with "
                "the settings it began with",
                now->name, then, path, now->value);
        }
    }
    return ST_OK;
}

enum status save_state_read(struct arena *scratch, const char *path,
                            const struct save_target *target, struct save_state *ret_state,
                            struct err *err)
{
    struct file_map map;
    const struct tree *root;
    struct save_state s = {0};
    TRY(file_map_open(path, &map, err));
    enum status status = tree_from_json(scratch, file_map_str(&map), path,
                                        (struct tree_limits){STATE_BYTES_MAX, 10000, 8}, &root,
                                        err);
    file_map_close(&map);
    TRY(status);
    if (strcmp(tree_text(root, "assay_state", ""), "1") != 0 || !get_numbers(root, &s)) {
        return err_set(err, ST_FORMAT, "'%s' is no state that this version of assay wrote", path);
    }
    TRY(check_settings(tree_get(root, "settings"), target, path, err));
    str_print(s.products, sizeof s.products, "%s", tree_text(root, "products", ""));
    if (str_to_u64(str_of(tree_text(root, "threads", "0")), 10, &s.threads) != ST_OK) {
        return err_set(err, ST_FORMAT, "'%s': 'threads' is no number", path);
    }
    *ret_state = s;
    return ST_OK;
}
