#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions of one name behind each other, found by name, called or jumped to; and more calling libraries than one
# would think: all calls arrive, and each is told with who called and who served it.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
export LD_LIBRARY_PATH=$SHIMS
run=("$ASSAY" run --no-facts)

served() { # RUN LIBRARY CALLER CALLS
    "$ASSAY" report "$1" --json >report.json 2>&1 || true
    jq -e --arg l "$2" --arg c "$3" --argjson n "$4" \
        '[.libraries[] | select(.library == $l and .caller == $c) | .calls] == [$n]' report.json >/dev/null ||
        { echo "FAILED: $1: $2 by $3 not $4 times"; jq -c '.libraries[]' report.json; FAILED=1; }
}

for way in jump call; do
    expect "linked, $way" 0 "${run[@]}" --record "linked-$way" -- "$SHIMS/shim_linked_$way" linked
    served "linked-$way" "libshim$way.so" "shim_linked_$way" 3
    served "linked-$way" libshimback.so "libshim$way.so" 3
    expect "looked up, $way" 0 "${run[@]}" --record "lookup-$way" -- "$SHIMS/shim_job" lookup "libshim$way.so"
    served "lookup-$way" "libshim$way.so" shim_job 3
    served "lookup-$way" libshimback.so "libshim$way.so" 3
done

for i in $(seq 40); do cp "$SHIMS/libshimlauncher.so" "launcher$i.so"; done
expect "forty launchers" 0 "${run[@]}" --record many -- "$SHIMS/shim_job" launchers ./launcher*.so
for i in 1 23 40; do served many libshimback.so "launcher$i.so" 3; done
[ "$(jq '[.libraries[].calls] | add' report.json)" = 120 ] || { echo "FAILED: not 120 calls"; FAILED=1; }
finish
