#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# -h, --help, the man page and the three completions come from one table: they must name the same
# options, and each command must have them all.
. "$(dirname "$0")/lib.sh"

expect overview 0 "$ASSAY" help
commands=$(sed -n 's/^  \([a-z]\{3,\}\)  .*/\1/p' "$TMP/out" | grep -vx -e help -e assay)
[ "$(echo "$commands" | wc -l)" -ge 4 ] || { echo "FAILED: only these commands: $commands"; FAILED=1; }

for shell in bash zsh fish; do
    expect "completion $shell" 0 "$ASSAY" completion $shell
    cp "$TMP/out" "$TMP/$shell"
done
bash -n "$TMP/bash" || FAILED=1

for c in $commands; do
    expect "$c -h" 0 "$ASSAY" "$c" -h
    options=$(grep -oE -- '(^| )--[a-z][a-z-]*' "$TMP/out" | tr -d ' ' | sort -u)
    [ -n "$options" ] || { echo "FAILED $c -h lists no option"; FAILED=1; }
    expect "$c --help" 0 "$ASSAY" "$c" --help
    cp "$TMP/out" "$TMP/long"
    says "$c --help has examples first" long "Examples:"
    expect "man $c" 0 "$ASSAY" man "$c"
    sed 's/\\-/-/g' "$TMP/out" >"$TMP/man"
    if command -v mandoc >/dev/null; then
        problems=$(mandoc -T lint <"$TMP/out" 2>&1 | grep -v 'referenced manual not found' || true)
        [ -z "$problems" ] || { echo "FAILED man $c: $problems"; FAILED=1; }
    fi
    for o in $options; do
        grep -qF -- "$o" "$TMP/long" || { echo "FAILED: $o of $c is not in --help"; FAILED=1; }
        grep -qF -- "Fl -${o#--}" "$TMP/man" || { echo "FAILED: $o of $c is not in its man page"; FAILED=1; }
        for shell in bash zsh; do
            grep -qF -- "$o" "$TMP/$shell" || { echo "FAILED: $o of $c is not in $shell"; FAILED=1; }
        done
        grep -qE -- "from $c' .*-l ${o#--}( |$)" "$TMP/fish" || { echo "FAILED: $o of $c is not in fish"; FAILED=1; }
    done
    # An option must be accepted, not only listed.
    expect "unknown option of $c" 64 "$ASSAY" "$c" --no-such-option
    says "unknown option of $c" err "no option --no-such-option"
done

expect "no command" 64 "$ASSAY"
expect "unknown command" 64 "$ASSAY" docter
says "a typo gets a suggestion" err "did you mean 'doctor'"
expect "typo in an option" 64 "$ASSAY" doctor --jsn
says "a typo in an option gets a suggestion" err "did you mean --json"
expect "value missing" 64 "$ASSAY" doctor --root
expect "value not allowed" 64 "$ASSAY" doctor --format yaml
says "choices are named" err "text|json|junit"
expect "empty value" 64 "$ASSAY" doctor --root ''
expect "a folder as the output" 2 "$ASSAY" doctor -o "$TMP"
says "a folder as the output" err "Is a directory"
[ ! -s "$TMP/out" ] || { echo "FAILED: the command ran although its output cannot be written"; FAILED=1; }
expect "an output in no folder" 2 "$ASSAY" doctor -o "$TMP/nowhere/out.txt"
says "an output in no folder" err "the result is on standard output"
says "an output in no folder" out "health"
expect version 0 "$ASSAY" --version
finish
