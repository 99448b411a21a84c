// SPDX-License-Identifier: Apache-2.0
/*
 * One body, compiled for three instruction sets and four ways of storing. It is built without FMA
 * contraction, so that vectors change the time and not the bits, and without errno of sqrt(), which
 * would keep the compiler from using vectors at all.
 */
#include "train/adamw.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    CHUNK = 256, /* elements whose results are looked at together; a multiple of LANES */
    LANES = 8
};

/* What became of a chunk. */
struct moves {
    double now[CHUNK];   /* the weights as stored */
    double moved[CHUNK]; /* minus what they were */
    double step[CHUNK];  /* what they should have moved by, with its sign turned */
};

struct sums {
    double weight_sq[LANES];
    double change_sq[LANES];
    uint64_t changed, stagnated;
};

/* Nearest bfloat16, ties to even, NaN kept. */
INLINE float to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x00400000u : rounded;
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE double load(const void *p, size_t i, const enum adamw_storage how)
{
    return how == ADAMW_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* Stores with one rounding and gives back what is there now. */
INLINE double store(void *p, size_t i, double x, const enum adamw_storage how)
{
    if (how == ADAMW_F64) {
        ((double *)p)[i] = x;
        return x;
    }
    float f = how == ADAMW_PURE ? to_bf16((float)x) : (float)x;
    ((float *)p)[i] = f;
    return (double)f;
}

/* n elements from `first` on. No call, no branch, no sum: all of it is vectorised. */
INLINE void move(const struct adamw_rates *r, const struct adamw_part *p, size_t first, size_t n,
                 struct moves *ret, const enum adamw_storage how)
{
    const size_t size = how == ADAMW_F64 ? sizeof(double) : sizeof(float);
    const void *restrict grad = (const char *)p->grad + first * size;
    void *restrict m_at = (char *)p->m + first * size;
    void *restrict v_at = (char *)p->v + first * size;
    void *restrict value = (char *)p->value + first * size;
    void *restrict master = how == ADAMW_MASTER ? (char *)p->master + first * size : NULL;
    struct moves *restrict out = ret;
    const struct adamw_rates c = *r;
    const double rest1 = 1 - c.beta1;
    const double rest2 = 1 - c.beta2;
    for (size_t i = 0; i < n; i++) {
        double g = load(grad, i, how) * c.scale;
        double m = store(m_at, i, load(m_at, i, how) * c.beta1 + rest1 * g, how);
        double v = store(v_at, i, load(v_at, i, how) * c.beta2 + rest2 * g * g, how);
        double before = load(value, i, how);
        double w = how == ADAMW_MASTER ? load(master, i, how) : before;
        double pull = c.rate * m / (sqrt(v) / c.root2 + c.eps);
        double decay = c.decay * w;
        /* A choice and not a factor of 0: an infinite moment times a rate of 0 would be NaN. */
        double after = c.still ? w : w - decay - pull;
        double now;
        if (how == ADAMW_MASTER) {
            float stored = to_bf16((float)store(master, i, after, how));
            ((float *)value)[i] = stored;
            now = (double)stored;
        } else {
            now = store(value, i, after, how);
        }
        out->now[i] = now;
        out->moved[i] = now - before;
        out->step[i] = c.still ? 0 : pull + decay;
    }
}

INLINE void count(const struct moves *moves, size_t n, struct sums *s)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            s->weight_sq[j] += moves->now[i + j] * moves->now[i + j];
            s->change_sq[j] += moves->moved[i + j] * moves->moved[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        s->weight_sq[j] += moves->now[i] * moves->now[i];
        s->change_sq[j] += moves->moved[i] * moves->moved[i];
    }
    uint64_t changed = 0;
    uint64_t stagnated = 0;
    for (i = 0; i < n; i++) {
        changed += moves->moved[i] != 0;
        stagnated += (moves->moved[i] == 0) & (moves->step[i] != 0);
    }
    s->changed += changed;
    s->stagnated += stagnated;
}

INLINE double pairwise(const double *s)
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

INLINE void update(const struct adamw_rates *r, const struct adamw_part *p,
                   struct optim_change *ret_change, const enum adamw_storage how)
{
    struct moves moves;
    struct sums s = {0};
    for (size_t first = 0; first < p->count; first += CHUNK) {
        size_t left = p->count - first;
        if (left >= CHUNK) {
            move(r, p, first, CHUNK, &moves, how);
            count(&moves, CHUNK, &s);
        } else {
            move(r, p, first, left, &moves, how);
            count(&moves, left, &s);
        }
    }
    *ret_change = (struct optim_change){.weight_sq = pairwise(s.weight_sq),
                                        .change_sq = pairwise(s.change_sq),
                                        .changed = s.changed,
                                        .stagnated = s.stagnated};
}

#define UPDATE(suffix, attributes, how)                                                    \
 attributes static void update_##suffix##_##how(                                           \
     const struct adamw_rates *r, const struct adamw_part *p, struct optim_change *change) \
 {                                                                                         \
  update(r, p, change, how);                                                               \
 }

#define KERNEL(suffix, attributes)                                                              \
 UPDATE(suffix, attributes, ADAMW_F64)                                                          \
 UPDATE(suffix, attributes, ADAMW_F32)                                                          \
 UPDATE(suffix, attributes, ADAMW_MASTER)                                                       \
 UPDATE(suffix, attributes, ADAMW_PURE)                                                         \
 static const struct adamw_kernel kernel_##suffix = {                                           \
     #suffix,                                                                                   \
     {update_##suffix##_ADAMW_F64, update_##suffix##_ADAMW_F32, update_##suffix##_ADAMW_MASTER, \
      update_##suffix##_ADAMW_PURE}};

KERNEL(baseline, )

#ifdef __x86_64__
# define AVX2 __attribute__((target("avx2")))
# ifdef __clang__ /* does not know the width, and ignores all of an attribute that it does not know */
#  define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
# else
#  define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
# endif

KERNEL(avx2, AVX2)
KERNEL(avx512, AVX512)
#endif

const struct adamw_kernel *adamw_kernel_at(size_t index)
{
    const struct adamw_kernel *usable[3] = {0};
    size_t n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        usable[n++] = &kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        usable[n++] = &kernel_avx2;
    }
#endif
    usable[n++] = &kernel_baseline;
    return index < n ? usable[index] : NULL;
}
