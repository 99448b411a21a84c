// SPDX-License-Identifier: Apache-2.0
/*
 * The order of samples in an epoch: torch.randperm(n) of a CPU generator seeded with seed + epoch, which
 * is what transformers' Trainer does through accelerate's SeedableRandomSampler. The same seed gives the
 * same order in both.
 *
 * Source: ATen/native/TensorFactories.cpp (randperm_cpu), the Mersenne twister mt19937 seeded with one
 * 32-bit word; Matsumoto and Nishimura 1998.
 */
#ifndef ASSAY_TRAIN_DATA_ORDER_H
#define ASSAY_TRAIN_DATA_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum {
    DATA_ORDER_MAX = 214748363 /* samples: beyond it torch draws 64 bits a sample */
};

/* Fills order[count] with a permutation of 0 .. count - 1; count is at most DATA_ORDER_MAX. */
void data_order(uint64_t seed, uint32_t *order, size_t count);

#endif
