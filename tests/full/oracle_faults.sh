#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: oracle_faults.sh ASSAY SOURCE
# Small faults planted into transformers' own model, one at a time, and what `assay train --oracle` says of the
# step: oracle_faults.py has the list. Prints the table of docs/train-oracle.md.
set -euo pipefail
export TQDM_DISABLE=1
here=$(realpath "$(dirname "$0")")
python=$("$here/oracle_env.sh") || exit 77
"$python" -c 'import torch, transformers, safetensors' 2>/dev/null ||
    { echo "$python has no torch, transformers, safetensors"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -u "$here/oracle_faults.py" "$(realpath "$1")" "$(realpath "$2")" "$work"
