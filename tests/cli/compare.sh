#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay compare: inputs proven or refused, unlike work named, losses judged, every source read.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
cp "$SOURCE/tests/cli/training_job.sh" job.sh
echo one >data.txt
echo two >other.txt
run() { # NAME ARG...
    local name=$1
    shift
    timeout 60 "$ASSAY" run --no-facts --record "$name" -- ./job.sh "$@" >/dev/null 2>"$name.err" || true
    [ -f "$name/run.json" ] || { echo "FAILED: no run $name"; cat "$name.err"; exit 1; }
}
run a1 --noise 1 --data data.txt
run a2 --noise 2 --data data.txt
run a3 --noise 3 --data data.txt
run b1 --noise 4 --data data.txt
run worse --noise 5 --scale 1.02 --data data.txt
run crash --noise 6 --fail 30 --data data.txt
run nan --noise 7 --nan 30 --data data.txt
run otherdata --noise 8 --data other.txt
run batch --noise 9 --micro_batch_size 4 --data data.txt
run slow --noise 1 --pause 0.1 --steps 30 --data data.txt

expect "noise alone" 0 "$ASSAY" compare a1 a2 a3 --against b1
says "noise alone" out "same: the losses agree"
says "the inputs are proven" out "2 digests are equal"
says "the measure is named" out "spread of 3 runs of A"
# A guarded run that called no library has no table of libraries.
timeout 60 "$ASSAY" run --guard --no-facts --record guarded -- sh -c 'ls / >/dev/null; echo "step 1 loss 1.0"' >/dev/null 2>&1 || true
expect "a guarded run without a library call" 0 "$ASSAY" compare --force guarded guarded
expect "a worse loss" 1 "$ASSAY" compare a1 a2 a3 --against worse
says "a worse loss" out "different:"
expect "a crash" 1 "$ASSAY" compare a1 crash
says "the fault is named" out "exit 134: "
says "the share of failures" out "0 of 1 runs of A failed, 1 of 1 of B"
expect "NaN" 1 "$ASSAY" compare a1 nan
says "NaN" out "losses that are NaN or infinite: 0 in A, 31 in B"
expect "both crash" 2 "$ASSAY" compare crash crash
says "both crash" out "both-fail"

expect "other data" 2 "$ASSAY" compare a1 otherdata
says "other data is refused" out "the inputs of A and B differ"
says "other data is named" out "data 'other.txt' is an input of B only"
if grep -q "ratios:" out; then echo "FAILED: a ratio although the inputs differ"; FAILED=1; fi
expect "other data, forced" 0 "$ASSAY" compare --force a1 otherdata
says "other data, forced" out "(inputs not proven equal)"
cp -r a1 changed
sed -i 's/"digest": "[0-9a-f]\{8\}/"digest": "00000000/' changed/run.json
expect "another digest" 2 "$ASSAY" compare a1 changed
says "another digest" out "differs: "

# A file that no option names, seen while it is held open; one that the run wrote is no input.
echo held >held.txt
sleep 0.05
for n in 1 2; do
    timeout 60 "$ASSAY" run --no-facts --record "held$n" -- sh -c 'exec 3<held.txt; echo x >mine.txt; exec 4<mine.txt; sleep 1.3; echo "step 1 loss 1.0"' >/dev/null 2>&1 || true
    [ $n = 1 ] && echo changed >held.txt
done
expect "another file held open" 2 "$ASSAY" compare held1 held2
says "another file held open" out "held.txt' differs"
if grep -q 'mine.txt"' held1/run.json; then echo "FAILED: what the run wrote is no input"; FAILED=1; fi

expect "another batch size" 2 "$ASSAY" compare a1 batch
says "another batch size" out "batch per device: (not set) in A, 4 in B"
says "no ratio of unlike work" out "no ratios of A and B"
if grep -q "seconds per step  " out; then echo "FAILED: a ratio of unlike work"; FAILED=1; fi

# GPUs that were visible
for n in 1 2; do
    gpus=0
    [ $n = 2 ] && gpus=0,1
    CUDA_VISIBLE_DEVICES=$gpus run "gpus$n" --noise 1 --data data.txt
done
expect "another number of GPUs" 2 "$ASSAY" compare gpus1 gpus2
says "another number of GPUs" out "GPU count: 1 in A, 2 in B"

expect "too slow" 1 "$ASSAY" compare --max-ratio 1.5 a1 slow
says "too slow" out "1.5 was allowed"
expect "fast enough" 0 "$ASSAY" compare --max-ratio 1000 a1 slow
says "steps are drawn in blocks" out "blocks of"

# logs alone: nothing proves the inputs
expect "two logs" 2 "$ASSAY" compare a1/stdout.log b1/stdout.log
expect "two logs, forced" 0 "$ASSAY" compare --force a1/stdout.log b1/stdout.log --plot
says "a plot" out "loss: o A, x B, * both"
head -n 40 b1/stdout.log >cut.log
sed 's/\(loss\)/\x1b[32m\1/' a1/stdout.log >coloured.log
expect "colours" 0 "$ASSAY" compare --force a1/stdout.log coloured.log
expect "a log that stops" 2 "$ASSAY" compare --force a1/stdout.log cut.log
says "a log that stops" out "the end of 1 of 2 runs is not in what was given"
expect "JSON" 0 "$ASSAY" compare --json a1 b1
jq -e '.schema_version == 1 and (.verdict | startswith("same:")) and (.runs | length) == 2 and .levels[1].grade == "same"
    and (.ratios[0].low | type) == "number" and .runs[0].steps == 60' out >/dev/null || { echo "FAILED: JSON of compare"; FAILED=1; }

# HF Trainer's state, three routes
for n in 1 2; do
    jq -s --argjson n $n '{global_step: 60, max_steps: 60, log_history: [.[] | select(.loss) | {loss: (.loss * (if $n == 2 then 1.03 else 1 end)), step}]}' \
        a1/metrics.jsonl >state$n.json
done
expect "trainer_state.json" 1 "$ASSAY" compare --force state1.json state2.json
expect "three routes" 1 "$ASSAY" compare --force state1.json a2/metrics.jsonl state2.json
says "three routes" out "B and A: same"
says "three routes" out "C and A: different"

expect "one run" 64 "$ASSAY" compare a1
says "one run" err "compare needs two runs"
expect "--against at the end" 64 "$ASSAY" compare a1 b1 --against
expect "a bad ratio" 64 "$ASSAY" compare --max-ratio much a1 b1
expect "no such run" 2 "$ASSAY" compare a1 nowhere
says "no such run" err "nowhere"
: >empty.log
expect "an empty log" 2 "$ASSAY" compare a1 empty.log
says "an empty log" err "holds no loss and no step"
mkdir folder
expect "a folder without a run" 2 "$ASSAY" compare a1 folder
says "a folder without a run" err "holds no run.json"
expect "an output that cannot be written" 2 "$ASSAY" compare a1 b1 -o "$TMP/nowhere/x"
finish
