// SPDX-License-Identifier: Apache-2.0
/* Parameters with their memory and first values; which linear layers get an adapter. */
#include "train/maker.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

#include "train/linear_attention.h"

/* splitmix64 (Steele, Lea, Flood 2014), seeded by the run's seed and the parameter's name, so that a
 * parameter's values do not depend on what else the model has. */
struct random {
    uint64_t state;
};

static struct random random_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = name; *p != '\0'; p++) {
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    }
    return (struct random){.state = h ^ (seed * 0x9e3779b97f4a7c15u)};
}

static uint64_t random_u64(struct random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In (0, 1). */
static double random_unit(struct random *r)
{
    return ((double)(random_u64(r) >> 11) + 0.5) * 0x1p-53;
}

static double random_normal(struct random *r)
{
    double radius = sqrt(-2 * log(random_unit(r)));
    return radius * cos(2 * M_PI * random_unit(r));
}

void maker_init(struct maker *mk, struct arena *arena, const struct model_config *config,
                const struct model_options *options, struct param_list *list, size_t capacity)
{
    *mk = (struct maker){
        .arena = arena, .config = config, .options = options, .list = list, .layer = -1};
    *list = (struct param_list){.precision = options->precision, .capacity = capacity};
    list->items = arena_array(arena, capacity, sizeof *list->items);
}

void param_set(const struct param_list *list, struct param *p, size_t i, double value)
{
    if (list->precision == PRECISION_F64) {
        ((double *)p->value)[i] = value;
    } else {
        enum dtype t = list->precision == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
        ((float *)p->value)[i] = (float)dtype_round(t, value);
    }
}

static void fill(const struct maker *mk, struct param *p, enum init init)
{
    struct random r = random_of(mk->options->seed, p->name);
    double bound = 1 / sqrt((double)p->dim[p->rank - 1]);
    for (size_t i = 0; i < p->count; i++) {
        double v = 0;
        switch (init) {
        case INIT_NORMAL: v = mk->config->initializer_range * random_normal(&r); break;
        case INIT_ONE: v = 1; break;
        case INIT_KAIMING: v = bound * (2 * random_unit(&r) - 1); break;
        case INIT_LOG_UNIFORM: v = log(0.01 + (16 - 0.01) * random_unit(&r)); break;
        default: return; /* memory is zero */
        }
        param_set(mk->list, p, i, v);
    }
}

/* Ends a component of the name: "norm" in "model.norm.weight", "q_norm" in "q_norm.weight". */
static bool has_component(const char *name, const char *part)
{
    size_t n = strlen(part);
    for (const char *p = strstr(name, part); p != NULL; p = strstr(p + 1, part)) {
        if (p[n] == '\0' || p[n] == '.') {
            if (part[0] == '_' || p == name || p[-1] == '.') {
                return true;
            }
        }
    }
    return false;
}

/* Hugging Face's Trainer.get_decay_parameter_names: by name, so dt_bias has none and A_log has. */
static bool decays(const char *name)
{
    return strstr(name, "bias") == NULL && strstr(name, "layernorm") == NULL &&
           strstr(name, "rmsnorm") == NULL && !has_component(name, "norm") &&
           !has_component(name, "_norm");
}

static struct param *add(struct maker *mk, const char *name, enum init init, size_t rank,
                         const size_t *dim, bool adapter)
{
    struct param_list *list = mk->list;
    if (list->count == list->capacity) {
        arena_exhausted("the model has more parameters than were reserved for its family");
    }
    struct param *p = &list->items[list->count++];
    *p = (struct param){.name = arena_strdup(mk->arena, name),
                        .rank = rank,
                        .count = 1,
                        .layer = mk->layer,
                        .decay = decays(name),
                        .file_dtype = DTYPE_F32};
    for (size_t i = 0; i < rank; i++) {
        p->dim[i] = dim[i];
        if (__builtin_mul_overflow(p->count, dim[i], &p->count)) {
            arena_exhausted("out of memory: a parameter does not fit in the address space");
        }
    }
    p->trainable = adapter || mk->options->lora.rank == 0;
    p->value = arena_array(mk->arena, p->count, precision_bytes(list->precision));
    if (p->trainable) {
        p->grad = arena_array(mk->arena, p->count, precision_bytes(list->precision));
    }
    if (adapter || mk->options->random) {
        fill(mk, p, init);
    }
    return p;
}

struct param *maker_param(struct maker *mk, const char *name, enum init init, size_t rank,
                          const size_t *dim)
{
    return add(mk, name, init, rank, dim, false);
}

/* PEFT: "all-linear", or names that a module's path must be or end with after a dot. */
static bool is_target(const struct maker *mk, const char *module)
{
    const struct lora_options *lora = &mk->options->lora;
    if (lora->rank == 0 || lora->targets == NULL) {
        return false;
    }
    struct str rest = str_of(lora->targets);
    struct str part;
    while (str_cut(&rest, ',', &part)) {
        part = str_trim(part);
        size_t n = strlen(module);
        if (str_is(part, "all-linear")) {
            if (mk->adapters) {
                return true;
            }
        } else if (part.n != 0 && part.n <= n && memcmp(module + n - part.n, part.p, part.n) == 0 &&
                   (part.n == n || module[n - part.n - 1] == '.')) {
            return true;
        }
    }
    return false;
}

static void add_adapter(struct maker *mk, struct linear *l)
{
    const struct lora_options *lora = &mk->options->lora;
    const char *path = arena_fmt(mk->arena, "base_model.model.%s", l->module);
    l->lora_a = add(mk, arena_fmt(mk->arena, "%s.lora_A.weight", path), INIT_KAIMING, 2,
                    (const size_t[]){lora->rank, l->in}, true);
    l->lora_b = add(mk, arena_fmt(mk->arena, "%s.lora_B.weight", path), INIT_ZERO, 2,
                    (const size_t[]){l->out, lora->rank}, true);
    double r = (double)lora->rank;
    l->lora_scale = lora->alpha / (lora->rank_stabilised ? sqrt(r) : r);
}

void maker_linear(struct maker *mk, struct linear *ret, const char *module, size_t out, size_t in,
                  bool bias)
{
    struct arena *a = mk->arena;
    *ret = (struct linear){.module = arena_strdup(a, module), .in = in, .out = out};
    ret->weight = maker_param(mk, arena_fmt(a, "%s.weight", module), INIT_NORMAL, 2,
                              (const size_t[]){out, in});
    if (bias) {
        ret->bias = maker_param(mk, arena_fmt(a, "%s.bias", module), INIT_ZERO, 1, &out);
    }
    if (is_target(mk, module)) {
        add_adapter(mk, ret);
    }
}

void maker_norm(struct maker *mk, struct norm *ret, const char *module, enum norm_kind kind,
                size_t width)
{
    *ret = (struct norm){.module = arena_strdup(mk->arena, module),
                         .kind = kind,
                         .width = width,
                         .eps = mk->config->norm_eps};
    ret->weight = maker_param(mk, arena_fmt(mk->arena, "%s.weight", module),
                              kind == NORM_ZERO_CENTRED ? INIT_ZERO : INIT_ONE, 1, &width);
}

void *maker_attention(struct maker *mk, const char *module)
{
    const struct model_config *c = mk->config;
    struct arena *a = mk->arena;
    struct attention *l = arena_alloc(a, sizeof *l);
    size_t q_width = c->heads * c->head_dim;
    size_t kv_width = c->kv_heads * c->head_dim;
    l->module = arena_fmt(a, "%s.self_attn", module);
    maker_linear(mk, &l->q, arena_fmt(a, "%s.q_proj", l->module), q_width, c->hidden, c->qkv_bias);
    maker_linear(mk, &l->k, arena_fmt(a, "%s.k_proj", l->module), kv_width, c->hidden, c->qkv_bias);
    maker_linear(mk, &l->v, arena_fmt(a, "%s.v_proj", l->module), kv_width, c->hidden, c->qkv_bias);
    maker_linear(mk, &l->o, arena_fmt(a, "%s.o_proj", l->module), c->hidden, q_width, c->o_bias);
    if (c->qk_norm) {
        maker_norm(mk, &l->q_norm, arena_fmt(a, "%s.q_norm", l->module), c->norm, c->head_dim);
        maker_norm(mk, &l->k_norm, arena_fmt(a, "%s.k_norm", l->module), c->norm, c->head_dim);
    }
    return l;
}

const struct maker_layer maker_layers[LAYER_KIND_COUNT] = {
    [LAYER_FULL_ATTENTION] = {"full_attention", maker_attention},
    [LAYER_LINEAR_ATTENTION] = {"linear_attention", maker_linear_attention},
    [LAYER_GATED_ATTENTION] = {"full_attention", maker_gated_attention},
};
