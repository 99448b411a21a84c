#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench: every benchmark, each a table with the peer beside us. usage: run.sh [BUILD_DIR]
# Absolute figures are of this machine and this minute; read the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
for b in bench/*.sh; do
    [ "$b" = bench/run.sh ] && continue
    echo "## $(basename "$b" .sh)"
    "$b" "$build"
    echo
done
