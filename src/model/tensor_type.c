// SPDX-License-Identifier: Apache-2.0
/* The table of element types. Block sizes of GGUF are those of ggml-common.h, QK_K = 256. */
#include "model/tensor_type.h"

#include "base/attr.h"

#define PLAIN(name_, dtype_, bytes, ggml_)                                                      \
 {                                                                                              \
  .name = name_, .per_block = 1, .block_bytes = bytes, .values = VALUES_PLAIN, .dtype = dtype_, \
  .ggml = ggml_, .safetensors = true                                                            \
 }
#define OPAQUE(name_, elements, bytes)                                                             \
 {                                                                                                 \
  .name = name_, .per_block = elements, .block_bytes = bytes, .values = VALUES_OPAQUE, .ggml = -1, \
  .safetensors = true                                                                              \
 }
#define PAIRS(name_, dtype_, bytes, safetensors_)                                               \
 {                                                                                              \
  .name = name_, .per_block = 1, .block_bytes = bytes, .values = VALUES_PAIRS, .dtype = dtype_, \
  .ggml = -1, .safetensors = safetensors_                                                       \
 }
#define SMALL(name_, elements, kind)                                                              \
 {                                                                                                \
  .name = name_, .per_block = elements, .block_bytes = 1, .values = VALUES_BLOCKS, .small = kind, \
  .ggml = -1, .safetensors = true                                                                 \
 }
#define BLOCKS(name_, elements, bytes, ggml_)                                          \
 {                                                                                     \
  .name = name_, .per_block = elements, .block_bytes = bytes, .values = VALUES_BLOCKS, \
  .ggml = ggml_                                                                        \
 }

static const struct tensor_type types[] = {
    PLAIN("F64", DTYPE_F64, 8, 28),
    PLAIN("F32", DTYPE_F32, 4, 0),
    PLAIN("F16", DTYPE_F16, 2, 1),
    PLAIN("BF16", DTYPE_BF16, 2, 30),
    PLAIN("F8_E4M3", DTYPE_F8_E4M3FN, 1, -1),
    PLAIN("F8_E5M2", DTYPE_F8_E5M2, 1, -1),
    PLAIN("F8_E4M3FNUZ", DTYPE_F8_E4M3FNUZ, 1, -1),
    PLAIN("F8_E5M2FNUZ", DTYPE_F8_E5M2FNUZ, 1, -1),
    PLAIN("I64", DTYPE_I64, 8, 27),
    PLAIN("I32", DTYPE_I32, 4, 26),
    PLAIN("I16", DTYPE_I16, 2, 25),
    PLAIN("I8", DTYPE_I8, 1, 24),
    PLAIN("U64", DTYPE_U64, 8, -1),
    PLAIN("U32", DTYPE_U32, 4, -1),
    PLAIN("U16", DTYPE_U16, 2, -1),
    PLAIN("U8", DTYPE_U8, 1, -1),
    PLAIN("BOOL", DTYPE_BOOL, 1, -1),
    PAIRS("C64", DTYPE_F32, 8, true),
    PAIRS("C128", DTYPE_F64, 16, false),
    SMALL("F8_E8M0", 1, TENSOR_SMALL_E8M0),
    OPAQUE("F6_E2M3", 4, 3),
    OPAQUE("F6_E3M2", 4, 3),
    SMALL("F4", 2, TENSOR_SMALL_E2M1),
    /* torch counts pairs of F4 as elements; all that is known of one is whether it is zero */
    {.name = "F4_X2",
     .per_block = 1,
     .block_bytes = 1,
     .values = VALUES_PLAIN,
     .dtype = DTYPE_U8,
     .ggml = -1},
    BLOCKS("Q4_0", 32, 18, 2),
    BLOCKS("Q4_1", 32, 20, 3),
    BLOCKS("Q5_0", 32, 22, 6),
    BLOCKS("Q5_1", 32, 24, 7),
    BLOCKS("Q8_0", 32, 34, 8),
    BLOCKS("Q8_1", 32, 36, 9),
    BLOCKS("Q2_K", 256, 84, 10),
    BLOCKS("Q3_K", 256, 110, 11),
    BLOCKS("Q4_K", 256, 144, 12),
    BLOCKS("Q5_K", 256, 176, 13),
    BLOCKS("Q6_K", 256, 210, 14),
    BLOCKS("Q8_K", 256, 292, 15),
    BLOCKS("IQ2_XXS", 256, 66, 16),
    BLOCKS("IQ2_XS", 256, 74, 17),
    BLOCKS("IQ3_XXS", 256, 98, 18),
    BLOCKS("IQ1_S", 256, 50, 19),
    BLOCKS("IQ4_NL", 32, 18, 20),
    BLOCKS("IQ3_S", 256, 110, 21),
    BLOCKS("IQ2_S", 256, 82, 22),
    BLOCKS("IQ4_XS", 256, 136, 23),
    BLOCKS("IQ1_M", 256, 56, 29),
    BLOCKS("TQ1_0", 256, 54, 34),
    BLOCKS("TQ2_0", 256, 66, 35),
    BLOCKS("MXFP4", 32, 17, 39),
    BLOCKS("NVFP4", 64, 36, 40),
    BLOCKS("Q1_0", 128, 18, 41),
};

const struct tensor_type *tensor_type_safetensors(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].safetensors && str_is(name, types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

const struct tensor_type *tensor_type_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_is(str_of(name), types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

const struct tensor_type *tensor_type_ggml(uint32_t number)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].ggml >= 0 && (uint32_t)types[i].ggml == number) {
            return &types[i];
        }
    }
    return NULL;
}

const struct tensor_type *tensor_type_plain(enum dtype t)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].values == VALUES_PLAIN && types[i].dtype == t) {
            return &types[i];
        }
    }
    return NULL;
}

const struct tensor_type *tensor_type_at(size_t index)
{
    return index < ARRAY_LEN(types) ? &types[index] : NULL;
}

bool tensor_type_bytes(const struct tensor_type *t, uint64_t elements, uint64_t *ret_bytes)
{
    if (elements % t->per_block != 0) {
        return false;
    }
    return !__builtin_mul_overflow(elements / t->per_block, (uint64_t)t->block_bytes, ret_bytes);
}
