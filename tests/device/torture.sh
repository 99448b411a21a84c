#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: torture.sh TRIAL FAIL_LIBRARY: the n-th mmap fails, for every n of a run: the guard must say
# what it could not do, or prove itself; it must not crash, hang or claim what it did not see.
set -uo pipefail
trial=$1 fail=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
for call in mmap open read; do
    for n in $(seq 1 12); do
        out=$(LD_PRELOAD=$fail FAIL_CALL=$call FAIL_NTH=$n timeout 60 "$trial" cpu prove 2>"$work/err")
        status=$?
        if [ $status -gt 2 ]; then
            echo "$call $n: status $status"; cat "$work/err"; bad=1
        elif [ $status -eq 0 ] && ! grep -q 'were caught' <<<"$out"; then
            echo "$call $n: success without a proof: $out"; bad=1
        elif [ $status -ne 0 ] && ! grep -qE 'not proven|cannot|could not' <<<"$out"; then
            echo "$call $n: failure without a reason: $out"; bad=1
        fi
    done
done
exit $bad
