#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ids beside those of tokenizers, tiktoken and sentencepiece over 60 MB of text in many languages, code and
# hostile bytes: published tokenizers of seven families, the models in mistral-common, four trained here.
set -euo pipefail
top=$(dirname "$0")
python=$("$top/oracle_env.sh") || exit 77
files=$("$top/tokenizer_files.sh") || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/texts"
"$python" "$top/tokenizer_texts.py" "$files" "$work/texts"
"$python" "$top/tokenizer_ids.py" "$1" "$files" "$work"
"$python" "$top/tokenizer_faults.py" "$1" 80 "$files"/{llama2,qwen3,deepseek_v3}/tokenizer.json "$work"/*.model "$work"/llama3.tiktoken
