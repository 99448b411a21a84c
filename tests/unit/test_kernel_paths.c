// SPDX-License-Identifier: Apache-2.0
/* Names of kernels as profilers and drivers tell them, and the way that each stands for. */
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

#include "knowledge/kernel_paths.h"
#include "unit.h"

static struct arena *arena;
static struct kernel_paths paths;

static int start(void **state)
{
    (void)state;
    struct err err;
    arena = arena_new(0);
    return kernel_paths_read(arena, kernel_paths_builtin(), "kernels.tsv", &paths, &err) == ST_OK
               ? 0
               : -1;
}

static int stop(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static const struct {
    const char *kernel, *feature, *path;
} rows[] = {
    /* PyTorch 2.11 on CUDA */
    {"_ZN5cudnn6fusion16fmha_reduce_headILb1EEEvPKvPvjjj", "attention", "cuDNN"},
    {"_Z25implicit_convolveNd_sgemmI13__nv_bfloat16Li3ELi1024ELi5ELi5ELi3ELi3ELi3ELi1ELb0ELb0ELb1EE",
     "convolution in 3D", "cuDNN or MIOpen"},
    {"_Z25implicit_convolveNd_sgemmI13__nv_bfloat16Li2ELi1024ELi5ELi5ELi3ELi3ELi3ELi1ELb0ELb0ELb1EE",
     "convolution", "cuDNN, implicit"},
    {"_ZN17cutlass__5x_cudnn6KernelI72cutlass_tensorop_bf16_s16816dgrad_optimized", "convolution",
     "cuDNN, implicit"},
    {"_ZN5cudnn3cnn29dgrad2d_grouped_direct_kernelI13__nv_bfloat16iffLb0E", "short convolution",
     "fall-back, or another layer in groups"},
    {"_ZN5cudnn19engines_precompiled16nchwToNhwcKernelI13__nv_bfloat16S2_fLb0E",
     "pointwise and sums", "cuDNN, from one layout"},
    {"_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4E",
     "attention", "FlashAttention of PyTorch"},
    {"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>",
     "attention", "FlashAttention of PyTorch"},
    {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)",
     "attention", "memory-efficient"},
    {"fmha_cutlassB_bf16_aligned_128x128_k128_sm80", "attention", "memory-efficient"},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
     "attention", "cuDNN"},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x",
     "attention", "cuDNN"},
    {"_Z16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi128ELi4E", "attention",
     "FlashAttention (package"},
    {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>",
     "attention", "FlashAttention 3"},
    {"triton_tem_fused_flex_attention_0", "attention", "FlexAttention"},
    {"triton_poi_fused__scaled_dot_product_flash_attention_add_mul_permute_3", "compiled",
     "TorchInductor"},
    {"_ZN2at6native12_GLOBAL__N_119cunn_SoftMaxForwardILi8EN3c108BFloat16EffNS1_22LogSoftMaxForwardEpilogueEEE",
     "softmax", "PyTorch"},
    {"nvjet_tst_128x96_64x7_4x1_v_bz_bias_TNT", "products", "cuBLAS"},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute",
     "products", "cuBLAS"},
    {"void cublasLt::splitKreduce_kernel<32, 16, int, float>", "products", "cuBLAS"},
    {"_ZN7cutlass7Kernel2I66cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8EEv",
     "products", "CUTLASS"},
    {"void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdam>",
     "optimizer", "fused"},
    {"void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<>>",
     "optimizer", "one kernel for many"},
    {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collectives",
     "NCCL"},
    /* ROCm */
    {"attn_fwd", "attention", "AOTriton"},
    {"bwd_kernel_dk_dv", "attention", "AOTriton"},
    {"void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<>>>",
     "attention", "Composable Kernel"},
    {"_ZN7ck_tile6kentryILi256ELi2ENS_26FmhaBwdDQDKDVKernelI", "attention", "Composable Kernel"},
    {"Cijk_Ailk_Bjlk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x64x64_MI16x16x1_SN_DTVA0_DTVB1_ISA1201",
     "products", "hipBLASLt"},
    {"naive_conv_ab_nonpacked_fwd_ncdhw_ushort_double_ushort", "convolution in 3D",
     "MIOpen, naive"},
    {"naive_conv_ab_nonpacked_fwd_nchw_ushort_double_ushort", "convolution", "MIOpen, naive"},
    {"miopenSp3AsmConv_v30_3_1_gfx12_fp16_f3x2_stride1", "convolution", "MIOpen"},
    /* 3D convolutions elsewhere */
    {"void at::native::vol2col_kernel<c10::BFloat16>(long, c10::BFloat16 const*, int, int)",
     "convolution in 3D", "PyTorch, columns"},
    {"_ZN2at6native12_GLOBAL__N_128conv_depthwise3d_cuda_kernelI", "convolution in 3D",
     "PyTorch, depthwise"},
    {"implicit_convolve_sgemm<1024,5,5,3,3,3,1>", "convolution", "cuDNN, implicit"},
    {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
     "convolution", "cuDNN, implicit"},
    /* linear attention and its short convolution */
    {"chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "linear attention", "FLA, in chunks"},
    {"chunk_fwd_kernel_o", "linear attention", "FLA, in chunks"},
    {"chunk_local_cumsum_scalar_kernel", "linear attention", "FLA, in chunks"},
    {"merge_16x16_to_64x64_inverse_kernel", "linear attention", "FLA, in chunks"},
    {"fused_recurrent_gated_delta_rule_fwd_kernel", "linear attention", "FLA, recurrent"},
    {"layer_norm_gated_fwd_kernel", "linear attention, parts", "FLA's norms"},
    {"_Z24causal_conv1d_fwd_kernelI31Causal_conv1d_fwd_kernel_traitsILi128ELi4ELb1EN3c108BFloat16ES1_EEv",
     "short convolution", "causal-conv1d"},
    {"void causal_conv1d_channellast_bwd_kernel<Causal_conv1d_channellast_bwd_kernel_traits<128, 4, 64>>",
     "short convolution", "causal-conv1d"},
    {"causal_conv1d_fwd_kernel", "short convolution", "Triton"},
    {"_causal_conv1d_fwd_kernel", "short convolution", "Triton"},
    {"_ZN2at6native51_GLOBAL__N__67b3c33b_18_DepthwiseConv2d_cu_31conv_depthwise2d_forward_kernelILi5EfiE",
     "short convolution", "fall-back"},
    /* others of a training job */
    {"_ZN2at6native29vectorized_elementwise_kernelILi4E", "pointwise and sums", "PyTorch"},
    {"void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*)",
     "quantisation", "bitsandbytes"},
    {"_rms_norm_forward_kernel", "fused layers", "Liger"},
};

static void names_lead_to_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct kernel_path *p = kernel_paths_find(&paths, rows[i].kernel);
        if (p == NULL || strcmp(p->feature, rows[i].feature) != 0 ||
            strncmp(p->path, rows[i].path, strlen(rows[i].path)) != 0) {
            fail_msg("%s: %s, %s", rows[i].kernel, p != NULL ? p->feature : "nothing",
                     p != NULL ? p->path : "");
        }
    }
    assert_null(kernel_paths_find(&paths, "my_own_kernel"));
    assert_null(kernel_paths_find(&paths, ""));
}

static void rows_that_are_none_are_said(void **state)
{
    (void)state;
    static const char *const bad[] = {"head\nattention\tcuDNN\n", "head\na\tb\tabc\n",
                                      "head\na\tb\tlong|\n", "head\n\tb\tlong\n",
                                      "head\na\tb\tlong\tnote\tmore\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kernel_paths none;
        struct err err = {0};
        assert_int_equal(kernel_paths_read(arena, str_of(bad[i]), "x.tsv", &none, &err), ST_FORMAT);
        assert_non_null(strstr(err.text, "x.tsv:2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_ways),
        cmocka_unit_test(rows_that_are_none_are_said),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
