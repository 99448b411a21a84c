// SPDX-License-Identifier: Apache-2.0
/* Sums by layer, and lines of metrics.jsonl. */
#include "train/metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"

static const char *group_name(struct arena *a, const struct param *p)
{
    static const struct {
        const char *part;
        const char *group;
    } outside[] = {{"visual", "visual"}, {"embed_tokens", "embed"}, {"lm_head", "head"}};

    if (p->layer >= 0) {
        return arena_fmt(a, "%d", p->layer);
    }
    for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
        if (strstr(p->name, outside[i].part) != NULL) {
            return outside[i].group;
        }
    }
    return "norm";
}

void metrics_groups_init(struct arena *a, const struct param_list *params,
                         struct metrics_groups *ret_groups)
{
    struct metrics_groups g = {.param_group = arena_array(a, params->count, sizeof(size_t))};
    for (size_t i = 0; i < params->count; i++) {
        const char *name = group_name(a, &params->items[i]);
        size_t at = 0;
        if (!params->items[i].trainable) {
            continue;
        }
        while (at < g.count && strcmp(g.items[at].name, name) != 0) {
            at++;
        }
        if (at == g.count) {
            VEC_PUSH(a, &g)->name = name;
        }
        g.param_group[i] = at;
        g.items[at].count += params->items[i].count;
    }
    *ret_groups = g;
}

void metrics_sum(struct metrics_groups *groups, const struct param_list *params,
                 const struct grad_stats *grads, const struct optim_change *changes,
                 struct metrics_row *row)
{
    double dot = 0;
    double grad_sq = 0;
    double before_sq = 0;
    double change_sq = 0;
    double weight_sq = 0;
    double changed = 0;
    double stagnated = 0;
    double zeros = 0;
    double count = 0;
    for (size_t i = 0; i < groups->count; i++) {
        groups->items[i].grad_sq = groups->items[i].weight_sq = groups->items[i].change_sq = 0;
    }
    for (size_t i = 0; i < params->count; i++) {
        if (!params->items[i].trainable) {
            continue;
        }
        struct metrics_group *g = &groups->items[groups->param_group[i]];
        g->grad_sq += grads[i].sum_sq;
        g->weight_sq += changes[i].weight_sq;
        g->change_sq += changes[i].change_sq;
        dot += grads[i].dot;
        grad_sq += grads[i].sum_sq;
        before_sq += grads[i].before_sq;
        change_sq += changes[i].change_sq;
        weight_sq += changes[i].weight_sq;
        changed += (double)changes[i].changed;
        stagnated += (double)changes[i].stagnated;
        zeros += (double)grads[i].zeros;
        count += (double)params->items[i].count;
    }
    row->grad_cosine = before_sq > 0 && grad_sq > 0 ? dot / sqrt(before_sq * grad_sq) : NAN;
    row->update_ratio = weight_sq > 0 ? sqrt(change_sq / weight_sq) : NAN;
    row->changed_share = changed / count;
    row->stagnated_share = stagnated / count;
    row->zero_grad_share = zeros / count;
    row->groups = groups->items;
    row->group_count = groups->count;
}

/* ---- lines ---- */

static void put(struct strbuf *out, const char *key, double x)
{
    if (isfinite(x)) {
        strbuf_fmt(out, ", \"%s\": %.17g", key, x);
    } else {
        strbuf_fmt(out, ", \"%s\": null", key);
    }
}

static void put_known(struct strbuf *out, const char *key, double x)
{
    if (!isnan(x)) {
        put(out, key, x);
    }
}

static void put_groups(const struct metrics_row *row, const char *key, bool gradients,
                       struct strbuf *out)
{
    const char *between = "";
    strbuf_fmt(out, ", \"%s\": {", key);
    for (size_t i = 0; i < row->group_count; i++) {
        const struct metrics_group *g = &row->groups[i];
        double x = gradients          ? sqrt(g->grad_sq)
                   : g->weight_sq > 0 ? sqrt(g->change_sq / g->weight_sq)
                                      : NAN;
        if (isfinite(x)) {
            strbuf_fmt(out, "%s\"%s\": %.9g", between, g->name, x);
        } else {
            strbuf_fmt(out, "%s\"%s\": null", between, g->name);
        }
        between = ", ";
    }
    strbuf_addc(out, '}');
}

void metrics_line(const struct metrics_row *row, struct strbuf *out)
{
    strbuf_fmt(out, "{\"step\": %" PRIu64, row->step);
    put(out, "epoch", row->epoch);
    put(out, "loss", row->loss);
    put(out, "loss_mean", row->loss_mean);
    put(out, "loss_variance", row->loss_variance);
    put(out, "learning_rate", row->learning_rate);
    put(out, "grad_norm", row->grad_norm);
    put(out, "clip_factor", row->clip_factor);
    put(out, "clipped_share", row->clipped_share);
    if (row->group_count != 0) {
        put_known(out, "grad_cosine", row->grad_cosine);
        put_known(out, "update_ratio", row->update_ratio);
        put(out, "changed_share", row->changed_share);
        put(out, "stagnated_share", row->stagnated_share);
        put(out, "zero_grad_share", row->zero_grad_share);
    }
    strbuf_fmt(out, ", \"tokens\": %" PRIu64 ", \"labels\": %" PRIu64 ", \"tokens_seen\": %" PRIu64,
               row->tokens, row->labels, row->tokens_seen);
    put(out, "seconds", row->seconds);
    put(out, "tokens_per_second", row->seconds > 0 ? (double)row->tokens / row->seconds : NAN);
    strbuf_fmt(out, ", \"memory_bytes\": %" PRIu64, row->memory_bytes);
    if (row->group_count != 0) {
        put_groups(row, "grad_norm_by_layer", true, out);
        put_groups(row, "update_ratio_by_layer", false, out);
    }
    strbuf_addz(out, "}\n");
}

static void put_activations(const struct metrics_activations *m, struct strbuf *out)
{
    const char *between = "";
    if (m->count != 0) {
        put(out, "activation_sparsity", (double)m->small / (double)m->count);
    }
    strbuf_addz(out, ", \"attention_entropy_by_layer\": {");
    for (size_t i = 0; i < m->layers; i++) {
        if (m->entropy[i].count != 0) { /* linear attention has none */
            strbuf_fmt(out, "%s\"%zu\": %.9g", between, i,
                       m->entropy[i].sum / (double)m->entropy[i].count);
            between = ", ";
        }
    }
    strbuf_addc(out, '}');
}

void metrics_eval_line(uint64_t step, double loss, uint64_t labels, double seconds,
                       const struct metrics_activations *activations, struct strbuf *out)
{
    strbuf_fmt(out, "{\"step\": %" PRIu64, step);
    put(out, "eval_loss", loss);
    strbuf_fmt(out, ", \"eval_labels\": %" PRIu64, labels);
    put(out, "eval_seconds", seconds);
    if (activations != NULL) {
        put_activations(activations, out);
    }
    strbuf_addz(out, "}\n");
}

static double value_at(enum precision p, const void *values, size_t i)
{
    return p == PRECISION_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void look_at_product(struct metrics_activations *m, size_t n, const void *values)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        double x = value_at(m->precision, values, i);
        squares += x * x;
    }
    double limit = 0.01 * sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++) {
        m->small += fabs(value_at(m->precision, values, i)) < limit;
    }
    m->count += n;
}

void metrics_watch(void *ctx, const char *name, size_t rows, size_t width, const void *values)
{
    struct metrics_activations *m = ctx;
    size_t n = rows * width;
    struct str s = str_of(name);
    if (str_ends(s, ".mlp.product")) {
        look_at_product(m, n, values);
    }
    const char *layer = strstr(name, "layers.");
    uint64_t at = 0;
    if (!str_ends(s, ".entropy") || layer == NULL) {
        return;
    }
    struct str number = str_of(layer + strlen("layers."));
    number = str_slice(number, 0, str_find_char(number, '.', 0));
    if (str_to_u64(number, 10, &at) == ST_OK && at < m->layers) {
        for (size_t i = 0; i < n; i++) {
            m->entropy[at].sum += value_at(m->precision, values, i);
        }
        m->entropy[at].count += n;
    }
}

/* ---- memory ---- */

uint64_t metrics_memory(bool peak)
{
    char text[8192];
    uint64_t kib = 0;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    struct str rest = {text, n > 0 ? (size_t)n : 0};
    struct str line;
    while (str_cut_line(&rest, &line)) {
        if (str_starts(line, peak ? "VmHWM:" : "VmRSS:")) {
            struct str number = str_trim(str_slice(line, 6, line.n));
            size_t end = str_find_char(number, ' ', 0);
            if (str_to_u64(str_slice(number, 0, end != SIZE_MAX ? end : number.n), 10, &kib) !=
                ST_OK) {
                kib = 0;
            }
        }
    }
    return kib * 1024;
}
