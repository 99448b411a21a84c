#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: gpu_objects.sh TOOL: GPU code made by clang for several AMD GPUs, in all its wrappings, read
# by us and by llvm's tools.
set -euo pipefail
tool=$(realpath "$1")
for program in clang-19 clang-offload-bundler-19 llvm-readelf-19 llvm-objcopy-19 clang-offload-packager-19 ld.lld-19; do
    command -v $program >/dev/null || { echo "$program is not installed"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() { echo "$1"; exit 1; }

targets_of() { "$tool" "$1" | sed -n 's/^  \([^ ]*\) x.*/\1/p' | sort; }
count_of() { "$tool" "$1" | sed -n "s/^  $2 x\([0-9]*\) .*/\1/p"; }
expect() { # TITLE FILE TARGET...
    local title=$1 file=$2
    shift 2
    local got want
    got=$(targets_of "$file" | tr '\n' ' ')
    want=$(printf '%s\n' "$@" | sort | tr '\n' ' ')
    [ "$got" = "$want" ] || fail "$title: got '$got', expected '$want'"
}

echo '__attribute__((amdgpu_kernel)) void k(int *p) { *p = 1; }' >k.c
all="gfx900:xnack- gfx908 gfx90a:sramecc+:xnack+ gfx942 gfx1030 gfx1100 gfx1151 gfx1201 gfx9-generic gfx10-3-generic gfx11-generic gfx12-generic"
inputs=""
list="host-x86_64-unknown-linux--"
ids=()
for t in $all; do
    file=k_${t//[:+]/_}.co
    version=5
    [[ $t == *generic ]] && version=6
    clang-19 -target amdgcn-amd-amdhsa "-mcpu=$t" -mcode-object-version=$version -nogpulib \
        -fuse-ld=/usr/bin/ld.lld-19 -O2 k.c -o "$file" 2>/dev/null || { echo "clang-19 cannot build for $t"; exit 77; }
    expect "code object for $t" "$file" "$t"
    # llvm-readelf names the processor and the features it sets.
    flags=$(llvm-readelf-19 -h "$file" | sed -n 's/.*Flags: *0x[0-9A-Fa-f]*, *//p')
    [[ "${flags%%,*}" == "${t%%:*}" ]] || fail "llvm-readelf says '$flags' for $t"
    ids+=("hipv4-amdgcn-amd-amdhsa--$t")
    list="$list,hipv4-amdgcn-amd-amdhsa--$t"
    inputs="$inputs -input=$file"
done
: >empty
bundle() { clang-offload-bundler-19 -type=o -bundle-align=4096 -targets="$list" -input=empty $inputs "$@"; }
bundle -output=plain.hipfb
expect "bundle" plain.hipfb $all
[ "$(targets_of plain.hipfb)" = "$(clang-offload-bundler-19 -list -type=o -input=plain.hipfb | sed -n 's/^hipv4-amdgcn-amd-amdhsa--//p' | sort)" ] ||
    fail "clang-offload-bundler lists other targets"

# The numbers of versions and methods, from the maker: version 2, zstd.
bundle -compress -output=packed.hipfb
[ "$(head -c 8 packed.hipfb | od -An -tx1 | tr -d ' ')" = 43434f4202000100 ] || fail "clang 19 writes another header"
expect "compressed bundle, version 2" packed.hipfb $all
COMPRESSED_BUNDLE_FORMAT_VERSION=3 bundle -compress -output=packed3.hipfb
expect "compressed bundle, version 3 where clang can" packed3.hipfb $all

# In a library: several bundles, one behind the other on pages of their own.
cat plain.hipfb >fatbin
for f in packed.hipfb plain.hipfb packed.hipfb; do
    truncate -s %4096 fatbin
    cat $f >>fatbin
done
echo 'int x;' | clang-19 -shared -fPIC -x c - -o host.so
llvm-objcopy-19 --add-section=.hip_fatbin=fatbin --set-section-flags=.hip_fatbin=alloc,readonly host.so lib.so
expect "library" lib.so $all
[ "$(count_of lib.so gfx1201)" = 4 ] || fail "of four bundles $(count_of lib.so gfx1201) were read"
"$tool" host.so | grep -q ': none' || fail "a library without GPU code must be known to have none"

# The newer container.
clang-offload-packager-19 -o images.bin \
    --image=file=k_gfx1100.co,triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=openmp \
    --image=file=k_gfx942.co,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=openmp
llvm-objcopy-19 --add-section=.llvm.offloading=images.bin host.so omp.so
expect "offload binary" omp.so gfx942 gfx1100

# Damage: never none, never a crash.
head -c 40 packed.hipfb >cut.hipfb
"$tool" cut.hipfb | grep -q unreadable || fail "a cut bundle must be unreadable"
echo "all as llvm reads them"
