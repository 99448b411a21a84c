#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's tour: the examples give the answer that is printed there, and every evidence line is
# the very line of the file it names (a rewound arena once put another line in its place).
. "$(dirname "$0")/lib.sh"
cd "$SOURCE"

expect "diagnose the example" 1 "$ASSAY" diagnose --json --kernel-log examples/kernel.log examples/train.log
cp "$TMP/out" "$TMP/answer.json"
[ "$(jq -r '.causes[0].class' "$TMP/answer.json")" = hipblaslt-kernel ] || { echo "FAILED: the example's cause"; FAILED=1; }
sources=$(jq -r '.causes[0].evidence[] | select(.line != null).source' "$TMP/answer.json" | sort -u | tr '\n' ' ')
[ "$sources" = "examples/kernel.log examples/train.log " ] || { echo "FAILED: evidence from: $sources"; FAILED=1; }

# evidence of every cause of every corpus log with a kernel log
jq -c -n '[inputs | select(.kernel_log != null)] | .[:25][]' corpus/cases.jsonl >"$TMP/cases"
n=0
while read -r case; do
    jq -r .log <<<"$case" >"$TMP/train.log"
    jq -r .kernel_log <<<"$case" >"$TMP/kernel.log"
    jq .facts <<<"$case" >"$TMP/facts.json"
    "$ASSAY" diagnose --json --kernel-log "$TMP/kernel.log" --facts "$TMP/facts.json" "$TMP/train.log" >"$TMP/answer.json" || true
    while IFS=$'\t' read -r source line text; do
        real=$(sed -n "${line}p" "$source" | tr -d '\r')
        text=${text%%  (* times)}
        text=${text%%  => *}
        head=${text:0:60}
        case $real in
        *"$head"*) n=$((n + 1)) ;;
        *) echo "FAILED: $(jq -r .id <<<"$case"): $(basename "$source"):$line is not '$head'"; FAILED=1 ;;
        esac
    done < <(jq -r '.causes[].evidence[] | select(.line != null) | [.source, .line, .text] | @tsv' "$TMP/answer.json")
done <"$TMP/cases"
[ "$n" -ge 20 ] || { echo "FAILED: only $n evidence lines were compared"; FAILED=1; }
echo "$n evidence lines stand where they are said to"

expect "doctor on a frozen machine" 1 "$ASSAY" doctor --root tests/hosts/container-wrong-render-gid/root
says "doctor on a frozen machine" out "--group-add 109"
expect "the score is the last line" 1 bash -c "'$ASSAY' doctor --root tests/hosts/container-wrong-render-gid/root | tail -n 1 | grep -q '^health .*: -40'; exit \$((1 - \$?))"
expect "Chinese texts" 1 "$ASSAY" doctor --lang zh --root tests/hosts/container-wrong-render-gid/root
says "Chinese texts" out "缺少宿主机的组编号"
expect "a language without texts" 2 "$ASSAY" doctor --lang xx --root tests/hosts/cpu-only/root
says "a language without texts" err "no texts in the language 'xx'"
expect "junit" 1 "$ASSAY" doctor --format junit --root tests/hosts/container-wrong-render-gid/root
says "junit" out "<failure type=\"error\""
finish
