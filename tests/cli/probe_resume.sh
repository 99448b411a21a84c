#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --resume: a campaign killed in the middle goes on, and its totals are those of one that was not.
. "$(dirname "$0")/lib.sh"
library=$FAKES/libblas_wide.so
expect "uninterrupted" 1 "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --json
cp "$TMP/out" "$TMP/whole"
# Killed twice, each time when the state on the disk has grown.
counted=0
for round in 1 2; do
    "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --json --resume "$TMP/state" >"$TMP/killed" 2>/dev/null &
    child=$!
    for _ in $(seq 600); do
        now=$(awk '/^counts/ {print $2}' "$TMP/state" 2>/dev/null || true)
        [ "${now:-0}" -le "$counted" ] || break
        kill -0 "$child" 2>/dev/null || break
        read -rt 0.05 <> <(:) || true
    done
    kill -KILL "$child" 2>/dev/null || { echo "FAILED: round $round: it ended before it was killed"; FAILED=1; }
    wait "$child" 2>/dev/null || true
    counted=$(awk '/^counts/ {print $2}' "$TMP/state")
    [ ! -s "$TMP/killed" ] || { echo "FAILED: a killed campaign has a report"; FAILED=1; }
done
expect "resumed" 1 "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --json --resume "$TMP/state"
python3 - "$TMP/whole" "$TMP/out" "$counted" <<'P' || { echo "FAILED: the totals differ"; FAILED=1; }
import json, sys
whole, resumed = (json.load(open(f)) for f in sys.argv[1:3])
for report in (whole, resumed):
    report["libraries"][0].pop("per_second")
assert 0 < int(sys.argv[3]) < whole["probes"], sys.argv[3]
assert whole["probes"] == resumed["probes"] and whole["libraries"] == resumed["libraries"], (whole["libraries"], resumed["libraries"])
assert [f["claim"] for f in whole["findings"]] == [f["claim"] for f in resumed["findings"]]
P
# Ctrl-C: a report of what was tried, the state kept, the end that a shell knows by its status.
python3 - "$ASSAY" "$library" "$TMP/interrupted" <<'P' || { echo "FAILED: Ctrl-C"; FAILED=1; }
import json, os, re, signal, subprocess, sys, time
assay, library, state = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
p = subprocess.Popen([assay, "probe", "--quiet", "--json", "--library", library, "--dtype", "f32", "--dtype", "f64",
                      "--resume", state], stdout=subprocess.PIPE, text=True)
until = time.monotonic() + 30
while not (os.path.exists(state) and os.path.getsize(state)) and time.monotonic() < until:
    time.sleep(0.02)
p.send_signal(signal.SIGINT)
report = json.loads(p.communicate(timeout=60)[0])
assert p.returncode == -signal.SIGINT, p.returncode
claim = next(f["claim"] for f in report["findings"] if f["id"] == "gemm-not-tried")
done, of = map(int, re.match(r"interrupted after (\d+) of (\d+) products", claim).groups())
assert 0 < done < of and "the same command goes on" in claim, claim
kept = int(next(line.split()[2] for line in open(state) if line.startswith("counts")))  # next, probes, ...
assert kept == report["probes"], (kept, report["probes"])
P
expect "resumed after Ctrl-C" 1 "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --json --resume "$TMP/interrupted"
python3 - "$TMP/whole" "$TMP/out" <<'P' || { echo "FAILED: the totals after Ctrl-C differ"; FAILED=1; }
import json, sys
whole, resumed = (json.load(open(f)) for f in sys.argv[1:3])
for report in (whole, resumed):
    report["libraries"][0].pop("per_second")
assert whole["probes"] == resumed["probes"] and whole["libraries"] == resumed["libraries"], (whole["libraries"], resumed["libraries"])
P
expect "a limit of time" 2 "$ASSAY" probe --library "$FAKES/libblas_none.so" --level full --time-limit 1
says "a limit of time" out "stopped by the time limit of 1 s after"
says "a limit of time" out "could not tell"
expect "no limit of time" 64 "$ASSAY" probe --library "$library" --time-limit 0
expect "nothing left to do" 1 "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --resume "$TMP/state"
expect "another plan's state" 64 "$ASSAY" probe --library "$library" --dtype f32 --resume "$TMP/state"
says "another plan's state" err "it belongs to another plan"
sed 's/^counts \(.*\) [^ ]*$/counts \1 1e300/' "$TMP/state" >"$TMP/wild"
expect "an error beyond its bound" 2 "$ASSAY" probe --library "$library" --dtype f32 --dtype f64 --resume "$TMP/wild"
says "an error beyond its bound" err "is not a line of a state file"
finish
