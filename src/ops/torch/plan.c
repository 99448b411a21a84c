// SPDX-License-Identifier: Apache-2.0
/* The plan as data. Each odd size stands beside a neighbour that fills its tile. */
#include "ops/torch/plan.h"

#include <string.h>

const struct torch_plan_row torch_plan[] = {
    {"gemm", "m=1 n=1 k=1", NULL, false},
    {"gemm", "m=16 n=16 k=64", NULL, false},
    {"gemm", "m=17 n=15 k=63", NULL, false},
    {"gemm", "m=33 n=65 k=129 values=one_sign", NULL, false},
    {"gemm", "m=5 n=7 k=1024", NULL, false},
    {"gemm", "m=31 n=8 k=300 values=grid", NULL, false},
    {"gemm", "batch=3 m=9 n=17 k=31", NULL, false},
    {"gemm", "m=17 n=16 k=65 alpha=0.5 beta=2 bias=true activation=gelu_tanh", NULL, false},
    {"gemm", "m=128 n=128 k=1023 values=cancel", NULL, true},
    {"gemm", "m=256 n=255 k=512", NULL, true},
    {"linear", "rows=1 n=64 k=64", NULL, false},
    {"linear", "rows=63 n=65 k=127", NULL, false},
    {"linear", "rows=17 n=8 k=1024 bias=false", NULL, false}, /* LoRA A: rank 8 */
    {"linear", "rows=17 n=1024 k=4 bias=false", NULL, false}, /* LoRA B: rank 4 */
    {"linear", "rows=129 n=16 k=512 bias=false", NULL, false},
    {"linear", "rows=33 n=100 k=200 values=grid", NULL, false},
    {"linear", "rows=255 n=256 k=1024 bias=false", NULL, true},
    {"rms_norm", "rows=7 d=64", NULL, false},
    {"rms_norm", "rows=3 d=1023 convention=zero_centred", NULL, false},
    {"rms_norm", "rows=5 d=1025 convention=cast_first", NULL, false},
    {"rms_norm", "rows=33 d=4096", NULL, true},
    {"layer_norm", "rows=7 d=64", NULL, false},
    {"layer_norm", "rows=5 d=1023", NULL, false},
    {"layer_norm", "rows=33 d=1153", NULL, true},
    {"softmax", "rows=5 n=64", NULL, false},
    {"softmax", "rows=3 n=1027", NULL, false},
    {"softmax", "rows=17 n=33 values=huge", NULL, false},
    {"cross_entropy", "rows=9 vocab=64", NULL, false},
    {"cross_entropy", "rows=17 vocab=1027 ignored=5", NULL, false},
    {"cross_entropy", "rows=8 vocab=33 reduction=sum", NULL, false},
    {"cross_entropy", "rows=33 vocab=32000 ignored=3", NULL, true},
    {"rope", "time=17 heads=3 dim=64", NULL, false},
    {"rope", "time=33 heads=2 dim=128 rotary=32 offset=4097", NULL, false},
    {"rope", "time=9 heads=2 dim=64 layout=interleaved", NULL, false},
    {"swiglu", "rows=3 d=1023", NULL, false},
    {"swiglu", "rows=17 d=64", NULL, false},
    {"attention", "queries=17 keys=17 causal=true", NULL, false},
    {"attention", "heads=4 kv_heads=2 queries=33 keys=65", NULL, false},
    {"attention", "heads=4 kv_heads=1 queries=63 keys=63 causal=true dim=72 dim_v=72", NULL, false},
    {"attention", "queries=16 keys=31 mask_add=true", NULL, false},
    /* 64 of 128 keys in the last tile, rows whose log-sum-exp is below -ln(FLT_MAX): cuDNN's backward
     * pass gave NaN there (https://github.com/pytorch/pytorch/issues/196678). */
    {"attention", "queries=64 keys=64 mask_add=true mask_shift=-120", NULL, false},
    {"attention", "batch=2 queries=17 keys=17 mask_bool=true", NULL, false},
    {"attention", "queries=17 keys=17 mask_bool=true empty_rows=3", "empty", false},
    {"attention", "heads=8 kv_heads=2 queries=257 keys=257 causal=true dim=128 dim_v=128", NULL,
     true},
    {"conv3d", "", NULL, false},
    {"conv3d",
     "batch=2 cin=5 cout=7 depth=5 height=9 width=11 kernel_d=3 kernel_h=3 kernel_w=3 "
     "stride_d=1 stride_h=2 stride_w=1 pad_d=1 pad_h=1 pad_w=1",
     NULL, false},
    {"conv3d",
     "batch=3 cin=3 cout=33 depth=2 height=16 width=16 kernel_h=16 kernel_w=16 stride_h=16 "
     "stride_w=16 bias=false",
     NULL, false},
    {"patch_embed", "", NULL, false},
    {"patch_embed", "patches=33 hidden=65 patch=7", NULL, false},
    {"patch_embed", "patches=65 hidden=128 patch=14", NULL, true},
    {"causal_conv1d", "time=1 channels=8", NULL, false},
    {"causal_conv1d", "time=65 channels=33", NULL, false},
    {"causal_conv1d", "batch=2 time=129 channels=16 bias=true activation=none", NULL, false},
    {"gated_delta_rule", "time=1", NULL, false},
    {"gated_delta_rule", "time=63 l2norm=true", NULL, false},
    {"gated_delta_rule", "time=64 heads=1 v_heads=2 l2norm=true", NULL, false},
    {"gated_delta_rule", "time=65 gate=model l2norm=true", NULL, false},
    {"gated_delta_rule", "time=129 initial=false l2norm=true", NULL, false},
    {"gated_delta_rule", "time=3700 l2norm=true", NULL, true},
    {"embedding", "", NULL, false},
    {"embedding", "vocab=101 d=33 rows=65 padding_idx=3", NULL, false},
    {"embedding", "vocab=1000 d=64 rows=257", NULL, false},
    {"interpolate", "", NULL, false},
    {"interpolate", "channels=3 height=7 width=9 out_height=5 out_width=13 align_corners=true",
     NULL, false},
    {"interpolate", "mode=nearest height=6 width=6 out_height=9 out_width=4", NULL, false},
    {"scatter_reduce", "", NULL, false},
    {"scatter_reduce", "reduce=mean include_self=false", NULL, false},
    {"scatter_reduce", "reduce=amax rows=5 cols=33 n=40", NULL, false},
    {"adamw", "", NULL, false},
    {"adamw", "n=1027 step=1000", NULL, false},
    {"clip_grad_norm", "", NULL, false},
    {"clip_grad_norm", "n0=1025 n1=7 max_norm=0.1", NULL, false},
    {NULL, NULL, NULL, false},
};

bool torch_plan_has(const char *op)
{
    for (const struct torch_plan_row *r = torch_plan; r->op != NULL; r++) {
        if (strcmp(r->op, op) == 0) {
            return true;
        }
    }
    return false;
}

enum status torch_plan_case(struct arena *a, const struct torch_plan_row *row, enum dtype dtype,
                            uint64_t seed, struct op_case *ret_case, struct err *err)
{
    const char *text = arena_fmt(a, "%s %s seed=%llu %s", row->op, dtype_info(dtype)->name,
                                 (unsigned long long)seed, row->params);
    return op_case_parse(str_of(text), ret_case, err);
}
