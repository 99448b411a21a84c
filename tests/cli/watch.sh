#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# watch: planted anomalies are named with step and exit status, clean logs pass, logs that grow, are cut or
# replaced are followed, messages reach a webhook.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
watcher=
trap '[ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true; rm -rf "$TMP"' EXIT

# log KIND STEPS: a training log with one thing wrong, on standard output.
log() {
    awk -v kind="$1" -v n="$2" 'BEGIN { srand(7)
        for (t = 1; t <= n; t++) {
            noise = 0; for (i = 0; i < 12; i++) noise += rand(); noise -= 6
            loss = sprintf("%.4f", 1.4 + 1.5 * exp(-t / 80) + 0.03 * noise + (kind == "spike" && t == 250 ? 1.5 : 0))
            if (kind == "nan" && t >= 300) loss = "nan"
            if (kind == "stuck" && t >= 300) loss = "1.5312"
            if (kind == "diverge" && t >= 300) loss = 1.4 + (t - 300) * 0.03
            if (kind == "wave") loss += 0.09 * sin(t * 6.2831853 / 25)
            printf "{\"step\": %d, \"loss\": %s, \"grad_norm\": %.4f}\n", t, loss, 0.5 + 0.2 * rand() } }'
}
for kind in clean spike nan stuck diverge wave; do log "$kind" 400 >"$kind.log"; done

expect "clean" 0 "$ASSAY" watch --once clean.log
says "clean" out "no anomaly in 800 values of 2 series"
expect "a spike is a warning" 0 "$ASSAY" watch --once spike.log
says "a spike is a warning" out "step 250: the loss jumped"
expect "a spike counts when asked" 1 "$ASSAY" watch --once --fail-on warning spike.log
expect "NaN" 1 "$ASSAY" watch --once nan.log
says "NaN has its step" out "step 300: the loss is not finite"
says "NaN has its line" out "nan.log:300"
expect "a stuck loader" 1 "$ASSAY" watch --once stuck.log
says "a stuck loader" out "the loss repeats exactly"
expect "divergence" 1 "$ASSAY" watch --once diverge.log
says "divergence" out "the loss rose to another level"
expect "a period and its source" 1 "$ASSAY" watch --once --fail-on warning --fact save_steps=250 --fact shard=25 wave.log
says "a period and its source" out "the length of shard"
printf 'stage: sft\nmodel_name_or_path: /nowhere\nsave_steps: 75\n' >job.yaml
expect "a length from a configuration" 1 "$ASSAY" watch --once --fail-on warning --config job.yaml wave.log
says "a length from a configuration" out "1/3 of the length of save_steps"
expect "two logs without ranks are two series" 1 "$ASSAY" watch --once clean.log nan.log
says "two logs without ranks are two series" out "numbered from 0 in the order given"
if grep -q shift out; then echo "FAILED: two logs were read as one"; FAILED=1; fi
awk 'BEGIN { print "step,loss,grad_norm"; for (i = 1; i <= 80; i++) printf "%d,%s,1.%d\n", i, i == 60 ? "nan" : 2 + (i % 7) / 100, i % 9 }' >run.csv
expect "a table" 1 "$ASSAY" watch --once run.csv
says "a table" out "step 60: the loss is not finite"
awk 'BEGIN { for (i = 1; i <= 80; i++) printf "step_time: 0.5%d\n", i % 7 }' >times.log
expect "no loss is told" 0 "$ASSAY" watch --once times.log
says "no loss is told" out "no line was understood as a loss"
expect "JSON" 1 "$ASSAY" watch --once --json nan.log
[ "$(jq -r '.findings[0].id' "$TMP/out")" = not-finite ] || { echo "FAILED JSON: id"; FAILED=1; }
[ "$(jq -r '.metrics[0].not_finite' "$TMP/out")" = 101 ] || { echo "FAILED JSON: count"; FAILED=1; }
expect "another limit" 0 "$ASSAY" watch --once --fail-on warning --limit spike.sigma=100 spike.log
gzip -k nan.log
expect "a compressed log" 1 "$ASSAY" watch --once nan.log.gz
expect "standard input" 1 bash -c "'$ASSAY' watch --once - <nan.log"

# nothing to judge is not "nothing wrong"
: >empty.log; echo hello >prose.log; log clean 20 >short.log; log nan 400 | sed -n '300,302p' >three.log
expect "an empty log" 2 "$ASSAY" watch --once empty.log
says "an empty log" err "no metric was found"
expect "prose" 2 "$ASSAY" watch --once prose.log
expect "too few values" 2 "$ASSAY" watch --once short.log
says "too few values" out "too few values"
expect "few, and NaN" 1 "$ASSAY" watch --once three.log
expect "no such log" 2 "$ASSAY" watch --once nowhere.log
says "no such log" err "nowhere.log"
mkdir folder
expect "a folder without a run" 2 "$ASSAY" watch --once folder
says "a folder without a run" err "run.json"
head -c 100000 /dev/urandom >noise.bin
expect "random bytes" 2 "$ASSAY" watch --once noise.bin

expect "no operand" 64 "$ASSAY" watch
expect "a wrong limit" 64 "$ASSAY" watch --once --limit spike.sgma=3 clean.log
says "a wrong limit" err "did you mean 'spike.sigma'"
expect "a wrong fact" 64 "$ASSAY" watch --once --fact save_steps clean.log
expect "webhook with --once" 64 "$ASSAY" watch --once --webhook http://127.0.0.1:9/ clean.log
expect "https" 64 "$ASSAY" watch --webhook https://example.org/ clean.log
says "https" err "https is not supported"
expect "no GPUs" 2 "$ASSAY" watch --gpus --root "$SOURCE/tests/hosts/cpu-only/root" clean.log
expect "unwritable output" 2 "$ASSAY" watch -o /nowhere/x clean.log
expect "limits" 0 "$ASSAY" watch --limits
says "limits" out "spike.sigma"

# ranks from file names
for r in 0 1 2 3; do
    awk -v r=$r 'BEGIN { srand(r); for (t = 1; t <= 60; t++) printf "{\"step\": %d, \"loss\": %.4f, \"step_time\": %.4f}\n", t, 2 + rand() / 10, (r == 2 ? 1.5 : 1) * (1 + rand() / 50) }' >rank_$r.log
done
expect "a slow rank" 1 "$ASSAY" watch --once --fail-on warning rank_*.log
says "a slow rank" out "rank 2 step 16: one rank is slower"

# ---- following ----
# wait_for FILE TEXT: up to ten seconds
wait_for() {
    for _ in $(seq 100); do
        grep -qF -- "$2" "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    echo "FAILED: '$2' did not come:"; sed 's/^/    /' "$1"; FAILED=1
}
mkdir run; echo '{"ending": "running"}' >run/run.json; head -n 200 clean.log >run/stdout.log
"$ASSAY" watch run >live.out 2>live.err &
watcher=$!
sleep 0.5
sed -n '201,299p' spike.log >>run/stdout.log
wait_for live.out "spike: step 250"
mv run/stdout.log run/old.log; sed -n '300,320p' nan.log >run/stdout.log # rotated
wait_for live.out "not-finite: step 300"
sed -n '300,302p' clean.log >run/stdout.log # cut
sleep 0.5
log diverge 2 | sed 's/"loss": [0-9.]*/"loss": inf/; s/"step": 1,/"step": 777,/' >>run/stdout.log
wait_for live.out "step 777"
kill -0 $watcher || { echo "FAILED: watch ended before the run"; FAILED=1; }
echo '{"ending": "exited", "status": 0}' >run/run.json
got=0; wait $watcher || got=$?
[ $got = 1 ] || { echo "FAILED: watch of a run ends with $got"; cat live.err; FAILED=1; }
grep -q '^watch: ' live.out || { echo "FAILED: no verdict"; FAILED=1; }

cp clean.log endless.log
"$ASSAY" watch endless.log >int.out 2>&1 &
watcher=$!
sleep 0.7; kill -INT $watcher
got=0; wait $watcher || got=$?
[ $got = 0 ] || { echo "FAILED: after Ctrl-C: $got"; cat int.out; FAILED=1; }
grep -q "no anomaly" int.out || { echo "FAILED: no verdict after Ctrl-C"; FAILED=1; }

mkdir silent; echo '{"ending": "running"}' >silent/run.json; head -n 60 clean.log >silent/stdout.log
"$ASSAY" watch --limit stall.seconds=1.5 --limit stall.ratio=2 silent >stall.out 2>&1 &
watcher=$!
for t in 61 62 63 64 65 66; do sleep 0.4; sed -n "${t}p" clean.log >>silent/stdout.log; done
wait_for stall.out "error stall: progress silent for"
echo '{"ending": "signal", "status": 137}' >silent/run.json
got=0; wait $watcher || got=$?
[ $got = 1 ] || { echo "FAILED: after a stall: $got"; FAILED=1; }

expect "lines of JSON from a pipe" 1 bash -c "set -o pipefail; cat nan.log | '$ASSAY' watch --json - | jq -e .schema_version >/dev/null; exit \${PIPESTATUS[1]}"

# ---- plots on a terminal ----
for kind in nan clean; do { cat $kind.log; echo "{'train_runtime': 9.5, 'train_loss': 1.5}"; } >ended-$kind.log; done
if command -v script >/dev/null; then
    LC_ALL=C.UTF-8 timeout 20 script -qec "stty rows 40 cols 100; '$ASSAY' watch ended-nan.log" screen.out </dev/null >/dev/null && { echo "FAILED: the view hides the exit status"; FAILED=1; }
    LC_ALL=C grep -aqP '\xe2[\xa0-\xa3][\x80-\xbf]' screen.out || { echo "FAILED: no braille"; FAILED=1; }
    grep -aq 'grad_norm' screen.out || { echo "FAILED: no plot of grad_norm"; FAILED=1; }
    grep -aqF $'\033[?1049h' screen.out && grep -aqF $'\033[?1049l' screen.out || { echo "FAILED: the screen is not given back"; FAILED=1; }
    grep -aq 'step 300: the loss is not finite' screen.out || { echo "FAILED: the anomaly is not left on the screen"; FAILED=1; }
    LC_ALL=C timeout 20 script -qec "stty rows 24 cols 60; '$ASSAY' watch ended-clean.log" screen.out </dev/null >/dev/null || { echo "FAILED: the view of a clean log"; FAILED=1; }
    grep -aq '\*\*' screen.out || { echo "FAILED: no plot without UTF-8"; FAILED=1; }
fi

# ---- a webhook that fails once, and one that is not there ----
command -v python3 >/dev/null && {
    python3 - hook.port >hook.out <<'PY' &
import http.server, sys
class Hook(http.server.BaseHTTPRequestHandler):
    calls = 0
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Hook.calls += 1
        self.send_response(503 if Hook.calls == 1 else 204)
        self.end_headers()
        print(Hook.calls, body.decode(), flush=True)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
server.timeout = 15
open(sys.argv[1] + ".new", "w").write(str(server.server_port))
import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
for _ in range(2):
    server.handle_request()
PY
    hook=$!
    for _ in $(seq 100); do [ -s hook.port ] && break; sleep 0.1; done
    expect "webhook" 1 bash -c "cat nan.log | '$ASSAY' watch --webhook http://localhost:$(cat hook.port)/x -"
    wait $hook
    [ "$(grep -c '"kind": "not-finite"' hook.out)" = 2 ] || { echo "FAILED: the webhook heard:"; cat hook.out; FAILED=1; }
    begin=$SECONDS
    expect "a webhook that is not there" 1 bash -c "cat nan.log | '$ASSAY' watch --webhook http://127.0.0.1:$(cat hook.port)/x -"
    says "a webhook that is not there" err "the webhook missed 1"
    [ $((SECONDS - begin)) -lt 20 ] || { echo "FAILED: a dead webhook held the program"; FAILED=1; }
}
finish
