#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Format, layers, sizes, banned functions, headers that compile alone, static analysis.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
status=0

mapfile -t sources < <(git ls-files 'src/**.[ch]' 'tests/**.[ch]' 'tools/**.[ch]' 'bench/**.[ch]')
clang-format --dry-run -Werror "${sources[@]}" || status=1
tools/check_layers.py || status=1
tools/check_style.py || status=1

# Each header is compiled alone: whoever includes it needs nothing else first.
for h in $(git ls-files 'src/**.h'); do
    case $h in src/*/*.def.h) continue ;; esac
    gcc -std=gnu17 -D_GNU_SOURCE -Isrc -I"$build/src" -fsyntax-only -x c "$h" || {
        echo "$h does not compile alone"
        status=1
    }
done

if [ "${ASSAY_LINT_FAST:-0}" != 1 ]; then
    # The analyzer's shallow mode finds what a function shows by itself, in a ninth of the time; with
    # ASSAY_LINT_DEEP=1 it follows calls.
    depth=(--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow)
    [ "${ASSAY_LINT_DEEP:-0}" != 1 ] || depth=()
    mapfile -t units < <(git ls-files 'src/**.c')
    printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 8 clang-tidy -p "$build" --quiet "${depth[@]}" 2>"$build/tidy.err" >"$build/tidy.log" || {
        grep -E 'error:|warning:' "$build/tidy.log" || tail -n 20 "$build/tidy.err"
        status=1
    }
fi
[ $status -eq 0 ] && echo "lint: clean"
exit $status
