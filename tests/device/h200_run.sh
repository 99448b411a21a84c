#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder and its guard on a real GPU, from an unpacked dist/. Parts, in this order; all without an argument:
#   mask       a Triton kernel whose mask was forgotten: recorded only, then guarded
#   cost       interleaved pairs plain and recorded, every second one with a guarded run: wide steps, which the GPU
#              decides, and the CPU time of narrow ones, which the launching thread decides
#   conv       convolutions and attention by cuDNN: plain, recorded, guarded, and the path that was told
#   path       what a LoRA job really ran: kernels, products, attention
#   streams    work on three streams, plain and guarded: every number the same
#   sanitizer  a step small enough for compute-sanitizer: plain, guarded, under its memcheck
# usage: h200_run.sh [PART...]   PAIRS=12 (an even number) GUARDED=4 WIDE=24 NARROW=60 BATCH=20
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=${ASSAY:-$here/../../dist/bin/assay}
pairs=${PAIRS:-12} guarded=${GUARDED:-4}
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
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

# All processes import and make their model first, so that no import runs beside a step; then one at a time trains.
job() { # KIND NUMBER PLACE
    local command=(python3 "$here/h200_run.py" "${NARROW:-60}" --wide "${WIDE:-24}" --wide-batch "${BATCH:-20}"
        --ready "$work/ready.$3" --after "$work/over.$(($3 - 1))")
    case $1 in
    plain) ;;
    recorded) command=("$assay" run --no-facts --record "r$2" -- "${command[@]}") ;;
    guarded) command=("$assay" run --no-facts --guard --record "g$2" -- "${command[@]}") ;;
    esac
    "${command[@]}" >"$2.$1.out" 2>"$2.$1.err" || echo "$1 $2: exit $? (see the end of its output: $(tail -n 1 "$2.$1.err"))"
    : >"ready.$3" # a process that ended early must not hold up the others
    : >"over.$3"
}

cost() {
    local order=() i place=0
    rm -f over.* ready.*
    for i in $(seq "$pairs"); do
        [ $((i % 2)) = 0 ] && order+=("plain $i" "recorded $i") || order+=("recorded $i" "plain $i")
        [ $((i % 2)) = 0 ] && [ $((i / 2)) -le "$guarded" ] && order+=("guarded $i")
    done
    echo "== $pairs interleaved pairs, ${#order[@]} runs"
    for i in "${order[@]}"; do
        place=$((place + 1))
        # shellcheck disable=SC2086 # two words
        job $i "$place" &
    done
    for i in $(seq "$place"); do
        while [ ! -e "ready.$i" ]; do sleep 0.1; done
    done
    echo "all are ready after $SECONDS s"
    : >over.0
    wait
    python3 "$here/h200_ratios.py" "$pairs"
    du -sh r1 2>/dev/null | cut -f 1 | sed 's/^/run folder on disk: /'
    for i in g*/; do "$assay" report "$i" 2>/dev/null | grep -i 'guard' | head -n 3; break; done
}

conv() {
    echo "== convolutions and attention by cuDNN: plain, recorded, guarded"
    python3 "$here/h200_conv.py" | tee conv-plain.txt
    "$assay" run --no-facts --record conv -- python3 "$here/h200_conv.py" >conv-recorded.txt 2>conv.err
    echo "recorded: exit $?"
    cat conv.err
    "$assay" report --path conv
    "$assay" report --json conv | python3 -c "
import json, sys
for row in json.load(sys.stdin)['libraries']:
    print(row['calls'], row['function'], row['library'].rsplit('/', 1)[-1])"
    "$assay" run --no-facts --guard --record conv-guard -- python3 "$here/h200_conv.py" >conv-guarded.txt 2>conv-guard.err
    echo "guarded: exit $?"
    tail -n 12 conv-guard.err
    cmp conv-plain.txt conv-recorded.txt && cmp conv-plain.txt conv-guarded.txt && echo "the same losses in all three" || echo "NOT THE SAME"
}

# What a LoRA step really ran: kernels of every launch, products, attention.
path() {
    echo "== the path of a LoRA job"
    "$assay" run --no-facts --library-logs cublaslt --record lora -- python3 "$here/h200_run.py" 6 --layers 2 >lora.txt 2>lora.err
    echo "exit $?"
    tail -n 4 lora.txt
    cat lora.err
    "$assay" report --path lora
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

[ $# -gt 0 ] || set -- mask conv path cost streams sanitizer
for part in "$@"; do
    case $part in
    mask | conv | path | cost | streams | sanitizer) "$part" ;;
    *) echo "no part '$part': mask, conv, path, cost, streams, sanitizer" >&2; exit 64 ;;
    esac
done
