#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The reference trainer beside PyTorch, eager and compiled, on this CPU (bench/train.py says what is measured).
# usage: train.sh [BUILD_DIR] [--rounds N] [--costs]; needs the Python of tests/full/oracle_env.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if ! python=$(tests/full/oracle_env.sh); then
    echo "no PyTorch to compare with"
    exit 0
fi
exec "$python" bench/train.py "$@"
