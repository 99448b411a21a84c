#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints a Python that has LLaMA-Factory: $ASSAY_LLAMAFACTORY_PYTHON, else an environment in
# $ASSAY_DOWNLOADS (default .cache/downloads) that borrows torch from the oracle's (oracle_env.sh) and
# adds what LLaMA-Factory wants in other versions. Prints nothing and exits 77 where that cannot be done.
set -euo pipefail
if [ -n "${ASSAY_LLAMAFACTORY_PYTHON:-}" ]; then
    echo "$ASSAY_LLAMAFACTORY_PYTHON"
    exit 0
fi
top=$(realpath "$(dirname "$0")/../..")
oracle=$("$top/tests/full/oracle_env.sh")
store=$(realpath "${ASSAY_DOWNLOADS:-$top/.cache/downloads}")
env=$store/python-llamafactory
exec 9>"$store/python-llamafactory.lock"
flock 9
if [ ! -e "$env/complete" ]; then
    rm -rf "$env"
    python3 -m venv "$env" >&2 || { echo "python3 -m venv does not work here" >&2; exit 77; }
    "$oracle" -c 'import site; print(site.getsitepackages()[0])' >"$env/borrowed"
    cp "$env/borrowed" "$("$env/bin/python" -c 'import site; print(site.getsitepackages()[0])')/oracle.pth"
    "$env/bin/python" -m pip install --quiet --no-input --disable-pip-version-check llamafactory py-spy >&2 || {
        echo "cannot install llamafactory" >&2
        exit 77
    }
    touch "$env/complete"
fi
echo "$env/bin/python"
