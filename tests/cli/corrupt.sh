#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Small torch and GGUF files, whole and with one fault each: cut, torn, flipped, grown, replaced.
. "$(dirname "$0")/lib.sh"
: "${READ_CHECKPOINT:?}"
command -v python3 >/dev/null || { echo "python3 is missing"; exit 77; }
mkdir "$TMP/samples"
for name in archive views; do
    cp "$SOURCE/tests/fuzz/corpus/torch_file/$name" "$TMP/samples/$name.pt"
done
cp "$SOURCE/tests/fuzz/corpus/torch_file/legacy" "$TMP/samples/legacy.pt"
cp "$SOURCE/tests/fuzz/corpus/gguf/types" "$TMP/samples/types.gguf"
expect "faults in model files" 0 python3 "$SOURCE/tools/corrupt.py" --count 60 --work "$TMP" "$READ_CHECKPOINT" \
    "$TMP"/samples/*
says "faults in model files" out "240 faults in 4 samples, 0 not noticed"
# The campaign itself must be able to fail.
expect "a checker that accepts all" 1 python3 "$SOURCE/tools/corrupt.py" --count 5 --work "$TMP" true \
    "$TMP/samples/legacy.pt"
finish
