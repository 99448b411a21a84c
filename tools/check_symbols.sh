#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_symbols.sh FILE GLIBC_VERSION: fails when FILE needs a newer glibc, or a shared
# library other than glibc's own.
set -euo pipefail
file=$1 limit=$2
newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
if [ "$(printf '%s\n%s\n' "GLIBC_$limit" "$newest" | sort -V | tail -n 1)" != "GLIBC_$limit" ]; then
    echo "$file needs $newest, newer than GLIBC_$limit:"
    objdump -T "$file" | awk -v limit="$limit" '/GLIBC_/ {print}' | grep "$newest"
    exit 1
fi
extra=$(objdump -p "$file" | sed -n 's/ *NEEDED *//p' |
    grep -vxE 'libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-x86-64\.so\.2' || true)
if [ -n "$extra" ]; then
    echo "$file needs shared libraries that are not glibc's: $extra"
    exit 1
fi
echo "$file: newest symbol $newest"
