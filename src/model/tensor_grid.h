// SPDX-License-Identifier: Apache-2.0
/*
 * GGUF's block types whose values come out of codebooks (IQ), are ternary (TQ) or four-bit floats (MXFP4, NVFP4):
 * for tensor_block.c alone. One function a type: a block at `p` to its values, as in tensor_block.h.
 *
 * An entry of a codebook is eight magnitudes of two bits, or for the IQ3 types four of four bits, lowest first;
 * each stands for one of a few magnitudes (tensor_iq.c).
 *
 * Source: ggml/src/ggml-common.h, ggml/src/ggml-quants.c (dequantize_row_*); gguf-py/gguf/quants.py.
 */
#ifndef ASSAY_MODEL_TENSOR_GRID_H
#define ASSAY_MODEL_TENSOR_GRID_H

#include <stdint.h>

extern const uint16_t tensor_grid_iq2_xxs[256];
extern const uint16_t tensor_grid_iq2_xs[512];
extern const uint16_t tensor_grid_iq2_s[1024];
extern const uint16_t tensor_grid_iq3_xxs[256];
extern const uint16_t tensor_grid_iq3_s[512];
extern const uint16_t tensor_grid_iq1[2048];

void tensor_iq1_s(const unsigned char *p, float *ret);
void tensor_iq1_m(const unsigned char *p, float *ret);
void tensor_iq2_xxs(const unsigned char *p, float *ret);
void tensor_iq2_xs(const unsigned char *p, float *ret);
void tensor_iq2_s(const unsigned char *p, float *ret);
void tensor_iq3_xxs(const unsigned char *p, float *ret);
void tensor_iq3_s(const unsigned char *p, float *ret);
void tensor_iq4_nl(const unsigned char *p, float *ret);
void tensor_iq4_xs(const unsigned char *p, float *ret);
void tensor_tq1_0(const unsigned char *p, float *ret);
void tensor_tq2_0(const unsigned char *p, float *ret);
void tensor_mxfp4(const unsigned char *p, float *ret);
void tensor_nvfp4(const unsigned char *p, float *ret);

#endif
