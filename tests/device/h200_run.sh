#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder on a real GPU, from an unpacked dist/: what it sees, and what it costs, recorded and
# guarded, in interleaved rounds; at the end compute-sanitizer's cost on the same step, where it is.
# usage: h200_run.sh [ROUNDS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=$here/../../dist/bin/assay
rounds=${1:-10}
work=$(mktemp -d)
cd "$work"
echo "== kernel with a forgotten mask, recorded only, then guarded"
"$assay" run --no-facts --record mask -- python3 "$here/forgotten_mask_job.py" 1000
echo "exit $?"
"$assay" run --no-facts --guard --record mask-guard -- python3 "$here/forgotten_mask_job.py" 1000
echo "exit $?"

step() { # COMMAND...: "median best loss" of one run of 60 steps
    "$@" python3 "$here/h200_run.py" 60 2>/dev/null |
        sed -n 's/^median_ms \([0-9.]*\) best_ms \([0-9.]*\) last_loss \(.*\)/\1 \2 \3/p'
}
echo "== $rounds interleaved rounds: median and best-tenth step in ms, last loss: plain, recorded, guarded"
for i in $(seq "$rounds"); do
    case $((i % 2)) in
    0) plain=$(step); recorded=$(step "$assay" run --no-facts --record "r$i" --) ;;
    1) recorded=$(step "$assay" run --no-facts --record "r$i" --); plain=$(step) ;;
    esac
    guarded=-
    [ "$i" -le 4 ] && guarded=$(step "$assay" run --no-facts --guard --record "g$i" --)
    echo "$plain | $recorded | $guarded"
done | tee rounds
sed 's/ | / /g' rounds | awk '{ratio[NR] = $5 / $2; sum += ratio[NR]}
    END {mean = sum / NR; for (i in ratio) d += (ratio[i] - mean) ^ 2
         printf "recorded/plain, best tenth: mean %.4f, standard error %.4f, %d rounds\n", mean, sqrt(d / (NR - 1) / NR), NR}'
du -sh r1 | cut -f 1 | sed 's/^/run folder on disk: /'
if command -v compute-sanitizer >/dev/null; then
    echo "== compute-sanitizer memcheck on the same step (4 steps)"
    python3 "$here/h200_run.py" 4
    timeout 150 compute-sanitizer --tool memcheck python3 "$here/h200_run.py" 4 2>&1 | tail -n 4
fi
