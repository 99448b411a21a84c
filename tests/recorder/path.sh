#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report --path: which kernels were launched and what that says of a model, and the logs of maths libraries from the
# variables that ask for them to the products that they list.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)
path=("$ASSAY" report --path)

# --- kernels, over the fake run-times
export LD_LIBRARY_PATH=${JOB_CUDA%/*}
for platform in cuda hip; do
    [ "$platform" = cuda ] && job=$JOB_CUDA || job=$JOB_HIP
    for how in direct lookup; do
        expect "$platform, FLA, $how" 0 "${run[@]}" --record "$platform-$how" -- "$job" good "$how" 1 \
            chunk_gated_delta_rule_fwd_kernel_h_blockdim64 _ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traits \
            _Z24causal_conv1d_fwd_kernelI31Causal_conv1d_fwd_kernel_traitsILi128ELi4ELb1E
        expect "$platform, its path, $how" 0 "${path[@]}" "$platform-$how"
        says "$platform, $how: attention" out "attention: FlashAttention of PyTorch (scaled_dot_product_attention): 10 launches"
        says "$platform, $how: linear attention" out "linear attention: FLA, in chunks (Triton): 10 launches"
        says "$platform, $how: short convolution" out "short convolution: causal-conv1d (its own kernel): 10 launches"
        says "$platform, $how: no convolution in 3D" out "convolution in 3D: none was launched"
    done
    expect "$platform, fallen back" 0 "${run[@]}" --record "$platform-back" -- "$job" good direct 1 conv_depthwise2d_forward_kernel_generic \
        naive_conv_ab_nonpacked_fwd_ncdhw_ushort_double_ushort softmax_warp_forward
    expect "$platform, fallen back, its path" 0 "${path[@]}" "$platform-back" --json
    jq -e '[.answers[] | {(.id): .severity}] | add | .["path-short-convolution"] == "note" and .["path-conv3d"] == "note"' out >/dev/null ||
        { echo "FAILED: $platform: a fall-back is not told"; FAILED=1; }
    says "$platform, fallen back: linear attention" out "no kernel of FLA or Mamba was launched"
    jq -e '.launches == 40 and (.kernels | length) == 4' out >/dev/null || { echo "FAILED: $platform: launches"; FAILED=1; }
    expect "$platform, dimensions not told" 0 "${run[@]}" --record "$platform-conv" -- "$job" good direct 1 implicit_convolve_sgemm
    expect "$platform, dimensions not told, its path" 2 "${path[@]}" "$platform-conv"
    says "$platform, dimensions not told" out "convolution in 3D: cannot be told"
done

expect "kernels as expected" 0 "$ASSAY" report hip-direct --expect yes:kernel:chunk_gated_delta_rule --expect "yes:kernel:linear attention" --expect no:kernel:ncdhw
expect "a kernel that was not launched" 1 "$ASSAY" report hip-direct --expect yes:kernel:fused_recurrent
says "a kernel that was not launched" out "no launch of it was recorded"
expect "a kernel that was" 1 "$ASSAY" report hip-back --expect "no:kernel:convolution in 3D"
says "a kernel that was" out "naive_conv_ab_nonpacked_fwd_ncdhw"

cp -r "$SOURCE/knowledge" own; printf 'feature\tpath\tneedles\nattention\tmine\tchunk_gated\n' >own/kernels.tsv
expect "a table of one's own" 0 "${path[@]}" hip-direct --knowledge own
says "a table of one's own" out "attention: mine: 10 launches"
printf 'feature\tpath\tneedles\nattention\n' >own/kernels.tsv
expect "a broken table" 2 "${path[@]}" hip-direct --knowledge own
says "a broken table" err "kernels.tsv:2"

# --- logs of libraries, over the fakes of AMD's
export LD_LIBRARY_PATH=$FAKES
expect "all logs" 0 "${run[@]}" --library-logs all --record lt -- "$JOB_LT" 3 64
says "MIOpen has no file" err "its lines stand in stderr.log"
ls lt/library.hipblaslt.*.log >/dev/null || { echo "FAILED: no log of hipBLASLt"; FAILED=1; }
expect "its path" 2 "${path[@]}" lt # it launches no kernel that is seen
says "the product" out "NT 64x64x94 bfloat16"
says "its solution" out "103"
expect "kernels that nobody saw" 2 "$ASSAY" report lt --expect no:kernel:ncdhw
expect "its path, JSON" 2 "${path[@]}" lt --json
jq -e '.logged[0] | .library == "hipblaslt" and .calls == 3 and .solution == 103 and (.bench | startswith("hipblaslt-bench --api_method c -m 64 "))' out >/dev/null ||
    { echo "FAILED: JSON of the logged product"; cat out; FAILED=1; }
expect "rocBLAS" 0 "${run[@]}" --library-logs rocblas --record rb -- sh -c '"$0" 2 64 rocblas; "$0" 2 64 rocblas' "$JOB_LT"
[ "$(ls rb/library.rocblas.*.log | wc -l)" = 2 ] || { echo "FAILED: one log a process of rocBLAS, not $(ls rb/)"; FAILED=1; }
expect "rocBLAS, its path" 2 "${path[@]}" rb --json
jq -e '.logged[0].calls == 4 and (.logged | length) == 1' out >/dev/null || { echo "FAILED: products of two processes"; cat out; FAILED=1; }
[ ! -e rb/library.hipblaslt.1.log ] || { echo "FAILED: a log that was not asked for"; FAILED=1; }
HIPBLASLT_LOG_MASK=4 expect "the user's own" 0 "${run[@]}" --library-logs hipblaslt --record own -- "$JOB_LT" 1 64
says "the user's own" err "the log of hipblaslt stays as it was asked for: HIPBLASLT_LOG_MASK is set already"
if ls own/library.* 2>/dev/null; then echo "FAILED: the user's variable was overridden"; FAILED=1; fi
expect "no such library" 64 "${run[@]}" --library-logs cublas -- true
says "no such library" err "'cublas' is none of them"

# MIOpen's lines come by stderr; a log without a run's records counts too.
expect "MIOpen" 0 "${run[@]}" --library-logs miopen --record mi -- sh -c \
    '[ "$MIOPEN_ENABLE_LOGGING_CMD" = 1 ] && echo "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convbfp16 -n 2 -c 3 --in_d 2 -H 14 -W 14 -k 8 --fil_d 2 -y 14 -x 14 --spatial_dim 3 -m conv -g 1 -F 1 -t 1" >&2'
expect "MIOpen, its path" 2 "${path[@]}" mi
says "MIOpen" out "convolution in 3D: MIOpen was given some"

# A log that grows without end takes no more room than is kept.
cat >chatty.sh <<'S'
line="hipblaslt-bench --api_method c -m 7 -n 8 -k 9 --lda 7 --ldb 9 --ldc 7 --ldd 7 --a_type f16_r --b_type f16_r --c_type f16_r --d_type f16_r --transA N --transB N --solution_index 5"
for i in $(seq 4000); do echo "$line"; done >block
file=$(echo "$HIPBLASLT_LOG_FILE" | sed "s/%i/$$/")
for i in $(seq 96); do cat block; done >"$file" # 66 MiB
sleep 1.5
echo "$line --bias_vector" >>"$file"
S
expect "a chatty library" 0 "${run[@]}" --library-logs hipblaslt --record chatty -- sh chatty.sh
if [ "$(du -m chatty | cut -f 1)" -gt 66 ]; then echo "FAILED: the log was not bounded: $(du -m chatty)"; FAILED=1; fi
expect "a chatty library, its path" 2 "${path[@]}" chatty --json
jq -e '[.logged[].solution] == [5, 5]' out >/dev/null || { echo "FAILED: beginning and end of a long log"; FAILED=1; }
says "the middle is gone" out "their middle is not counted"

# --- asked wrongly
expect "no run" 2 "${path[@]}" "$TMP/nowhere"
expect "a folder that is none" 2 "${path[@]}" "$TMP"
expect "two runs" 64 "${path[@]}" lt rb
expect "with an expectation" 64 "${path[@]}" lt --expect no:mkl
finish
