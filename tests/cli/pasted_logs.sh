#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Logs as people paste them, cut and without a machine's facts: the first cause named is the
# one in the file's name (CLASS--WHAT.log).
. "$(dirname "$0")/lib.sh"
for log in "$SOURCE"/tests/samples/pasted/*--*.log; do
    want=$(basename "$log"); want=${want%%--*}
    expect "pasted $(basename "$log")" 1 "$ASSAY" diagnose --json "$log"
    got=$(jq -r ".causes[0].class" "$TMP/out")
    [ "$got" = "$want" ] || { echo "FAILED $(basename "$log"): the first cause is $got"; FAILED=1; }
done
# Warnings of runs that end well are no fault.
for log in "$SOURCE"/tests/samples/healthy/*.log; do
    expect "healthy $(basename "$log")" 0 "$ASSAY" diagnose "$log"
done
finish
