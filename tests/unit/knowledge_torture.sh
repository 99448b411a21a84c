#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# knowledge_torture.sh MKKNOWLEDGE FAIL_LIB SAMPLE: fails each malloc, open, read and opendir of
# reading a knowledge folder in turn. Every one must end with a sentence and a status that is not 0, or
# with the whole knowledge (libstdc++ can do without its first allocation), never by a signal: what was
# read in part must not pass for whole. Exit 77: not possible.
set -u
tool=$1 lib=$2 sample=$3
case $(ldd "$tool") in *asan*) echo "the sanitizer owns malloc"; exit 77 ;; esac
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0

whole=$("$tool" --check "$sample") || { echo "FAILED: the sample itself is not in order"; exit 1; }
for call in malloc open read opendir; do
    FAIL_CALL=$call FAIL_NTH=0 FAIL_COUNT="$tmp/count" LD_PRELOAD="$lib" "$tool" --check "$sample" >/dev/null 2>&1
    total=$(cat "$tmp/count")
    [ "$total" -gt 0 ] || { echo "FAILED: no $call was seen"; failed=1; }
    step=$((total / 60 + 1))
    for ((n = 1; n <= total; n += step)); do
        status=0
        FAIL_CALL=$call FAIL_NTH=$n LD_PRELOAD="$lib" timeout 20 "$tool" --check "$sample" >"$tmp/out" 2>"$tmp/err" || status=$?
        if [ "$status" -ge 124 ] || { [ "$status" -ne 0 ] && [ ! -s "$tmp/err" ]; }; then
            echo "FAILED: $call number $n of $total: exit $status"; head -n 3 "$tmp/err"; failed=1
        elif [ "$status" -eq 0 ] && [ "$(cat "$tmp/out")" != "$whole" ]; then
            echo "FAILED: $call number $n of $total fails and nothing is said"; failed=1
        fi
    done
    echo "$call: failed at $(((total + step - 1) / step)) of $total places"
done
exit $failed
