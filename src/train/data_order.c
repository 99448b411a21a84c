// SPDX-License-Identifier: Apache-2.0
/* torch.randperm on the CPU. */
#include "train/data_order.h"

enum {
    WORDS = 624,
    MIDDLE = 397
};

struct twister {
    uint32_t word[WORDS];
    size_t at;
};

static void seed_twister(struct twister *t, uint32_t seed)
{
    t->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        t->word[i] = 1812433253u * (t->word[i - 1] ^ (t->word[i - 1] >> 30)) + i;
    }
    t->at = WORDS;
}

static void refill(struct twister *t)
{
    for (size_t i = 0; i < WORDS; i++) {
        uint32_t y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % WORDS] & 0x7fffffffu);
        t->word[i] = t->word[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
}

static uint32_t draw(struct twister *t)
{
    if (t->at == WORDS) {
        refill(t);
    }
    uint32_t y = t->word[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void data_order(uint64_t seed, uint32_t *order, size_t count)
{
    struct twister t;
    seed_twister(&t, (uint32_t)seed);
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        size_t j = i + draw(&t) % (uint32_t)(count - i);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
