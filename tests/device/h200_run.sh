#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder on a real GPU, from an unpacked dist/: what it costs, what it sees.
# usage: h200_run.sh [PAIRS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=$here/../../dist/bin/assay
pairs=${1:-10}
work=$(mktemp -d)
cd "$work"
echo "== one recorded run"
"$assay" run --no-facts --record one -- python3 "$here/h200_run.py" 20
echo "exit $?"
echo "== kernel with a forgotten mask, recorded only"
"$assay" run --no-facts --record mask -- python3 "$here/forgotten_mask_job.py" 1000
echo "exit $?"
echo "== $pairs interleaved pairs: plain, recorded (median step in ms)"
for i in $(seq "$pairs"); do
    plain=$(python3 "$here/h200_run.py" 40 2>/dev/null | sed -n 's/^median_ms \([0-9.]*\).*/\1/p')
    recorded=$("$assay" run --no-facts --record "pair$i" -- python3 "$here/h200_run.py" 40 2>/dev/null | sed -n 's/^median_ms \([0-9.]*\).*/\1/p')
    awk -v p="$plain" -v r="$recorded" 'BEGIN {printf "%s %s ratio %.4f\n", p, r, r / p}'
done
du -sh one | cut -f 1 | sed 's/^/run folder on disk: /'
