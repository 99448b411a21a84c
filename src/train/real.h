// SPDX-License-Identifier: Apache-2.0
/*
 * The number format of the arithmetic. Every file of `train_math` (meson.build) is compiled twice:
 * with TRAIN_DOUBLE `real` is double and the reference needs no BLAS, no vector code and no luck;
 * without it `real` is float. A name that leaves such a file is written T(name): name_f64 or name_f32.
 *
 * bfloat16 is float arithmetic whose results are rounded where the real stacks round them: a value
 * that a framework would store in bfloat16 passes through T(round_store). Nothing else rounds.
 */
#ifndef ASSAY_TRAIN_REAL_H
#define ASSAY_TRAIN_REAL_H

#ifdef TRAIN_DOUBLE
typedef double real;
# define T(name) name##_f64
#else
typedef float real;
# define T(name) name##_f32
#endif

enum precision {
    PRECISION_F64 = 0,
    PRECISION_F32,
    PRECISION_BF16, /* float32 arithmetic, bfloat16 wherever a tensor would be stored */
    PRECISION_COUNT
};

#endif
