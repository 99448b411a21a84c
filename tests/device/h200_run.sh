#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder and its guard on a real GPU, from an unpacked dist/. Parts, in this order; all without an argument:
#   mask       a Triton kernel whose mask was forgotten: recorded only, then guarded
#   cost       interleaved pairs plain and recorded, every second one with a guarded run: wide steps, which the GPU
#              decides, and the CPU time of narrow ones, which the launching thread decides
#   streams    work on three streams, plain and guarded: every number the same
#   sanitizer  a step small enough for compute-sanitizer: plain, guarded, under its memcheck
# usage: h200_run.sh [PART...]   PAIRS=12 (an even number) GUARDED=6 WIDE=30 NARROW=40 BATCH=20 AHEAD=5
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=${ASSAY:-$here/../../dist/bin/assay}
pairs=${PAIRS:-12} guarded=${GUARDED:-6}
work=$(mktemp -d)
cd "$work" || exit 2
export HF_HUB_OFFLINE=1 PYTHONWARNINGS=ignore

mask() {
    echo "== kernel with a forgotten mask, recorded only, then guarded"
    "$assay" run --no-facts --record mask -- python3 "$here/forgotten_mask_job.py" 1000
    echo "exit $?"
    "$assay" run --no-facts --guard --record mask-guard -- python3 "$here/forgotten_mask_job.py" 1000
    echo "exit $?"
    echo "== the same with progress marks behind every call"
    "$assay" run --no-facts --guard --marks 1 --record mask-marks -- python3 "$here/forgotten_mask_job.py" 1000
    echo "exit $?"
}

# The next AHEAD processes import and make their model beside the steps of this one; one at a time trains, in order.
job() { # KIND NUMBER PLACE
    local command=(python3 "$here/h200_run.py" "${NARROW:-40}" --wide "${WIDE:-30}" --wide-batch "${BATCH:-20}" --after "$work/over.$(($3 - 1))")
    case $1 in
    plain) ;;
    recorded) command=("$assay" run --no-facts --record "r$2" -- "${command[@]}") ;;
    guarded) command=("$assay" run --no-facts --guard --record "g$2" -- "${command[@]}") ;;
    esac
    "${command[@]}" >"$2.$1.out" 2>"$2.$1.err" || echo "$1 $2: exit $? (see the end of its output: $(tail -n 1 "$2.$1.err"))"
    : >"over.$3"
}

cost() {
    local order=() i place=0
    rm -f over.*
    : >over.0
    for i in $(seq "$pairs"); do
        [ $((i % 2)) = 0 ] && order+=("plain $i" "recorded $i") || order+=("recorded $i" "plain $i")
        [ $((i % 2)) = 0 ] && [ $((i / 2)) -le "$guarded" ] && order+=("guarded $i")
    done
    echo "== $pairs interleaved pairs, ${#order[@]} runs"
    for i in "${order[@]}"; do
        place=$((place + 1))
        while [ ! -e "over.$((place - ${AHEAD:-5} - 1))" ] && [ "$place" -gt "${AHEAD:-5}" ]; do sleep 0.05; done
        # shellcheck disable=SC2086 # two words
        job $i "$place" &
    done
    wait
    python3 "$here/h200_ratios.py" "$pairs"
    du -sh r1 2>/dev/null | cut -f 1 | sed 's/^/run folder on disk: /'
}

streams() {
    echo "== three streams: digests plain, plain, guarded, guarded"
    local i
    for i in 1 2; do python3 "$here/h200_streams.py"; done 2>&1 | tee plain.txt
    for i in 1 2; do "$assay" run --no-facts --guard --record "s$i" -- python3 "$here/h200_streams.py" 2>"s$i.err"; done | tee guarded.txt
    tail -n 3 s1.err
    [ "$(sort -u plain.txt guarded.txt | wc -l)" = 1 ] && echo "the same in all four" || echo "NOT THE SAME"
}

sanitizer() {
    local small=("$here/h200_run.py" 2 --layers 1 --width 256 --length 64 --vocabulary 1000)
    echo "== one layer, 64 tokens, two steps: plain, guarded, compute-sanitizer memcheck"
    time python3 "${small[@]}"
    time "$assay" run --no-facts --guard --record small -- python3 "${small[@]}" 2>small.err
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return; }
    time timeout 120 compute-sanitizer --tool memcheck python3 "${small[@]}" 2>&1 | tail -n 6
}

[ $# -gt 0 ] || set -- mask cost streams sanitizer
for part in "$@"; do
    case $part in
    mask | cost | streams | sanitizer) "$part" ;;
    *) echo "no part '$part': mask, cost, streams, sanitizer" >&2; exit 64 ;;
    esac
done
