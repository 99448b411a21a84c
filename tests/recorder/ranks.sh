#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that share one output, as under torchrun: whose line is whose, the curves and the table of each, and the slow one.
. "$(dirname "$0")/../cli/lib.sh"
command -v python3 >/dev/null || { echo "no Python"; exit 77; }
cd "$TMP"
run=("$ASSAY" run --no-facts)
cat >worker.py <<'P'
import fcntl, os, sys, time
rank = int(os.environ["RANK"])
lock = open("lock", "w")
steps = open("steps", "ab", buffering=0)
for step in range(1, 41):
    while os.path.getsize("steps") < 4 * (step - 1):  # in step, as ranks are that wait for each other's gradients
        time.sleep(0.001)
    fcntl.flock(lock, fcntl.LOCK_EX)  # whole lines, whatever they are written in
    print(f"step: {step} loss: {4 / step:.4f} step_time: {0.1 + 0.1 * (rank == 2):.3f}", flush=True)
    if step % 7 == rank:
        os.write(1, b"step: "), os.write(1, b"99%d loss: 1.5\n" % rank)  # one line in two pieces
    steps.write(b".")
    fcntl.flock(lock, fcntl.LOCK_UN)
sys.stderr.write(f"rank {rank} is done\n")
P
cat >launch.py <<'P'
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-u" if r == 1 else "-B", "worker.py"], env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="4"))
         for r in range(4)]
print("loss: 9.0", flush=True)
sys.exit(max(p.wait() for p in ranks))
P
expect "four ranks" 0 "${run[@]}" --record four -- python3 launch.py
# Every line of a worker has its rank, and the right one: rank 2 is the slow one; the launcher has none.
jq -es '[.[] | select(.step_time == 0.2)] | length == 40 and all(.[]; .rank == 2 and .local_rank == 2)' four/metrics.jsonl >/dev/null ||
    { echo "FAILED: lines of rank 2"; cat four/metrics.jsonl; FAILED=1; }
jq -es '[.[] | select(.step_time == 0.1)] | length == 120 and ([.[] | .rank] | sort | unique) == [0, 1, 3]' four/metrics.jsonl >/dev/null ||
    { echo "FAILED: lines of the other ranks"; FAILED=1; }
jq -es '[.[] | select(.loss == 1.5)] | length >= 4 and all(.[]; .step == 990 + .rank)' four/metrics.jsonl >/dev/null ||
    { echo "FAILED: lines in two pieces"; grep 99 four/metrics.jsonl; FAILED=1; }
jq -es '[.[] | select(.loss == 9)] | length == 1 and .[0].rank == null' four/metrics.jsonl >/dev/null || { echo "FAILED: the launcher's line"; FAILED=1; }
expect "its report" 0 "$ASSAY" report four --json
jq -e '(.ranks | length) == 4 and .ranks[2].step_time == 0.2 and .ranks[0].step_time == 0.1' out >/dev/null || { echo "FAILED: table of the ranks"; cat out; FAILED=1; }
jq -e '[.checks[] | select(.id == "rank-slow")] | length == 1 and (.[0].title | startswith("rank 2 takes 0.2 s a step"))' out >/dev/null ||
    { echo "FAILED: the slow rank"; FAILED=1; }
expect "its page" 0 "$ASSAY" report four --format html -o four.html
grep -q "rank 3" four.html || { echo "FAILED: curves of the ranks"; FAILED=1; }
expect "its anomalies" 0 "$ASSAY" watch --once four
says "its anomalies" out "rank 2 step"

# A launcher that names ranks in front of the lines; a job without ranks.
expect "named in front" 0 "${run[@]}" --record named -- sh -c 'echo "[rank1]: step: 1 loss: 0.5"; echo "[default0]:step: 1 loss: 0.25"'
jq -es '[.[] | .rank] == [1, 0]' named/metrics.jsonl >/dev/null || { echo "FAILED: ranks in front"; cat named/metrics.jsonl; FAILED=1; }
expect "helpers with a rank" 0 env RANK=0 "${run[@]}" --record helpers -- sh -c 'echo "loss: 1" | cat; echo "loss: 2" | tee copy'
if ls helpers/lines.* 2>/dev/null; then echo "FAILED: lines of helpers"; FAILED=1; fi
expect "one process" 0 "${run[@]}" --record one -- python3 -c 'print("step: 1 loss: 0.5")'
jq -es '.[0] | has("rank") | not' one/metrics.jsonl >/dev/null || { echo "FAILED: a rank from nowhere"; FAILED=1; }
if ls one/lines.* 2>/dev/null; then echo "FAILED: lines of a process without a rank"; FAILED=1; fi

# Comparison takes one rank's losses, whichever spoke first.
for n in 1 2 3; do
    mkdir "c$n"; cp four/run.json four/stdout.log "c$n/"
    sort -R --random-source=<(yes "$n") four/metrics.jsonl | jq -cs 'sort_by(.step)[] | if .rank == 2 and .loss then .loss += 5 else . end' >"c$n/metrics.jsonl"
done
expect "compared" 0 "$ASSAY" compare c1 c2 c3 --against c1 --force
finish
