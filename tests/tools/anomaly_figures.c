// SPDX-License-Identifier: Apache-2.0
/*
 * Recall and false alarms of the detector on synthetic series with planted anomalies of known strength,
 * beside the fixed thresholds that people use by hand: a loss more than 0.5 off the mean of the last 100
 * values, a gradient norm outside [0.01, 5]. Prints the tables of docs/watch.md. Seeded: the same output
 * on every machine with IEEE arithmetic. With the losses of a real run (one number a line), anomalies are planted into
 * those instead. usage: anomaly_figures [SERIES [LOSSES...]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "study/anomaly.h"

enum {
    STEPS = 10000,
    PLANTS = 40,
    AFTER_SPIKE = 2,
    AFTER_SHIFT = 300,
    AFTER_FLAT = 30,
    WINDOW = 100
};

static uint64_t state;

static double uniform(void) /* splitmix64 */
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    double u = uniform();
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * uniform());
}

/* Student's t with three degrees of freedom: outliers of 10 sigma come by themselves. */
static double heavy(void)
{
    double a = normal();
    double b = normal();
    double c = normal();
    return normal() / sqrt((a * a + b * b + c * c) / 3);
}

enum noise {
    NOISE_NORMAL,
    NOISE_HEAVY,
    NOISE_SLOW /* AR(1), 0.8: what running averages look like */
};

enum plant {
    PLANT_NONE,
    PLANT_SPIKE,
    PLANT_SHIFT,
    PLANT_RAMP,
    PLANT_FLAT, /* the same value from there on */
    PLANT_SINE,
    PLANT_TRAIN /* a spike every `period` steps */
};

struct scene {
    const char *name;
    const char *metric;
    enum noise noise;
    double sigma;
    enum plant plant;
    double height; /* in sigmas */
    unsigned period;
    double centre; /* of a gradient norm: its logarithm */
    double grain;  /* values are printed in multiples of it; 0: in full */
};

/* Losses of a real run, and their noise; none: made-up ones. */
static double real[STEPS];
static double real_sigma;
static size_t steps = STEPS;
static bool is_real;

struct outcome {
    uint64_t planted, found, fixed_found;
    uint64_t alarms, fixed_alarms, steps; /* that belong to no plant */
};

static double noise_of(enum noise kind, double *memory)
{
    if (kind == NOISE_HEAVY) {
        return heavy();
    }
    if (kind == NOISE_SLOW) {
        *memory = 0.8 * *memory + 0.6 * normal();
        return *memory;
    }
    return normal();
}

/* Values of a scene; plants[i] is the step of plant i. */
static size_t make(const struct scene *s, double *values, size_t *plants)
{
    double memory = 0;
    size_t count = 0;
    double level = 0;
    bool norm = strcmp(s->metric, "grad_norm") == 0;
    double sigma = is_real ? real_sigma : s->sigma;
    for (size_t t = 0; t < steps; t++) {
        double trend = norm ? s->centre : 1.4 + 2.5 * exp(-(double)t / 700);
        values[t] = is_real ? real[t] : trend + sigma * noise_of(s->noise, &memory);
    }
    double gap = (double)steps / (PLANTS + 5);
    for (size_t i = 0; i < PLANTS && s->plant == PLANT_SPIKE; i++) {
        plants[count] = (size_t)(gap * ((double)i + 3 + 0.8 * uniform()));
        values[plants[count++]] += s->height * sigma;
    }
    if (s->plant == PLANT_SHIFT || s->plant == PLANT_RAMP) {
        plants[count++] = (size_t)((double)steps / 3 + (double)steps / 5 * uniform());
        for (size_t t = plants[0]; t < steps; t++) {
            double part = s->plant == PLANT_RAMP ? (double)(t - plants[0]) / 1000 : 1;
            level = s->height * sigma * (part < 1 ? part : 1);
            values[t] += level;
        }
    }
    if (s->plant == PLANT_SINE || s->plant == PLANT_TRAIN) {
        plants[count++] = 0;
        for (size_t t = 0; t < steps; t++) {
            double wave = s->plant == PLANT_SINE ? sin(6.283185307179586 * (double)t / s->period)
                                                 : t % s->period == 0;
            values[t] += s->height * sigma * wave;
        }
    }
    if (s->plant == PLANT_FLAT) {
        plants[count++] = (size_t)((double)steps * (0.3 + 0.4 * uniform()));
        for (size_t t = plants[0]; t < steps; t++) {
            values[t] = values[plants[0]];
        }
    }
    for (size_t t = 0; t < steps; t++) {
        values[t] = norm ? exp(values[t]) : values[t];
        values[t] = s->grain > 0 ? s->grain * round(values[t] / s->grain) : values[t];
    }
    return count;
}

struct listening {
    const struct scene *scene;
    const size_t *plants;
    size_t count;
    bool hit[PLANTS];
    struct outcome *out;
};

static bool fits(const struct listening *l, enum anomaly_kind kind)
{
    switch (l->scene->plant) {
    case PLANT_SPIKE: return kind == ANOMALY_SPIKE;
    case PLANT_FLAT: return kind == ANOMALY_SAME;
    case PLANT_SHIFT:
    case PLANT_RAMP: return kind == ANOMALY_SHIFT_UP;
    case PLANT_SINE:
    case PLANT_TRAIN: return kind == ANOMALY_PERIOD;
    default: return false;
    }
}

/* Marks the plant that an alarm at step `t` belongs to; false when there is none. */
static bool credit(const struct listening *l, bool *hit, size_t t)
{
    enum plant plant = l->scene->plant;
    size_t after = plant == PLANT_SPIKE   ? AFTER_SPIKE
                   : plant == PLANT_FLAT  ? AFTER_FLAT
                   : plant == PLANT_SHIFT ? AFTER_SHIFT
                   : plant == PLANT_RAMP  ? 1500
                                          : steps;
    for (size_t i = 0; i < l->count; i++) {
        if (t >= l->plants[i] && t <= l->plants[i] + after) {
            hit[i] = true;
            return true;
        }
    }
    return false;
}

static void on_found(void *ctx, const struct anomaly *a)
{
    struct listening *l = ctx;
    if (a->severity == SEVERITY_NOTE) {
        return;
    }
    if (a->kind == ANOMALY_PERIOD && l->scene->plant >= PLANT_SINE &&
        !(fabs(a->extra - l->scene->period) <= 0.03 * l->scene->period + 1)) {
        l->out->alarms++; /* a wrong period */
        return;
    }
    /* A spike train also is spikes, and the first value of a shift is one. */
    bool begins = l->count != 0 && a->step >= (int64_t)l->plants[0] &&
                  a->step < (int64_t)l->plants[0] + 20;
    bool other = a->kind == ANOMALY_SPIKE &&
                 (l->scene->plant == PLANT_TRAIN || (l->scene->plant == PLANT_SHIFT && begins));
    if (!(fits(l, a->kind) && credit(l, l->hit, (size_t)a->step)) && !other) {
        l->out->alarms++;
    }
}

/* The fixed thresholds, told once in ten steps like ours. */
static void fixed(struct listening *l, const double *values)
{
    bool hit[PLANTS] = {false};
    bool norm = strcmp(l->scene->metric, "grad_norm") == 0;
    double sum = 0;
    size_t quiet = 0;
    for (size_t t = 0; t < steps; t++) {
        size_t n = t < WINDOW ? t : WINDOW;
        bool out = norm ? values[t] < 0.01 || values[t] > 5
                        : n == WINDOW && fabs(values[t] - sum / (double)n) > 0.5;
        if (out) {
            bool fresh = t >= quiet;
            quiet = t + 10;
            bool periodic = l->scene->plant == PLANT_SINE;
            if (fresh && (periodic || !credit(l, hit, t))) {
                l->out->fixed_alarms++;
            }
        }
        sum += values[t] - (t >= WINDOW ? values[t - WINDOW] : 0);
    }
    for (size_t i = 0; i < l->count && l->scene->plant != PLANT_SINE; i++) {
        l->out->fixed_found += hit[i];
    }
}

static void play(const struct scene *scene, const struct anomaly_rules *rules, struct outcome *out)
{
    static double values[STEPS];
    size_t plants[PLANTS] = {0};
    struct arena *a = arena_new(0);
    struct arena *scratch = arena_new(0);
    struct listening l = {.scene = scene, .plants = plants, .out = out};
    l.count = make(scene, values, plants);
    struct anomaly_set *set = anomaly_set_new(a, scratch, rules);
    anomaly_set_listen(set, on_found, &l);
    for (size_t t = 0; t < steps; t++) {
        struct anomaly_sample sample = {.metric = scene->metric,
                                        .rank = -1,
                                        .step = (int64_t)t,
                                        .value = values[t],
                                        .time = NAN};
        anomaly_add(set, &sample);
    }
    anomaly_finish(set);
    for (size_t i = 0; i < l.count; i++) {
        out->found += l.hit[i];
    }
    out->planted += l.count;
    out->steps += steps;
    fixed(&l, values);
    arena_free(a);
    arena_free(scratch);
}

static const struct scene scenes[] = {
    {"clean, normal noise 0.03", "loss", NOISE_NORMAL, 0.03, PLANT_NONE, 0, 0},
    {"clean, normal noise 0.2", "loss", NOISE_NORMAL, 0.2, PLANT_NONE, 0, 0},
    {"clean, heavy tails (t3) 0.03", "loss", NOISE_HEAVY, 0.03, PLANT_NONE, 0, 0},
    {"clean, heavy tails (t3) 0.2", "loss", NOISE_HEAVY, 0.2, PLANT_NONE, 0, 0},
    {"clean, slow noise (AR 0.8) 0.03", "loss", NOISE_SLOW, 0.03, PLANT_NONE, 0, 0},
    {"clean, slow noise (AR 0.8) 0.2", "loss", NOISE_SLOW, 0.2, PLANT_NONE, 0, 0},
    {"spikes of 5 sigma (0.15)", "loss", NOISE_NORMAL, 0.03, PLANT_SPIKE, 5, 0},
    {"spikes of 8 sigma (0.24)", "loss", NOISE_NORMAL, 0.03, PLANT_SPIKE, 8, 0},
    {"spikes of 12 sigma (0.36)", "loss", NOISE_NORMAL, 0.03, PLANT_SPIKE, 12, 0},
    {"spikes of 30 sigma (0.9)", "loss", NOISE_NORMAL, 0.03, PLANT_SPIKE, 30, 0},
    {"spikes of 12 sigma (2.4), noise 0.2", "loss", NOISE_NORMAL, 0.2, PLANT_SPIKE, 12, 0},
    {"spikes of 30 sigma (0.9), heavy tails", "loss", NOISE_HEAVY, 0.03, PLANT_SPIKE, 30, 0},
    {"shift of 2 sigma (0.06)", "loss", NOISE_NORMAL, 0.03, PLANT_SHIFT, 2, 0},
    {"shift of 5 sigma (0.15)", "loss", NOISE_NORMAL, 0.03, PLANT_SHIFT, 5, 0},
    {"shift of 10 sigma (0.3)", "loss", NOISE_NORMAL, 0.03, PLANT_SHIFT, 10, 0},
    {"shift of 1.5 sigma (0.3), noise 0.2", "loss", NOISE_NORMAL, 0.2, PLANT_SHIFT, 1.5, 0},
    {"shift of 10 sigma (0.3), heavy tails", "loss", NOISE_HEAVY, 0.03, PLANT_SHIFT, 10, 0},
    {"drift of 5 sigma (0.15) in 1,000 steps", "loss", NOISE_NORMAL, 0.03, PLANT_RAMP, 5, 0},
    {"drift of 10 sigma (0.3) in 1,000 steps", "loss", NOISE_NORMAL, 0.03, PLANT_RAMP, 10, 0},
    {"sine of 0.5 sigma, period 50", "loss", NOISE_NORMAL, 0.03, PLANT_SINE, 0.5, 50},
    {"sine of 1 sigma, period 50", "loss", NOISE_NORMAL, 0.03, PLANT_SINE, 1, 50},
    {"sine of 2 sigma, period 50", "loss", NOISE_NORMAL, 0.03, PLANT_SINE, 2, 50},
    {"sine of 2 sigma, period 500", "loss", NOISE_NORMAL, 0.03, PLANT_SINE, 2, 500},
    {"sine of 2 sigma, period 50, heavy tails", "loss", NOISE_HEAVY, 0.03, PLANT_SINE, 2, 50},
    {"spike of 8 sigma every 25 steps", "loss", NOISE_NORMAL, 0.03, PLANT_TRAIN, 8, 25},
    {"clean, printed with two decimals", "loss", NOISE_NORMAL, 0.03, PLANT_NONE, 0, 0, 0, 0.01},
    {"stuck at one value", "loss", NOISE_NORMAL, 0.03, PLANT_FLAT, 0, 0},
    {"stuck at one value, printed with two decimals", "loss", NOISE_NORMAL, 0.03, PLANT_FLAT, 0, 0,
     0, 0.01},
    {"grad_norm around 1, clean", "grad_norm", NOISE_NORMAL, 0.25, PLANT_NONE, 0, 0},
    {"grad_norm around 1, spikes of factor 7.4", "grad_norm", NOISE_NORMAL, 0.25, PLANT_SPIKE, 8,
     0},
    {"grad_norm stuck at one value", "grad_norm", NOISE_NORMAL, 0.25, PLANT_FLAT, 0, 0},
    {"grad_norm around 0.007, clean", "grad_norm", NOISE_NORMAL, 0.25, PLANT_NONE, 0, 0, -5},
    {"grad_norm around 8, clean", "grad_norm", NOISE_NORMAL, 0.25, PLANT_NONE, 0, 0, 2.1},
};

/* What is planted into a real run; its own noise is the unit. */
static const struct scene real_scenes[] = {
    {"as it is", "loss", NOISE_NORMAL, 0, PLANT_NONE, 0, 0},
    {"spikes of 8 sigma", "loss", NOISE_NORMAL, 0, PLANT_SPIKE, 8, 0},
    {"spikes of 12 sigma", "loss", NOISE_NORMAL, 0, PLANT_SPIKE, 12, 0},
    {"shift of 5 sigma", "loss", NOISE_NORMAL, 0, PLANT_SHIFT, 5, 0},
    {"sine of 1 sigma, period 50", "loss", NOISE_NORMAL, 0, PLANT_SINE, 1, 50},
    {"sine of 2 sigma, period 50", "loss", NOISE_NORMAL, 0, PLANT_SINE, 2, 50},
    {"stuck at one value", "loss", NOISE_NORMAL, 0, PLANT_FLAT, 0, 0},
};

static void row(const char *prefix, const struct scene *scene, const struct outcome *o)
{
    double runs = (double)o->steps / STEPS; /* rates are those of 10,000 steps */
    char recall[32] = "–";
    char other[32] = "–";
    if (o->planted != 0) {
        snprintf(recall, sizeof recall, "%.1f %%", 100 * (double)o->found / (double)o->planted);
        snprintf(other, sizeof other, "%.1f %%", 100 * (double)o->fixed_found / (double)o->planted);
    }
    printf("| %s%s | %s | %.2f | %s | %.2f |\n", prefix, scene->name, recall,
           (double)o->alarms / runs, other, (double)o->fixed_alarms / runs);
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa;
    double b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

/* Deviation of one value, from the median distance of neighbours: a trend does not count. */
static double sigma_of_real(void)
{
    static double distance[STEPS];
    size_t n = 0;
    for (size_t t = 1; t < steps; t++) {
        distance[n++] = fabs(real[t] - real[t - 1]);
    }
    qsort(distance, n, sizeof *distance, by_value);
    return 1.4826 * distance[n / 2] / sqrt(2);
}

static int read_real(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[128];
    steps = 0;
    while (f != NULL && steps < STEPS && fgets(line, sizeof line, f) != NULL) {
        if (str_to_double(str_trim(str_of(line)), &real[steps]) == ST_OK) {
            steps++;
        }
    }
    if (f == NULL || steps < 1000) {
        fprintf(stderr, "anomaly_figures: %s: at least 1000 losses, one a line, were expected\n",
                path);
        return 2;
    }
    fclose(f);
    is_real = true;
    real_sigma = sigma_of_real();
    return 0;
}

static void play_all(const struct scene *list, size_t count, const char *prefix, uint64_t series,
                     const struct anomaly_rules *rules)
{
    for (size_t i = 0; i < count; i++) {
        struct outcome o = {0};
        uint64_t times = is_real && list[i].plant == PLANT_NONE ? 1 : series;
        for (uint64_t k = 0; k < times; k++) {
            state = 1000 * (i + 1) + k;
            play(&list[i], rules, &o);
        }
        row(prefix, &list[i], &o);
    }
}

int main(int argc, char **argv)
{
    uint64_t series = 20;
    if (argc > 1 && (str_to_u64(str_of(argv[1]), 10, &series) != ST_OK || series == 0)) {
        fprintf(stderr, "usage: anomaly_figures [SERIES [LOSSES...]]\n");
        return 64;
    }
    struct anomaly_rules rules;
    anomaly_rules_default(&rules);
    printf(
        "| series of 10,000 steps | recall | false alarms per 10,000 | fixed limits: recall | false alarms |\n"
        "|---|---|---|---|---|\n");
    if (argc <= 2) {
        play_all(scenes, ARRAY_LEN(scenes), "", series, &rules);
    }
    for (int i = 2; i < argc; i++) {
        char prefix[160];
        if (read_real(argv[i]) != 0) {
            return 2;
        }
        const char *name = strrchr(argv[i], '/');
        snprintf(prefix, sizeof prefix,
                 "%s, %zu steps, noise %.3f: ", name != NULL ? name + 1 : argv[i], steps,
                 real_sigma);
        play_all(real_scenes, ARRAY_LEN(real_scenes), prefix, series, &rules);
    }
    return 0;
}
