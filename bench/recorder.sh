#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the recorder costs a call: the smallest product there is (1x1x1), as it is and recorded, by 1, 2
# and 8 threads, best of three. Ten million calls a thread, all of them counted.
set -euo pipefail
build=$PWD/${1:-build}
job=$build/tests/recorder/record_job
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
calls=${CALLS:-10000000}

best() { # COMMAND...: ns per call
    for _ in 1 2 3; do rm -rf "$tmp/r"; "$@" 2>"$tmp/err" | sed -n 's/.*: \([0-9.]*\) ns per call/\1/p'; done | sort -g | head -n 1
}
printf '%-8s %12s %12s %10s %14s\n' threads "plain, ns" "recorded, ns" "added, ns" "calls counted"
for threads in 1 2 8; do
    plain=$(best "$job" rate $threads "$calls")
    recorded=$(best "$build/assay" run --no-facts --record "$tmp/r" -- "$job" rate $threads "$calls")
    counted=$(sed -n 's/.* \([0-9]*\) library calls recorded.*/\1/p' "$tmp/err")
    awk -v t="$threads" -v p="$plain" -v r="$recorded" -v c="$counted" -v n="$calls" \
        'BEGIN {printf "%-8d %12.1f %12.1f %10.1f %14s\n", t, p, r, r - p, c == t * n ? c " (all)" : c " LOST"}'
done
