#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the exporter does under load: 1,000 scrapes a second for a minute, with silent and rude clients beside
# them; resident memory before and after. usage: exporter.sh [BUILD_DIR]; RATE (1000 a second), TIME_S (60).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} rate=${RATE:-1000} seconds=${TIME_S:-60}
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# Eight runs of 2,000 steps.
for run in 1 2 3 4 5 6 7 8; do
    awk -v seed="$run" 'BEGIN { srand(seed); for (t = 1; t <= 2000; t++)
        printf "{\"step\": %d, \"loss\": %.4f, \"grad_norm\": %.4f, \"step_time\": %.3f}\n", t, 1.5 + 0.05 * rand(), 0.5 + rand(), 2 + 0.1 * rand() }' >"$work/run$run.log"
done
"$build/assay" exporter --listen 127.0.0.1:0 --root tests/hosts/mi300x/root "$work"/run*.log 2>"$work/said" &
server=$!
for _ in $(seq 100); do grep -q http:// "$work/said" && break; sleep 0.1; done
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$work/said")
rss() { awk '/VmRSS/ { print $2 " kB" }' "/proc/$server/status"; }

"$build/tests/tools/http_load" 127.0.0.1 "$port" /metrics "$rate" 2 >/dev/null || true
echo "page: $(curl -s "http://127.0.0.1:$port/metrics" | wc -c) bytes, $(nproc) cores"
echo "resident before: $(rss)"
# Eight clients that say nothing, and one that sends rubbish for as long as it is let.
for _ in 1 2 3 4 5 6 7 8; do (exec 3<>"/dev/tcp/127.0.0.1/$port"; sleep "$seconds") & done
(while head -c 20000 /dev/urandom | timeout 1 curl -s "telnet://127.0.0.1:$port" >/dev/null || true; kill -0 "$server" 2>/dev/null; do sleep 0.2; done) &
status=0
"$build/tests/tools/http_load" 127.0.0.1 "$port" /metrics "$rate" "$seconds" || status=$?
echo "resident after:  $(rss)"
curl -s "http://127.0.0.1:$port/metrics" | grep -E '^(assay_exporter_(pages|client_faults)|process_cpu)'
exit "$status"
