#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages that a step needs and that are missing.
# usage: install_deps.sh build|test|full
set -euo pipefail

build="gcc g++ meson ninja-build pkg-config libvectorscan-dev libpcre2-dev libjansson-dev libyaml-dev zlib1g-dev libzstd-dev libutf8proc-dev libssl-dev libxxhash-dev libsqlite3-dev"
test="$build python3 libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev ripgrep zstd jq python3-yaml binutils mandoc strace valgrind"
full="$test python3-venv python3-pip python3-torch"
# Tools to compare with; a distribution that has none of them skips those comparisons.
compare="chromium python3-torch clang-19 clang-tools-19 llvm-19 lld-19 llvm-14 librocrand1"

case "${1:-build}" in
build) wanted=$build ;;
test) wanted=$test ;;
full) wanted=$full ;;
*) echo "usage: install_deps.sh build|test|full" >&2; exit 64 ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "install_deps: this is not Debian or Ubuntu; install the equivalents of: $wanted" >&2
    exit 0
fi

# Older Ubuntu has vectorscan's elder twin with the same interface.
if ! apt-cache show libvectorscan-dev >/dev/null 2>&1 && apt-cache show libhyperscan-dev >/dev/null 2>&1; then
    wanted=${wanted/libvectorscan-dev/libhyperscan-dev}
fi

if [ "${1:-build}" = full ]; then
    for p in $compare; do
        apt-cache show "$p" >/dev/null 2>&1 && wanted="$wanted $p"
    done
fi

# libclang-rt carries its version in its name: take the one of the default clang.
if ! apt-cache show libclang-rt-14-dev >/dev/null 2>&1; then
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*clang-\([0-9]*\)$/\1/p' | head -n 1)
    wanted=${wanted/libclang-rt-14-dev/${version:+libclang-rt-$version-dev}}
fi

missing=()
for p in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "install_deps: missing packages and neither root nor sudo: apt-get install ${missing[*]}" >&2
        exit 1
    }
    sudo=sudo
fi
echo "installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "install_deps: apt-get could not install: ${missing[*]}" >&2
    exit 1
}
