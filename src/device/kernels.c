// SPDX-License-Identifier: Apache-2.0
/*
 * Kernel texts. PTX is for the oldest architecture that trains today, so that every driver can
 * translate it; the driver needs no toolkit for that.
 */
#include "device/kernels.h"

#include <string.h>

static void copy_one(size_t item, const union kernel_argument *arguments)
{
    enum {
        ELEMENT_BYTES = 4
    };

    const char *from = arguments[0].pointer;
    char *to = arguments[2].pointer;
    if (item == 0) {
        /* Integer arithmetic on purpose: the address may lie outside of the object. */
        uintptr_t source = (uintptr_t)from + (uintptr_t)(arguments[1].i64 * ELEMENT_BYTES);
        uintptr_t target = (uintptr_t)to + (uintptr_t)(arguments[3].i64 * ELEMENT_BYTES);
        *(volatile uint32_t *)target = *(const volatile uint32_t *)source;
    }
}

static void nothing(size_t item, const union kernel_argument *arguments)
{
    (void)item;
    (void)arguments;
}

static const char copy_one_ptx[] = ".version 6.4\n"
                                   ".target sm_70\n"
                                   ".address_size 64\n"
                                   ".visible .entry assay_copy_one(\n"
                                   "  .param .u64 from, .param .s64 read_index,\n"
                                   "  .param .u64 to, .param .s64 write_index)\n"
                                   "{\n"
                                   "  .reg .u32 %v;\n"
                                   "  .reg .pred %p;\n"
                                   "  .reg .u32 %t, %b;\n"
                                   "  .reg .u64 %f, %o;\n"
                                   "  .reg .s64 %r, %w;\n"
                                   "  mov.u32 %t, %tid.x;\n"
                                   "  mov.u32 %b, %ctaid.x;\n"
                                   "  or.b32 %t, %t, %b;\n"
                                   "  setp.ne.u32 %p, %t, 0;\n"
                                   "  @%p bra DONE;\n"
                                   "  ld.param.u64 %f, [from];\n"
                                   "  ld.param.s64 %r, [read_index];\n"
                                   "  ld.param.u64 %o, [to];\n"
                                   "  ld.param.s64 %w, [write_index];\n"
                                   "  shl.b64 %r, %r, 2;\n"
                                   "  add.s64 %f, %f, %r;\n"
                                   "  shl.b64 %w, %w, 2;\n"
                                   "  add.s64 %o, %o, %w;\n"
                                   "  ld.volatile.global.u32 %v, [%f];\n"
                                   "  st.volatile.global.u32 [%o], %v;\n"
                                   "DONE:\n"
                                   "  ret;\n"
                                   "}\n";

static const char copy_one_hip[] =
    "extern \"C\" __global__ void assay_copy_one(const unsigned *from, long long read_index,\n"
    "                                          unsigned *to, long long write_index)\n"
    "{\n"
    "    if (threadIdx.x == 0 && blockIdx.x == 0) {\n"
    "        ((volatile unsigned *)to)[write_index] =\n"
    "            ((const volatile unsigned *)from)[read_index];\n"
    "    }\n"
    "}\n";

static const char copy_one_opencl[] =
    "__kernel void assay_copy_one(__global const uint *from, long read_index,\n"
    "                             __global uint *to, long write_index)\n"
    "{\n"
    "    if (get_global_id(0) == 0) {\n"
    "        ((volatile __global uint *)to)[write_index] =\n"
    "            ((const volatile __global uint *)from)[read_index];\n"
    "    }\n"
    "}\n";

const struct kernel_text kernel_copy_one = {
    .name = "assay_copy_one",
    .ptx = copy_one_ptx,
    .hip = copy_one_hip,
    .opencl = copy_one_opencl,
    .cpu = copy_one,
};

static void touch(size_t item, const union kernel_argument *arguments)
{
    enum {
        MARK = 90
    };

    if (item != 0) {
        return;
    }
    uintptr_t at = (uintptr_t)arguments[0].pointer + (uintptr_t)arguments[1].i64;
    uint32_t seen = 0;
    for (int64_t i = 0; i < arguments[2].i64; i++, at++) {
        if (arguments[3].i32 != 0) {
            *(volatile uint8_t *)at = MARK;
        } else {
            seen ^= *(const volatile uint8_t *)at;
        }
    }
    memcpy(arguments[4].pointer, &seen, sizeof seen);
}

static const char touch_ptx[] = ".version 6.4\n"
                                ".target sm_70\n"
                                ".address_size 64\n"
                                ".visible .entry assay_touch(\n"
                                "  .param .u64 base, .param .s64 first, .param .s64 count,\n"
                                "  .param .s32 write, .param .u64 sink)\n"
                                "{\n"
                                "  .reg .u64 %a, %s;\n"
                                "  .reg .s64 %f, %n;\n"
                                "  .reg .s32 %w;\n"
                                "  .reg .u32 %t, %v, %x;\n"
                                "  .reg .u16 %h;\n"
                                "  .reg .pred %p, %q;\n"
                                "  mov.u32 %t, %tid.x;\n"
                                "  mov.u32 %v, %ctaid.x;\n"
                                "  or.b32 %t, %t, %v;\n"
                                "  setp.ne.u32 %p, %t, 0;\n"
                                "  @%p bra DONE;\n"
                                "  ld.param.u64 %a, [base];\n"
                                "  ld.param.s64 %f, [first];\n"
                                "  ld.param.s64 %n, [count];\n"
                                "  ld.param.s32 %w, [write];\n"
                                "  ld.param.u64 %s, [sink];\n"
                                "  add.s64 %a, %a, %f;\n"
                                "  mov.u32 %x, 0;\n"
                                "  setp.ne.s32 %q, %w, 0;\n"
                                "  mov.u16 %h, 90;\n"
                                "LOOP:\n"
                                "  setp.le.s64 %p, %n, 0;\n"
                                "  @%p bra STORE;\n"
                                "  @%q bra WRITE;\n"
                                "  ld.volatile.global.u8 %v, [%a];\n"
                                "  xor.b32 %x, %x, %v;\n"
                                "  bra NEXT;\n"
                                "WRITE:\n"
                                "  st.volatile.global.u8 [%a], %h;\n"
                                "NEXT:\n"
                                "  add.s64 %a, %a, 1;\n"
                                "  sub.s64 %n, %n, 1;\n"
                                "  bra LOOP;\n"
                                "STORE:\n"
                                "  st.volatile.global.u32 [%s], %x;\n"
                                "DONE:\n"
                                "  ret;\n"
                                "}\n";

static const char touch_hip[] =
    "extern \"C\" __global__ void assay_touch(unsigned char *base, long long first, long long count,\n"
    "                                       int write, unsigned *sink)\n"
    "{\n"
    "    if (threadIdx.x != 0 || blockIdx.x != 0) {\n"
    "        return;\n"
    "    }\n"
    "    volatile unsigned char *p = base + first;\n"
    "    unsigned seen = 0;\n"
    "    for (long long i = 0; i < count; i++) {\n"
    "        if (write) {\n"
    "            p[i] = 90;\n"
    "        } else {\n"
    "            seen ^= p[i];\n"
    "        }\n"
    "    }\n"
    "    *(volatile unsigned *)sink = seen;\n"
    "}\n";

static const char touch_opencl[] =
    "__kernel void assay_touch(__global uchar *base, long first, long count, int write,\n"
    "                          __global uint *sink)\n"
    "{\n"
    "    if (get_global_id(0) != 0) {\n"
    "        return;\n"
    "    }\n"
    "    volatile __global uchar *p = base + first;\n"
    "    uint seen = 0;\n"
    "    for (long i = 0; i < count; i++) {\n"
    "        if (write) {\n"
    "            p[i] = 90;\n"
    "        } else {\n"
    "            seen ^= p[i];\n"
    "        }\n"
    "    }\n"
    "    *(volatile __global uint *)sink = seen;\n"
    "}\n";

const struct kernel_text kernel_touch = {
    .name = "assay_touch",
    .ptx = touch_ptx,
    .hip = touch_hip,
    .opencl = touch_opencl,
    .cpu = touch,
};

const struct kernel_text kernel_nothing = {
    .name = "assay_nothing",
    .ptx = ".version 6.4\n.target sm_70\n.address_size 64\n"
           ".visible .entry assay_nothing()\n{\n  ret;\n}\n",
    .hip = "extern \"C\" __global__ void assay_nothing()\n{\n}\n",
    .opencl = "__kernel void assay_nothing()\n{\n}\n",
    .cpu = nothing,
};
