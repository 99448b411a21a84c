#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exporter: the page is what Prometheus reads, over HTTP and as a file; clients that do not behave harm
# nobody; a port in use, a folder that cannot be written are said.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$TMP"' EXIT
trap '' PIPE # a server that hangs up on us is part of the test
hosts=$SOURCE/tests/hosts
mkdir -p runs/first runs/second
for run in first second; do
    echo '{"ending": "running"}' >runs/$run/run.json
    awk 'BEGIN { srand(3); for (t = 1; t <= 100; t++) printf "{\"step\": %d, \"loss\": %s, \"grad_norm\": 0.%d, \"tokens_per_second\": 1000}\n", t, t == 90 ? "nan" : 1.5 + rand() / 10, 5000 + 1000 * rand() }' >runs/$run/stdout.log
done

# ---- the page ----
expect "once" 0 "$ASSAY" exporter --once --root "$hosts/mi300x/root" runs
cp out page
for line in 'assay_run_step{run="first"} 100' 'assay_run_anomalies_total{run="second",kind="not-finite"} 1' \
    'assay_run_tokens_per_second{run="first"} 1000' 'assay_gpu_memory_size_bytes{gpu="7"} ' 'assay_run_ended{run="first"} 0' \
    'assay_gpu_info{gpu="0",vendor="amd",name="AMD Instinct MI300X OAM"' 'assay_host_memory_size_bytes ' '# TYPE assay_run_anomalies_total counter'; do
    grep -qF -- "$line" page || { echo "FAILED: no '$line'"; FAILED=1; }
done
if command -v promtool >/dev/null; then
    promtool check metrics <page >lint 2>&1 || { echo "FAILED promtool:"; cat lint; FAILED=1; }
    promtool check rules "$SOURCE/examples/monitoring/alerts.yaml" >lint 2>&1 || { echo "FAILED rules:"; cat lint; FAILED=1; }
    promtool test rules "$SOURCE/tests/cli/alerts.yaml" >lint 2>&1 || { echo "FAILED alerts:"; cat lint; FAILED=1; }
fi
mkdir -p trials/base && cp -r runs/first trials/base/01
expect "an experiment's folder" 0 "$ASSAY" exporter --once --root "$hosts/cpu-only/root" trials
says "a repeat is named with its route" out 'assay_run_step{run="base/01"} 100'
expect "OpenMetrics" 0 "$ASSAY" exporter --once --openmetrics --root "$hosts/mi300x/root" runs
[ "$(tail -n 1 out)" = '# EOF' ] || { echo "FAILED: no EOF"; FAILED=1; }
says "OpenMetrics" out '# TYPE assay_run_anomalies counter'
says "OpenMetrics" out '# UNIT assay_gpu_memory_used_bytes bytes'
# each family once, its samples together
awk '/^# TYPE/ { if (seen[$3]++) { print "twice: " $3; bad = 1 } family = $3 }
     /^[a-z]/ { name = $1; sub(/[{ ].*/, "", name); sub(/_(total|info)$/, "", name); f = family; if (name != f) { print name " under " f; bad = 1 } }
     END { exit bad }' out || FAILED=1
# a GPU that gives no readings shows how many are missing instead of zeros
expect "no readings" 0 "$ASSAY" exporter --once --root "$hosts/h200/root"
grep -q '^assay_gpu_temperature_celsius' out && { echo "FAILED: a temperature from nowhere"; FAILED=1; }
says "no readings" out 'assay_gpu_missing_readings{gpu="0"} '
# names with quotes and line breaks stay one label
printf '{"step": 1, "loss": 1}\n' >$'odd"na\\me\n.log'
expect "an odd name" 0 "$ASSAY" exporter --once --root "$hosts/cpu-only/root" $'odd"na\\me\n.log'
says "an odd name" out 'assay_run_step{run="odd\"na\\me\n.log"} 1'

# ---- the text file ----
expect "text file" 0 "$ASSAY" exporter --once --textfile a.prom --root "$hosts/cpu-only/root" runs
grep -q 'assay_run_step{run="first"} 100' a.prom || { echo "FAILED: text file"; FAILED=1; }
[ "$(ls a.prom*)" = a.prom ] || { echo "FAILED: left behind: $(ls a.prom*)"; FAILED=1; }
expect "text file in no folder" 2 "$ASSAY" exporter --once --textfile nowhere/a.prom runs
says "text file in no folder" err "ENOENT"

# ---- the server ----
"$ASSAY" exporter --listen 127.0.0.1:0 --textfile live.prom --interval 1 --root "$hosts/mi300x/root" runs >server.out 2>server.err &
server=$!
for _ in $(seq 100); do grep -qs http:// server.err && break; sleep 0.1; done
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' server.err)
[ -n "$port" ] || { echo "FAILED: no port in:"; cat server.err; exit 1; }

# ask TEXT: one request by hand, the answer in `answer`
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf '%b' "$1" >&3 2>/dev/null || true
    timeout 5 cat <&3 >answer || true
    exec 3>&- 3<&-
}
has() { grep -aqF -- "$2" answer || { echo "FAILED $1: no '$2' in:"; head -n 5 answer; FAILED=1; }; }
ask 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
has "text format" "200 OK"; has "text format" "text/plain; version=0.0.4"; has "text format" 'assay_run_step{run="first"} 100'
ask 'GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\nConnection: close\r\n\r\n'
has "OpenMetrics is negotiated" "application/openmetrics-text; version=1.0.0"; has "OpenMetrics is negotiated" "# EOF"
ask 'HEAD /metrics HTTP/1.0\r\n\r\n'; has "HEAD" "Content-Length: "
[ "$(tr -d '\r' <answer | sed -n '/^$/,$p' | wc -c)" -le 1 ] || { echo "FAILED: HEAD has a body"; FAILED=1; }
ask 'GET /nothing HTTP/1.0\r\n\r\n'; has "404" "404 Not Found"
ask 'POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc'; has "405" "405 Method"
ask '\x16\x03\x01\x02\x00\x01\x00'; has "TLS" "400 Bad Request"
ask "GET / HTTP/1.1\r\nX: $(head -c 20000 /dev/zero | tr '\0' a)\r\n\r\n"; has "a long head" "431 "

# Two hundred silent connections, one that drips, rubbish: the next scrape is answered at once.
for i in $(seq 200); do exec {fd}<>"/dev/tcp/127.0.0.1/$port"; silent[i]=$fd; done
(exec 4<>"/dev/tcp/127.0.0.1/$port"; for c in G E T ' ' /; do printf '%s' "$c" >&4; sleep 0.2; done) &
drip=$!
head -c 100000 /dev/urandom 2>/dev/null >"/dev/tcp/127.0.0.1/$port" || true
before=$(date +%s%N)
ask 'GET /metrics HTTP/1.0\r\n\r\n'; has "beside a crowd" "200 OK"
[ $((($(date +%s%N) - before) / 1000000)) -lt 3000 ] || { echo "FAILED: a scrape took $(((($(date +%s%N) - before)) / 1000000)) ms"; FAILED=1; }
for i in $(seq 200); do fd=${silent[i]}; exec {fd}>&-; done
wait $drip || true

# A run that goes on, a new one, and the file that is written beside.
printf '{"step": 101, "loss": 1.25}\n' >>runs/first/stdout.log
for _ in $(seq 50); do
    ask 'GET /metrics HTTP/1.0\r\n\r\n'
    grep -aqF 'assay_run_step{run="first"} 101' answer && break
    sleep 0.1
done
has "a run that goes on" 'assay_run_step{run="first"} 101'
for _ in $(seq 50); do grep -qF 'assay_run_step{run="first"} 101' live.prom && break; sleep 0.1; done
grep -qF 'assay_run_step{run="first"} 101' live.prom || { echo "FAILED: the text file stays behind"; FAILED=1; }

# A new run is found, one that is gone is forgotten, a log that is gone is said.
mkdir runs/third; echo '{"ending": "exited", "status": 7}' >runs/third/run.json; rm -r runs/second
touch -d '2 days ago' runs/first/*
for _ in $(seq 150); do
    ask 'GET /metrics HTTP/1.0\r\n\r\n'
    grep -aqF 'assay_run_exit_status{run="third"} 7' answer && break
    sleep 0.1
done
has "a new run" 'assay_run_exit_status{run="third"} 7'
grep -aq 'run="second"\|run="first"' answer && { echo "FAILED: a run that is gone is still shown"; FAILED=1; }
expect "a port in use" 2 "$ASSAY" exporter --listen "127.0.0.1:$port"
says "a port in use" err "EADDRINUSE"
kill -TERM $server
got=0; wait $server || got=$?
[ $got = 0 ] || { echo "FAILED: the exporter ends with $got"; cat server.err; FAILED=1; }
touch runs/first/*
[ ! -s server.out ] || { echo "FAILED: something on standard output"; FAILED=1; }

expect "a wrong address" 64 "$ASSAY" exporter --listen nonsense
expect "a wrong interval" 64 "$ASSAY" exporter --textfile x.prom --interval 0
expect "interval without a file" 64 "$ASSAY" exporter --interval 5
expect "output without once" 64 "$ASSAY" exporter -o x.prom runs
expect "output of once" 0 "$ASSAY" exporter --once -o x.prom --root "$hosts/cpu-only/root" runs
grep -q assay_run_step x.prom || { echo "FAILED: --output"; FAILED=1; }
# More runs than are followed: those that go on win, history is left out and counted.
mkdir many
for i in $(seq 70); do mkdir many/$i; echo '{"ending": "exited", "status": 0}' >many/$i/run.json; done
mkdir many/alive; echo '{"ending": "running"}' >many/alive/run.json
expect "many runs" 0 "$ASSAY" exporter --once --root "$hosts/cpu-only/root" many
says "many runs" out 'assay_exporter_runs 64'
says "many runs" out 'assay_run_ended{run="alive"} 0'
expect "no such run" 2 "$ASSAY" exporter nowhere
expect "standard input" 64 "$ASSAY" exporter -
mkfifo pipe
expect "a pipe" 2 "$ASSAY" exporter --once pipe
finish
