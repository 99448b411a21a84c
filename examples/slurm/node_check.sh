#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Is this node fit? For prolog.sh and health_check.sh: prints the errors of 'assay doctor', one a line.
#
#   ASSAY           the program (default: assay)
#   CHECK_SECONDS   how long it may take (default: 30; Slurm ends a HealthCheckProgram after 60)
#   CHECK_OPTIONS   more options of 'assay doctor'
#   CHECK_STATE     folder for the number of the running process (default: /run)
#
# Exit status: 1 when doctor finds an error (a warning is none). 0 otherwise: when nothing is wrong, and when assay is
# missing, takes too long, is killed, or could not tell. A broken check never takes a node out of service.
#
# A process that hangs in a driver cannot be killed and must not be waited for: it is left behind, and as long as it
# lives no second one is started.
set -u
seconds=${CHECK_SECONDS:-30}
state=${CHECK_STATE:-/run}/assay-node-check.pid

command -v "${ASSAY:-assay}" >/dev/null 2>&1 || {
    echo "assay: not found; the node was not checked" >&2
    exit 0
}
# When a process began, in ticks since boot (proc(5), field 22): numbers of processes are used again.
began() { cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null; }
if read -r old start 2>/dev/null <"$state" && [ -n "$start" ] && [ "$(began "$old")" = "$start" ]; then
    echo "assay: an earlier check still hangs; the node was not checked" >&2
    exit 0
fi
out=$(mktemp) || exit 0
trap 'rm -f "$out"' EXIT

# shellcheck disable=SC2086 # the options are words
"${ASSAY:-assay}" doctor --json --quiet ${CHECK_OPTIONS:-} >"$out" 2>/dev/null </dev/null &
pid=$!
echo "$pid $(began "$pid")" 2>/dev/null >"$state" || true
while kill -0 "$pid" 2>/dev/null; do
    if [ "$seconds" -le 0 ]; then
        kill -9 "$pid" 2>/dev/null
        echo "assay: no answer in time; the node was not checked" >&2
        exit 0
    fi
    seconds=$((seconds - 1))
    sleep 1
done
status=0
wait "$pid" 2>/dev/null || status=$?
rm -f "$state"
[ "$status" -eq 1 ] || exit 0

# A title stands behind the severity of its finding; the weights of the score have none.
errors=$(sed -n '/^ *"severity": "error",$/{n;s/^ *"title": "\(.*\)",$/\1/p;}' "$out" | tr -cd '[:print:]\n')
[ -n "$errors" ] || exit 0
printf '%s\n' "$errors"
exit 1
