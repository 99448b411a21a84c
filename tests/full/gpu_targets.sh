#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: gpu_targets.sh TOOL
# GPU code in libraries that people install: Debian's rocRAND and rocSPARSE, wheels from PyPI.
# Downloads about 500 MB into $ASSAY_DOWNLOADS (default .cache/downloads), prints what each file
# holds, and compares with what llvm's tools and NVIDIA's cuobjdump say of the same file.
set -euo pipefail
tool=$(realpath "$1")
top=$(realpath "$(dirname "$0")/../..")
store=${ASSAY_DOWNLOADS:-$top/.cache/downloads}
for program in python3 pip clang-offload-bundler-19 llvm-objcopy-19 llvm-readelf-19 zstd; do
    command -v $program >/dev/null || { echo "$program is not installed"; exit 77; }
done
mkdir -p "$store"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
compared=0
fail() { echo "DIFFERS: $1"; failures=$((failures + 1)); }

fetch_wheel() { # PACKAGE PYTHON
    local dir=$store/$1
    [ -d "$dir" ] && return
    pip download --quiet --no-deps --only-binary=:all: --python-version "$2" --dest "$store/wheels" "$1" ||
        { echo "cannot download $1"; exit 77; }
    mkdir -p "$dir.part"
    python3 -m zipfile -e "$store"/wheels/"${1//-/_}"-*.whl "$dir.part"
    mv "$dir.part" "$dir"
}

fetch_deb() { # PACKAGE
    local dir=$store/$1
    [ -d "$dir" ] && return
    (cd "$store" && apt-get download "$1" >/dev/null 2>&1) || { echo "cannot download $1"; exit 77; }
    mkdir -p "$dir.part"
    dpkg -x "$store/$1"_*.deb "$dir.part"
    mv "$dir.part" "$dir"
}

ours() { "$tool" "$1" | sed -n 's/^  \([^ ]*\) x.*/\1/p' | sort -u; }

same() { # TITLE OURS THEIRS
    compared=$((compared + 1))
    [ "$2" = "$3" ] || fail "$1: ours '$(tr '\n' ' ' <<<"$2")', theirs '$(tr '\n' ' ' <<<"$3")'"
}

# The targets of the section's first bundle by clang-offload-bundler, which wants a compressed one cut
# to size and does not read version 3: that is decompressed by zstd itself.
number() { od -An "-tu$1" -j8 -N "$1" "$2" | tr -d ' '; }
llvm_bundle_targets() { # FILE
    local fatbin=$scratch/fatbin plain=$scratch/plain
    llvm-objcopy-19 --dump-section=.hip_fatbin="$fatbin" "$1" "$scratch/ignored"
    case $(head -c 6 "$fatbin" | od -An -tx1 | tr -d ' ') in
    43434f420200) head -c "$(number 4 "$fatbin")" "$fatbin" >"$plain" ;;
    43434f420300)
        tail -c +33 "$fatbin" | head -c $(($(number 8 "$fatbin") - 32)) | zstd -dcq --long=28 >"$plain"
        ;;
    *) cp "$fatbin" "$plain" ;;
    esac
    clang-offload-bundler-19 -list -type=o -input="$plain" |
        sed -n 's/^hip[v4]*-amdgcn-amd-amdhsa-[a-z]*-//p' | sort -u
}

# Each code object of the first bundle must carry the flags of the target its id names.
check_flags() { # FILE TARGET...
    local file=$1 t
    shift
    for t in "$@"; do
        clang-offload-bundler-19 -unbundle -type=o -input="$scratch/plain" -output="$scratch/object" \
            "-targets=hipv4-amdgcn-amd-amdhsa--$t" 2>/dev/null || continue
        same "flags of $t in $file" "$(ours "$scratch/object")" "$t"
    done
}

show() { # FILE
    local start end
    start=$(date +%s%N)
    "$tool" "$1" >"$scratch/out"
    end=$(date +%s%N)
    sed "1s|^.*/||; 1s|\$|, $(stat -Lc %s "$1") bytes, $(((end - start) / 1000000)) ms|" "$scratch/out"
}

fetch_deb librocrand1
fetch_deb librocsparse0
fetch_wheel bitsandbytes 3.11
fetch_wheel cupy-rocm-7-0 3.11
fetch_wheel jax-rocm7-pjrt 3.11
fetch_wheel jax-rocm10-pjrt 3.11
# The folder of downloads is shared: other tests keep whole environments in it. Their CUDA libraries hold
# family targets (sm_100f), which cuobjdump lists without the letter.
packages=(librocrand1 librocsparse0 bitsandbytes cupy-rocm-7-0 jax-rocm7-pjrt jax-rocm10-pjrt)
fetch_wheel nvidia-cuda-cuobjdump 3.11
cuobjdump=$store/nvidia-cuda-cuobjdump/nvidia/cu13/bin/cuobjdump
chmod +x "$cuobjdump"
du -sh "$store"/*/ | sed 's|'"$store"'/||'

while IFS= read -r file; do
    sections=$(llvm-readelf-19 -SW "$file" 2>/dev/null | grep -oE '\.hip_fatbin|\.nv_fatbin' | sort -u || true)
    case $sections in
    *.hip_fatbin*)
        show "$file"
        same "$file" "$(ours "$file")" "$(llvm_bundle_targets "$file")"
        case $file in */librocrand*) check_flags "$file" gfx803 gfx900:xnack- gfx90a:xnack+ gfx1030 ;; esac
        ;;
    *.nv_fatbin*)
        show "$file"
        if "$cuobjdump" -all -lelf "$file" >"$scratch/elf" 2>/dev/null &&
            "$cuobjdump" -all -lptx "$file" >"$scratch/ptx" 2>/dev/null; then
            same "$file" "$(ours "$file")" "$( { grep -oE '\bsm_[0-9]+[af]?\b' "$scratch/elf"
                grep -oE 'sm_[0-9]+[af]?' "$scratch/ptx" | sed 's/sm_/compute_/'; } | sort -u)"
        else
            echo "  cuobjdump cannot read this file"
        fi
        ;;
    *)
        "$tool" "$file" | grep -q ': none' || fail "$file has no section with GPU code"
        ;;
    esac
done < <(find "${packages[@]/#/$store/}" -type f \( -name '*.so' -o -name '*.so.*' \) -size +200k | sort)

# 111 bundles in 1.3 GB: only headers may be touched.
sparse=$(find "$store/librocsparse0" -type f -name 'librocsparse.so*')
"$tool" "$sparse" | grep -q 'containers 111,' || fail "$sparse: not 111 bundles"
start=$(date +%s%N)
"$tool" "$sparse" >/dev/null
ms=$((($(date +%s%N) - start) / 1000000))
[ "$ms" -lt 1000 ] || fail "$sparse took $ms ms"
echo "$compared comparisons, $failures differences"
exit $((failures != 0))
