#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gates a CI job on the GPU stack: no training starts on a stack that is not fit. Used by the three files beside it.
#
#   gate.sh [FOLDER]     writes qualification.json, junit.xml, report.html, summary.md to FOLDER (default: assay-gate)
#
#   QUALIFY_OPTIONS      more options of 'assay qualify': --python /srv/venv --device cuda; what is not asked for, as
#                        --skip linear-attention: a stage that was asked for and cannot run closes the gate
#   STACK_LOCK           a file of 'assay snapshot': what changed since is told too (and fails nothing by itself)
#
# Exit status: that of 'assay qualify'. 0 nothing wrong, 1 a fault was found, 2 could not tell: never taken as a pass.
set -u
folder=${1:-assay-gate}
mkdir -p "$folder" || exit 2

status=0
# shellcheck disable=SC2086 # the options are words
assay qualify --quiet --json -o "$folder/qualification.json" ${QUALIFY_OPTIONS:-} || status=$?
if [ ! -s "$folder/qualification.json" ]; then
    echo "gate: assay qualify left no record (exit status $status)" >&2
    exit 2
fi

records=$folder/qualification.json
if [ -n "${STACK_LOCK:-}" ]; then
    changed=0
    # shellcheck disable=SC2086
    assay diff "$STACK_LOCK" --quiet --json -o "$folder/changes.json" ${DIFF_OPTIONS:-} || changed=$?
    if [ -s "$folder/changes.json" ]; then
        records="$records $folder/changes.json"
    else
        echo "gate: no comparison with $STACK_LOCK (exit status $changed)" >&2
    fi
fi

# The forms are for people and for the CI system; the verdict is qualify's alone.
for form in html:report.html markdown:summary.md; do
    # shellcheck disable=SC2086
    assay report $records --format "${form%%:*}" -o "$folder/${form#*:}" || true
done
assay report "$folder/qualification.json" --format junit -o "$folder/junit.xml" || true
assay report "$folder/qualification.json" || true

case $status in
0) echo "gate: passed" ;;
1) echo "gate: closed, a fault was found" >&2 ;;
*) echo "gate: closed, it could not be told whether the stack is fit" >&2 ;;
esac
exit "$status"
