// SPDX-License-Identifier: Apache-2.0
/* The rules for one series, value by value; see anomaly.h for what is looked for and how. */
#include "study/anomaly_series.h"

#include <math.h>
#include <string.h>

enum {
    LEVEL_MIN = 16,   /* values before a rolling median means something */
    LEVEL_BEGIN = 31, /* a young series falls fast: its median is over few values, then over more */
    MERGE = 10,       /* the same kind again within so many values is the same anomaly */
    FLAGGED_KEPT =
        5, /* so many outliers in a row are kept out of the spread; then it is the new normal */
    TAIL_MIN = 40,
    TAIL_QUIET = 1000, /* values without a tail before one is told again */
    TAIL_VALUES = 4096,
    WANDER_VALUES = 400,
    PERIOD_FIRST = 96,
    PERIOD_STEP = 1024
};

#define TAIL_QUANTILE 0.99
#define NORMAL_99     2.326 /* the same quantile of a normal distribution */
#define RHO_MAX       0.9
#define YOUNG_TAIL    4.0
#define DROP_TAIL     1.6 /* values far below harm nobody: a longer tail is let pass there */
#define Z_LIMIT       4.0 /* a single spike is no shift */

struct anomaly anomaly_at(const struct anomaly_series *x, const struct anomaly_sample *sample,
                          enum anomaly_kind kind, enum severity severity)
{
    return (struct anomaly){.kind = kind,
                            .severity = severity,
                            .metric = x->metric,
                            .rank = x->rank,
                            .step = x->step,
                            .counted = x->counted,
                            .value = sample->value,
                            .low = NAN,
                            .high = NAN,
                            .extra = NAN,
                            .file = sample->file,
                            .line = sample->line,
                            .time = sample->time};
}

/* False while the same kind was told a moment ago. */
static bool fresh(struct anomaly_series *x, enum anomaly_kind kind, uint64_t quiet)
{
    bool now = x->count >= x->quiet_until[kind];
    x->quiet_until[kind] = x->count + quiet;
    return now;
}

static bool is_log(const struct anomaly_series *x)
{
    return x->family == FAMILY_NORM || x->family == FAMILY_TIME || x->family == FAMILY_RATE;
}

static double unscaled(const struct anomaly_series *x, double v)
{
    return is_log(x) ? exp(v) : v;
}

/* ---- spikes and drops ---- */

/* Where the next value should lie, as distances from the level. */
struct band {
    double centre;
    double sigma;
    double up, down; /* distances from the centre, both positive */
};

/* The 99 % quantile of one window rests on five values. How heavy the tail is changes slowly, so its mean over
 * the last few thousand values is taken; a young series has the plain mean. */
static double widened(const struct anomaly_series *x, const struct anomaly_rules *rules,
                      double *tail, double power, double quantile, double sigma)
{
    double ratio = quantile / (NORMAL_99 * sigma);
    double n = (double)(x->tail_values < TAIL_VALUES ? x->tail_values : TAIL_VALUES);
    *tail += (ratio - *tail) / n;
    /* Few values may have met a light part of a heavy tail. */
    double heavy = 1 + (*tail - 1) * (1 + YOUNG_TAIL / sqrt(n));
    double wide = heavy > 1 ? pow(heavy, power) : 1;
    return rules->spike_sigma * sigma * wide;
}

static struct band band_of(const struct anomaly_set *s, struct anomaly_series *x, double level)
{
    const struct anomaly_window *w = &x->spread;
    x->tail_values++;
    struct band b = {.centre = anomaly_window_quantile(w, 0.5)};
    b.sigma = ANOMALY_MAD_SIGMA * anomaly_window_mad(w, b.centre);
    double least = 1e-9 + 1e-7 * fabs(level);
    b.sigma = b.sigma > least ? b.sigma : least;
    b.up = widened(x, &s->rules, &x->tail_up, s->rules.spike_tail,
                   anomaly_window_quantile(w, TAIL_QUANTILE) - b.centre, b.sigma);
    b.down = widened(x, &s->rules, &x->tail_down, DROP_TAIL * s->rules.spike_tail,
                     b.centre - anomaly_window_quantile(w, 1 - TAIL_QUANTILE), b.sigma);
    double floor = x->family == FAMILY_NORM ? log(s->rules.spike_ratio) : s->rules.spike_loss;
    b.up = b.up > floor ? b.up : floor;
    b.down = b.down > floor ? b.down : floor;
    return b;
}

static void tell_out(struct anomaly_set *s, struct anomaly_series *x,
                     const struct anomaly_sample *sample, const struct band *b, double level,
                     enum anomaly_kind kind)
{
    if (!fresh(x, kind, MERGE)) {
        return;
    }
    struct anomaly a = anomaly_at(x, sample, kind, SEVERITY_WARNING);
    /* A norm may be as small as it likes, and no loss that was never negative is expected to be. */
    double low = level + b->centre - b->down;
    a.low = x->family == FAMILY_NORM || (low < 0 && x->least >= 0) ? NAN : low;
    a.high = unscaled(x, level + b->centre + b->up);
    if (x->family == FAMILY_NORM) { /* the ratio that is a spike in any noise */
        a.high = fmin(a.high, unscaled(x, level + log(s->rules.spike_hard_ratio)));
    }
    anomaly_tell(s, &a);
}

/* True when the value is out of the band. */
static bool judge_spike(struct anomaly_set *s, struct anomaly_series *x,
                        const struct anomaly_sample *sample, const struct band *b, double level,
                        double distance)
{
    double off = distance - b->centre;
    bool hard = x->family == FAMILY_NORM && distance > log(s->rules.spike_hard_ratio);
    if (off > b->up || hard) {
        tell_out(s, x, sample, b, level, ANOMALY_SPIKE);
        return true;
    }
    if (-off > b->down && x->family == FAMILY_LOSS) {
        tell_out(s, x, sample, b, level, ANOMALY_DROP);
        return true;
    }
    return false;
}

/* ---- shifts ---- */

static double shift_floor(const struct anomaly_set *s, const struct anomaly_series *x)
{
    return x->family == FAMILY_LOSS   ? s->rules.shift_loss
           : x->family == FAMILY_NORM ? log(s->rules.shift_norm_ratio)
                                      : log(s->rules.shift_ratio);
}

/* What a shift means depends on the metric; SEVERITY_OK: nothing worth telling. */
static enum severity shift_severity(const struct anomaly_set *s, const struct anomaly_series *x,
                                    bool up, double mean)
{
    if (x->family == FAMILY_LOSS) {
        bool diverged = up && mean - x->lowest_level >= s->rules.diverged_loss;
        return diverged ? SEVERITY_ERROR : up ? SEVERITY_WARNING : SEVERITY_NOTE;
    }
    if (x->family == FAMILY_RATE) {
        return up ? SEVERITY_OK : SEVERITY_WARNING;
    }
    if (x->family == FAMILY_TIME && !(unscaled(x, mean) >= s->rules.time_seconds)) {
        return SEVERITY_OK;
    }
    return up ? SEVERITY_WARNING : SEVERITY_OK;
}

static void tell_shift(struct anomaly_set *s, struct anomaly_series *x,
                       const struct anomaly_sample *sample, bool up, double mean, double before)
{
    enum severity severity = shift_severity(s, x, up, mean);
    enum anomaly_kind kind = up ? ANOMALY_SHIFT_UP : ANOMALY_SHIFT_DOWN;
    x->up = 0;
    x->down = 0;
    x->quiet_until[ANOMALY_SHIFT_UP] = x->count + LEVEL_MIN;
    anomaly_window_clear(&x->level); /* the new level is learnt from here on */
    x->best_level = up ? mean : x->best_level;
    if (severity == SEVERITY_OK) {
        return;
    }
    struct anomaly a = anomaly_at(x, sample, kind, severity);
    a.value = unscaled(x, mean);
    a.low = unscaled(x, up ? before : before - shift_floor(s, x));
    a.high = unscaled(x, up ? before + shift_floor(s, x) : before);
    anomaly_tell(s, &a);
}

/* One side of the CUSUM: the sum of what exceeds the slack, back to zero when it is used up. */
struct side {
    double *sum, *total, *level;
    uint64_t *run;
};

/* Sums of correlated noise (running averages) wander further: by sqrt((1 + rho) / (1 - rho)), rho being
 * the correlation of neighbours over the last few hundred values. */
static double wander(struct anomaly_series *x, double z)
{
    x->z_product += (z * x->z_before - x->z_product) / WANDER_VALUES;
    x->z_square += (z * z - x->z_square) / WANDER_VALUES;
    x->z_before = z;
    double rho = x->z_square > 0 ? x->z_product / x->z_square : 0;
    rho = rho > 0 ? rho : 0;
    rho = rho < RHO_MAX ? rho : RHO_MAX;
    return sqrt((1 + rho) / (1 - rho));
}

static double limited(double z)
{
    return z > Z_LIMIT ? Z_LIMIT : z < -Z_LIMIT ? -Z_LIMIT : z;
}

static bool accumulate(const struct side *side, double excess, double limit, double scaled,
                       double level)
{
    if (*side->sum <= 0) {
        *side->total = 0;
        *side->run = 0;
        *side->level = level;
    }
    double sum = *side->sum + excess;
    *side->sum = sum > 0 ? sum : 0;
    *side->total += scaled;
    *side->run += 1;
    return *side->sum > limit;
}

static void judge_shift(struct anomaly_set *s, struct anomaly_series *x,
                        const struct anomaly_sample *sample, const struct band *b, double level,
                        double scaled, double *ret_wander)
{
    double z = limited((scaled - level - b->centre) / b->sigma);
    *ret_wander = wander(x, z);
    if (x->count < x->quiet_until[ANOMALY_SHIFT_UP]) {
        return;
    }
    /* While the series falls its values lie below the level, less and less so: that is no rise. */
    double up_z = limited((scaled - level - fmax(b->centre, 0)) / b->sigma);
    double down_z = limited((level + fmin(b->centre, 0) - scaled) / b->sigma);
    double limit = s->rules.shift_sigma * *ret_wander;
    const struct side up = {&x->up, &x->up_sum, &x->up_level, &x->up_run};
    const struct side down = {&x->down, &x->down_sum, &x->down_level, &x->down_run};
    double floor = shift_floor(s, x);
    if (accumulate(&up, up_z - s->rules.shift_slack, limit, scaled, level)) {
        double mean = x->up_sum / (double)x->up_run;
        if (mean - x->up_level >= floor) {
            tell_shift(s, x, sample, true, mean, x->up_level);
            return;
        }
        x->up = 0; /* a bias of small size: begin anew */
    }
    if (accumulate(&down, down_z - s->rules.shift_slack, limit, scaled, level)) {
        double mean = x->down_sum / (double)x->down_run;
        if (x->down_level + b->centre - mean >= floor) {
            tell_shift(s, x, sample, false, mean, x->down_level);
            return;
        }
        x->down = 0;
    }
}

/* A loss that creeps up, too slowly for a sum to notice. */
static void judge_drift(struct anomaly_set *s, struct anomaly_series *x,
                        const struct anomaly_sample *sample, const struct band *b, double level,
                        double wandering)
{
    if (x->family != FAMILY_LOSS || x->level.count < LEVEL_BEGIN) {
        return;
    }
    x->best_level = fmin(level, x->best_level);
    x->lowest_level = fmin(level, x->lowest_level);
    double needed = s->rules.drift_sigma * b->sigma * wandering;
    needed = needed > s->rules.shift_loss ? needed : s->rules.shift_loss;
    if (level - x->best_level >= needed && x->count >= x->quiet_until[ANOMALY_SHIFT_UP]) {
        tell_shift(s, x, sample, true, level, x->best_level);
    }
}

/* ---- values that do not move ---- */

static void judge_same(struct anomaly_set *s, struct anomaly_series *x,
                       const struct anomaly_sample *sample)
{
    bool same = x->finite > 1 && sample->value == x->last;
    x->pairs += x->finite > 1;
    x->same_pairs += same;
    x->same_run = same ? x->same_run + 1 : 0;
    x->zero_run = sample->value == 0 ? x->zero_run + 1 : 0;
    if (x->zero_run != 0) {
        if ((double)x->zero_run == ceil(s->rules.zero_run)) {
            struct anomaly a = anomaly_at(x, sample, ANOMALY_ZERO,
                                          x->family == FAMILY_NORM ? SEVERITY_ERROR
                                                                   : SEVERITY_WARNING);
            a.extra = (double)x->zero_run;
            anomaly_tell(s, &a);
        }
        return;
    }
    /* How often neighbours are equal by the coarseness of the numbers alone. */
    double before = (double)(x->same_pairs - x->same_run + 1);
    double chance = before / (double)(x->pairs - x->same_run + 20);
    chance = chance > 0.01 ? chance : 0.01;
    double odds = -(double)x->same_run * log(chance);
    double was = -((double)x->same_run - 1) * log(chance);
    if (same && odds >= s->rules.same_log_odds && was < s->rules.same_log_odds) {
        struct anomaly a = anomaly_at(x, sample, ANOMALY_SAME, SEVERITY_ERROR);
        a.extra = (double)x->same_run + 1;
        anomaly_tell(s, &a);
    }
}

static void judge_guessing(struct anomaly_set *s, struct anomaly_series *x,
                           const struct anomaly_sample *sample, double level)
{
    double guess = s->vocabulary > 1 ? log(s->vocabulary) : INFINITY;
    if (!x->guessing && level > s->rules.uniform_ratio * guess) {
        struct anomaly a = anomaly_at(x, sample, ANOMALY_GUESSING, SEVERITY_ERROR);
        a.value = level;
        a.high = guess;
        anomaly_tell(s, &a);
        x->guessing = true;
    }
}

static void judge_tail(struct anomaly_set *s, struct anomaly_series *x,
                       const struct anomaly_sample *sample)
{
    if (x->family != FAMILY_TIME || x->level.count < TAIL_MIN) {
        return;
    }
    double median = exp(anomaly_window_quantile(&x->level, 0.5));
    double high = exp(anomaly_window_quantile(&x->level, 0.95));
    double ratio = high / median;
    if (high >= s->rules.time_seconds && ratio > s->rules.tail_ratio &&
        fresh(x, ANOMALY_TAIL, TAIL_QUIET)) {
        struct anomaly a = anomaly_at(x, sample, ANOMALY_TAIL, SEVERITY_WARNING);
        a.value = high;
        a.high = median * s->rules.tail_ratio;
        a.extra = ratio;
        anomaly_tell(s, &a);
    }
}

/* ---- periods ---- */

/* The same period, give or take what a few repetitions leave open, or a multiple of it. */
static bool said_already(double said, double lag)
{
    double times = said > 0 ? fmax(round(lag / said), 1) : 0;
    return said > 0 && fabs(lag - times * said) <= times * (0.05 * said + 1);
}

/* Told again only when a better measure of the same period says what has its length. */
static void tell_period(struct anomaly_set *s, struct anomaly_series *x,
                        const struct anomaly_sample *sample, const struct period *p)
{
    struct anomaly a = anomaly_at(x, sample, ANOMALY_PERIOD, SEVERITY_WARNING);
    double stride = x->count > 1 && !x->counted && x->step > x->first_step
                        ? (double)(x->step - x->first_step) / (double)(x->count - 1)
                        : 1;
    a.value = p->strength;
    a.high = p->needed;
    a.extra = p->length * stride;
    const struct period_source *source = period_explain(s->sources, s->source_count, a.extra,
                                                        stride, &a.times, &a.of);
    a.source_name = source != NULL ? source->name : NULL;
    if (said_already(x->period_said, p->length) && (source == NULL || x->period_known)) {
        return;
    }
    x->period_said = p->length;
    x->period_known = source != NULL;
    anomaly_tell(s, &a);
}

void anomaly_series_period(struct anomaly_set *s, struct anomaly_series *x, bool at_end,
                           const struct anomaly_sample *sample)
{
    uint64_t n = x->kept_count < ANOMALY_PERIODS ? x->kept_count : ANOMALY_PERIODS;
    uint64_t fall = n < x->kept_count ? 0 : n / 4; /* a young series falls, which hides periods */
    n -= fall;
    uint64_t step = x->period_at / 4 < PERIOD_STEP ? x->period_at / 4 : PERIOD_STEP;
    bool due = x->kept_count >= PERIOD_FIRST && x->kept_count >= x->period_at + step;
    if (x->kept == NULL || n < PERIOD_VALUES_MIN ||
        (!due && !(at_end && x->kept_count > x->period_at))) {
        return;
    }
    x->period_at = x->kept_count;
    struct arena_mark mark = arena_mark(s->scratch);
    double *values = arena_array(s->scratch, n, sizeof *values);
    for (uint64_t i = 0; i < n; i++) {
        values[i] = x->kept[(x->kept_count - n + i) % ANOMALY_PERIODS];
    }
    struct period p;
    /* Of steps that short the scheduler's ticks are the longest period. */
    bool brief = x->family == FAMILY_TIME &&
                 !(unscaled(x, anomaly_window_quantile(&x->level, 0.5)) >= s->rules.time_seconds);
    if (!brief && period_find(s->scratch, values, n, s->rules.period_strength, &p)) {
        tell_period(s, x, sample, &p);
    }
    arena_rewind(s->scratch, mark);
}

static void keep_for_periods(struct anomaly_set *s, struct anomaly_series *x, double scaled)
{
    if (x->family != FAMILY_LOSS && x->family != FAMILY_NORM && x->family != FAMILY_TIME) {
        return;
    }
    if (x->kept == NULL) {
        x->kept = arena_array(s->arena, ANOMALY_PERIODS, sizeof *x->kept);
    }
    x->kept[x->kept_count++ % ANOMALY_PERIODS] = scaled;
}

void anomaly_series_restart(struct anomaly_series *x)
{
    anomaly_window_clear(&x->level);
    anomaly_window_clear(&x->spread);
    memset(x->quiet_until, 0, sizeof x->quiet_until);
    x->level_values = 0;
    x->up = 0;
    x->down = 0;
    x->best_level = NAN;
    x->lowest_level = NAN;
    x->same_run = 0;
    x->kept_count = 0;
    x->period_at = 0;
    x->period_said = 0;
    x->period_known = false;
}

/* ---- one value ---- */

static void judge_finite(struct anomaly_set *s, struct anomaly_series *x,
                         const struct anomaly_sample *sample, double scaled)
{
    bool flagged = false;
    if (x->level.count >= LEVEL_MIN) {
        double level = anomaly_window_quantile(&x->level, 0.5);
        double distance = scaled - level;
        if (x->spread.count >= ANOMALY_WARM_UP - LEVEL_MIN) {
            struct band b = band_of(s, x, level);
            if (x->family == FAMILY_LOSS || x->family == FAMILY_NORM) {
                flagged = judge_spike(s, x, sample, &b, level, distance);
            }
            double wandering;
            judge_shift(s, x, sample, &b, level, scaled, &wandering);
            judge_drift(s, x, sample, &b, level, wandering);
            judge_tail(s, x, sample);
            judge_guessing(s, x, sample, x->family == FAMILY_LOSS ? level : NAN);
        }
        x->flagged_run = flagged ? x->flagged_run + 1 : 0;
        if (!flagged || x->flagged_run > FLAGGED_KEPT) {
            anomaly_window_add(&x->spread, distance);
        }
    }
    size_t limit = LEVEL_BEGIN + x->level_values++ / 8;
    x->level.limit = limit < x->level.capacity ? limit : x->level.capacity;
    anomaly_window_add(&x->level, scaled);
}

static void judge_not_finite(struct anomaly_set *s, struct anomaly_series *x,
                             const struct anomaly_sample *sample)
{
    if (!fresh(x, ANOMALY_NOT_FINITE, MERGE)) {
        return;
    }
    /* A scaler of fp16 tries large scales on purpose: infinite norms of single steps are its way. */
    bool scaler = x->family == FAMILY_NORM && isinf(sample->value);
    bool other = x->family == FAMILY_PLAIN || scaler;
    struct anomaly a = anomaly_at(x, sample, ANOMALY_NOT_FINITE,
                                  other ? SEVERITY_WARNING : SEVERITY_ERROR);
    anomaly_tell(s, &a);
}

void anomaly_series_take(struct anomaly_set *s, struct anomaly_series *x,
                         const struct anomaly_sample *sample)
{
    double v = sample->value;
    if (!isfinite(v)) {
        judge_not_finite(s, x, sample);
        x->same_run = 0;
        return;
    }
    if (x->family == FAMILY_LOSS || x->family == FAMILY_NORM) {
        judge_same(s, x, sample);
    }
    if (x->family == FAMILY_PLAIN || (is_log(x) && !(v > 0))) {
        return;
    }
    double scaled = is_log(x) ? log(v) : v;
    if (x->family == FAMILY_MEMORY) {
        anomaly_window_add(&x->level, scaled);
        return;
    }
    judge_finite(s, x, sample, scaled);
    keep_for_periods(s, x, scaled);
    anomaly_series_period(s, x, false, sample);
}
