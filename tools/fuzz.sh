#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target for FUZZ_SECONDS (default 600) on its corpus; new inputs stay in build-fuzz.
# A crash leaves its input in build-fuzz/crash-*; put it into tests/fuzz/corpus/<target>/ with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-600}
[ -d build-fuzz ] || CC=clang meson setup build-fuzz -Dfuzz=true -Db_lundef=false -Dstatic_deps=false -Dprefer_static=false >/dev/null
# The targets alone: some helpers of other tests cannot be linked with a sanitizer.
ninja -C build-fuzz --quiet $(ninja -C build-fuzz -t targets all | sed -n 's/^\(tests\/fuzz\/fuzz_[a-z0-9_]*\): .*_LINKER.*/\1/p')
status=0
for target in build-fuzz/tests/fuzz/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=$(basename "$target"); name=${name#fuzz_}
    mkdir -p "build-fuzz/found/$name"
    echo "fuzz $name for $seconds s"
    "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/crash-$name-" "build-fuzz/found/$name" "tests/fuzz/corpus/$name" \
        >"build-fuzz/$name.log" 2>&1 || { echo "FAILED $name"; tail -n 30 "build-fuzz/$name.log"; status=1; }
    grep -aE 'stat::number_of_executed_units|Done' "build-fuzz/$name.log" || true
done
exit $status
