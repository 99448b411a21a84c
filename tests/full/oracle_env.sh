#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the Python that the comparisons use as oracle: $ASSAY_ORACLE_PYTHON, else one virtual environment
# for all of them in $ASSAY_DOWNLOADS (default .cache/downloads), made when it is not there: about 6 GB on
# disk. Prints nothing and exits 77 where that cannot be done.
set -euo pipefail
packages="torch transformers peft deepspeed accelerate safetensors numpy tokenizers sentencepiece tiktoken mistral-common gguf"
if [ -n "${ASSAY_ORACLE_PYTHON:-}" ]; then
    echo "$ASSAY_ORACLE_PYTHON"
    exit 0
fi
top=$(realpath "$(dirname "$0")/../..")
store=${ASSAY_DOWNLOADS:-$top/.cache/downloads}
mkdir -p "$store"
env=$store/python-oracle
exec 9>"$store/python-oracle.lock"
flock 9 # several tests may ask at once
if [ ! -e "$env/complete" ]; then
    rm -rf "$env"
    python3 -m venv "$env" >&2 || { echo "python3 -m venv does not work here" >&2; exit 77; }
    # deepspeed is built from source and imports torch while it is.
    first=${packages/deepspeed /}
    # shellcheck disable=SC2086
    "$env/bin/python" -m pip install --quiet --no-input --disable-pip-version-check $first setuptools wheel >&2 &&
        DS_BUILD_OPS=0 "$env/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
            --no-build-isolation deepspeed >&2 || { echo "cannot install $packages" >&2; exit 77; }
    touch "$env/complete"
fi
echo "$env/bin/python"
