#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: python_env.sh ASSAY
# A real environment from PyPI (torch, transformers, peft, llamafactory, bitsandbytes, flash-linear-
# attention, torchvision and torchaudio that fit) and a copy of it with companions that do not.
# Downloads about 1 GB into $ASSAY_DOWNLOADS (default .cache/downloads). Facts are compared with what
# Python's own metadata and ldd say; strace proves that no program is started by assay.
set -euo pipefail
assay=$(realpath "$1")
top=$(realpath "$(dirname "$0")/../..")
store=${ASSAY_DOWNLOADS:-$top/.cache/downloads}
for program in python3 strace ldd jq; do
    command -v $program >/dev/null || { echo "$program is not installed"; exit 77; }
done
mkdir -p "$store"
good=$store/python-good
bad=$store/python-bad
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
checks=0

install() { # VENV PACKAGE...
    local venv=$1
    shift
    "$venv/bin/python" -m pip install --quiet --no-deps --no-input --disable-pip-version-check "$@" ||
        { echo "cannot install $*"; exit 77; }
}

if [ ! -e "$good/complete" ]; then
    rm -rf "$good"
    python3 -m venv "$good" || { echo "python3 -m venv does not work here"; exit 77; }
    install "$good" torch==2.6.0 torchvision==0.21.0 torchaudio==2.6.0 transformers peft llamafactory \
        bitsandbytes flash-linear-attention fla-core accelerate datasets trl
    touch "$good/complete"
fi
if [ ! -e "$bad/complete" ]; then
    rm -rf "$bad"
    cp -al "$good" "$bad" # pip replaces files, it does not write into them
    rm -f "$bad/complete" "$bad/pyvenv.cfg"
    cp "$good/pyvenv.cfg" "$bad/pyvenv.cfg"
    install "$bad" torchvision==0.25.0 torchaudio==2.5.1 peft==0.10.0
    touch "$bad/complete"
fi

facts() { # VENV OUTPUT
    "$assay" doctor --facts --json --quiet --python "$1" >"$2"
}

value() { # FILE KEY
    jq -c --arg k "$2" '.facts[$k].value' "$1"
}

same() { # TITLE GOT WANTED
    checks=$((checks + 1))
    [ "$2" = "$3" ] || { echo "DIFFERS: $1: got '$2', expected '$3'"; failures=$((failures + 1)); }
}

site=$(echo "$good"/lib/python3.*/site-packages)
"$assay" doctor --facts --quiet --python "$good" >/dev/null # into the page cache
start=$(date +%s%N)
facts "$good" "$scratch/good.json"
echo "facts of the environment in $((($(date +%s%N) - start) / 1000000)) ms"
facts "$bad" "$scratch/bad.json"

# Versions, as Python's own reader of metadata gives them.
while read -r name version; do
    same "pkg.$name.version" "$(value "$scratch/good.json" "pkg.$name.version")" "\"$version\""
done < <("$good/bin/python" -c '
import importlib.metadata as m
for n in ("torch", "transformers", "peft", "llamafactory", "bitsandbytes", "flash-linear-attention",
          "fla-core", "accelerate", "torchvision", "torchaudio"):
    print(n, m.version(n))')
same torch.version "$(value "$scratch/good.json" torch.version)" '"2.6.0+cu124"'
same torch.cuda "$(value "$scratch/good.json" torch.cuda)" '"12.4"'
same torch.cxx11abi "$(value "$scratch/good.json" torch.cxx11abi)" false

# What the loader misses, as ldd says it.
library=$site/torch/lib/libtorch_cuda.so
ldd "$library" 2>/dev/null | sed -n 's/^\t\(\S*\) => not found/\1/p' | sort -u >"$scratch/ldd"
value "$scratch/good.json" lib.torch_cuda.needed_missing | jq -r '.[]' | sort -u >"$scratch/ours"
same "libraries that libtorch_cuda misses and ldd finds" "$(comm -23 "$scratch/ours" "$scratch/ldd")" ""
checks=$((checks + 1))
[ -s "$scratch/ours" ] || { echo "nothing missing without the nvidia wheels?"; failures=$((failures + 1)); }

# Companions that fit lack no symbol; those of another torch do.
for name in torchvision torchaudio; do
    same "good $name" "$(value "$scratch/good.json" "pkg.$name.missing_symbols")" '[]'
    checks=$((checks + 1))
    [ "$(value "$scratch/bad.json" "pkg.$name.missing_symbols" | jq length)" -gt 0 ] ||
        { echo "bad $name: no missing symbol seen"; failures=$((failures + 1)); }
done
same "bad torchvision pins" "$(value "$scratch/bad.json" pkg.torchvision.requires_torch)" '"2.10.0"'
same "bad torchvision ABI" "$(value "$scratch/bad.json" pkg.torchvision.cxx11abi)" true

# A name that stands in the library, one that does not, one that is read in Python.
reads() { value "$scratch/good.json" "switch.$1.read_by" | jq -r 'join(" ")'; }
same "HCC_DB is read by nobody" "$(reads HCC_DB)" ""
same "CUDA_LAUNCH_BLOCKING" "$(reads CUDA_LAUNCH_BLOCKING | grep -c c10_cuda)" 1
same "FORCE_TORCHRUN" "$(reads FORCE_TORCHRUN)" "python:llamafactory"

# No program is started: one execve, assay's own, and no other call of the family.
for venv in "$good" "$bad"; do
    strace -f -q -e trace=execve,execveat,fork,vfork -o "$scratch/trace" \
        "$assay" doctor --quiet --python "$venv" >/dev/null || true
    same "programs started for $(basename "$venv")" "$(grep -c 'exec' "$scratch/trace")" 1
done

echo "$checks checks, $failures differ"
exit $((failures != 0))
