#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --check: what PyTorch saved in float64 for every operator is right; what was made wrong
# is named; what does not fit is refused with a sentence. tests/full/op_oracle.py made the files.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE/tests/golden/ops
wrong=$SOURCE/tests/golden/ops_wrong

args=()
for file in "$golden"/*.safetensors; do
    args+=(--check "$file")
done
expect golden 0 "$ASSAY" probe --json "${args[@]}"
says golden out "\"probes\": $((${#args[@]} / 2))"
says golden out '"id": "operator-correct"'

expect wrong_gradient 1 "$ASSAY" probe --check "$wrong/wrong_gradient.safetensors"
says wrong_gradient out 'linear is wrong: gradient of weight'
says wrong_gradient out 'worst at [3, 5]'
expect large_error 1 "$ASSAY" probe --check "$wrong/large_error.safetensors"
says large_error out 'linear is wrong: y  (operator-inaccurate)'
expect one_nan 1 "$ASSAY" probe --check "$wrong/one_nan.safetensors"
says one_nan out 'operator-not-finite'
says one_nan out '1 NaN and 0 infinite of 153'
expect no_backward 2 "$ASSAY" probe --check "$wrong/no_backward.safetensors"
says no_backward out "could not tell: the file has no tensor 'grad.weight'"
expect both 1 "$ASSAY" probe --check "$wrong/no_backward.safetensors" --check "$wrong/one_nan.safetensors"

expect wrong_shape 2 "$ASSAY" probe --check "$wrong/wrong_shape.safetensors"
says wrong_shape err "the shape of 'output.y' is [20, 4], expected [20, 5]"
expect absent 2 "$ASSAY" probe --check "$TMP/none.safetensors"
says absent err 'none.safetensors'

# file NAME HEADER BYTES: a safetensors file with that header and so many zero bytes of data.
file() {
    local header=$2 i
    {
        for ((i = 0; i < 8; i++)); do
            printf "\\x$(printf %x $(((${#header} >> (8 * i)) & 255)))"
        done
        printf %s "$header"
        head -c "$3" /dev/zero
    } >"$TMP/$1.safetensors"
}

x='"input.x":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}'
w='"input.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}'
y='"output.y":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}'

# refused NAME HEADER BYTES TEXT
refused() {
    file "$1" "$2" "$3"
    expect "$1" 2 "$ASSAY" probe --check "$TMP/$1.safetensors"
    says "$1" err "$4"
}
refused no_metadata "{$x}" 4 "its metadata has no key 'op'"
refused unknown_op "{\"__metadata__\":{\"op\":\"fft\"},$x}" 4 "known are gemm, linear"
refused unknown_attribute "{\"__metadata__\":{\"op\":\"linear\",\"trans\":\"1\"},$x}" 4 "linear has no parameter 'trans'"
refused unknown_tensor "{\"__metadata__\":{\"op\":\"linear\"},\"x\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}" 4 \
    "it has input.x, input.weight"
refused no_weight "{\"__metadata__\":{\"op\":\"linear\"},$x}" 4 "there is no tensor 'input.weight'"
refused wrong_dtype "{\"__metadata__\":{\"op\":\"linear\"},$x,\"input.weight\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[4,6]}}" 6 \
    "'input.weight' is float16, expected float32"
refused bias_said "{\"__metadata__\":{\"op\":\"linear\",\"bias\":\"1\"},$x,$w,$y}" 12 "bias is 1, but the tensor 'input.bias' is not there"
refused cut_off "{\"__metadata__\":{\"op\":\"linear\"},$x,$w,$y}" 9 "cut_off.safetensors"
refused empty_tensor "{\"__metadata__\":{\"op\":\"linear\"},\"input.x\":{\"dtype\":\"F32\",\"shape\":[0,1],\"data_offsets\":[0,0]}}" 0 "empty_tensor"
file no_results "{\"__metadata__\":{\"op\":\"linear\"},$x,$w}" 8
expect no_results 2 "$ASSAY" probe --check "$TMP/no_results.safetensors"
says no_results out "the file has no tensor 'output.y'"
# Options that mean nothing there are refused, not ignored.
for option in "--level full" "--seed 2" "--deadline 3" "--dtype bf16" "--time-limit 9"; do
    # shellcheck disable=SC2086
    expect "--check with $option" 64 "$ASSAY" probe --check "$TMP/no_results.safetensors" $option
    says "--check with $option" err "${option%% *} has no meaning with --check"
done
finish
