#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad input gets a clear sentence, the right exit status and bounded memory; it never hangs.
. "$(dirname "$0")/lib.sh"
# A sanitizer reserves terabytes of address space for its shadow: there the ceiling cannot be set.
[ -n "${SANITIZED:-}" ] || ulimit -v 6000000

: >"$TMP/empty.log"
expect "empty log" 2 "$ASSAY" diagnose "$TMP/empty.log"
says "empty log" err "empty"

head -c 300000 /dev/urandom >"$TMP/binary.log"
expect "binary log" 2 "$ASSAY" diagnose "$TMP/binary.log"
says "binary log" err "binary"

expect "missing log" 2 "$ASSAY" diagnose "$TMP/nowhere.log"
says "missing log" err "nowhere.log"
says "missing log names the errno" err "ENOENT"

echo x >"$TMP/secret.log"; chmod 000 "$TMP/secret.log"
if [ "$(id -u)" -ne 0 ]; then
    expect "unreadable log" 2 "$ASSAY" diagnose "$TMP/secret.log"
    says "unreadable log names the errno" err "EACCES"
fi

mkdir -p "$TMP/loop/a"; ln -s .. "$TMP/loop/a/up"
echo "RuntimeError: HIP error: invalid device function" >"$TMP/loop/a/rank_0.log"
expect "directory loop" 1 "$ASSAY" diagnose "$TMP/loop"

mkdir "$TMP/emptydir"
expect "empty directory" 2 "$ASSAY" diagnose "$TMP/emptydir"

printf 'RuntimeError: HIP error: invalid device function\n' >"$TMP/plain.log"
gzip -c "$TMP/plain.log" >"$TMP/whole.gz"
head -c 40 "$TMP/whole.gz" >"$TMP/cut.gz"
expect "whole gzip" 1 "$ASSAY" diagnose "$TMP/whole.gz"
"$ASSAY" diagnose "$TMP/cut.gz" >"$TMP/out" 2>"$TMP/err" </dev/null && { echo "FAILED: a cut gzip exits 0"; FAILED=1; }
cat "$TMP/out" "$TMP/err" >"$TMP/both"
says "cut gzip is reported" both "cut.gz"

# A line of 30 MB without an end, with the fault at its very end.
{ head -c 30000000 /dev/zero | tr '\0' 'x'; printf ' RuntimeError: HIP error: invalid device function\n'; } >"$TMP/long.log"
expect "30 MB line" 1 "$ASSAY" diagnose "$TMP/long.log"

printf 'a\0b\0\xff\xfe\x80 RuntimeError: HIP error: invalid device function\n' >"$TMP/nul.log"
expect "NUL and invalid UTF-8" 1 "$ASSAY" diagnose --json "$TMP/nul.log"
jq -e . "$TMP/out" >/dev/null 2>&1 || { echo "FAILED: JSON of a log with invalid UTF-8 does not parse"; FAILED=1; }

echo '{"gpu.count": "two"}' >"$TMP/facts.json"
expect "fact of the wrong type" 2 "$ASSAY" diagnose --facts "$TMP/facts.json" "$TMP/plain.log"
says "fact of the wrong type" err "gpu.count"
echo '{"gpu.count": ' >"$TMP/facts.json"
expect "facts that are not JSON" 2 "$ASSAY" diagnose --facts "$TMP/facts.json" "$TMP/plain.log"
says "facts that are not JSON" err "facts.json"
echo '[1, 2]' >"$TMP/facts.json"
expect "facts that are a list" 2 "$ASSAY" diagnose --facts "$TMP/facts.json" "$TMP/plain.log"

{ echo 'a: &a [x,x,x,x,x,x,x,x,x]'; for i in b c d e f g h; do echo "$i: &$i [*a,*a,*a,*a,*a,*a,*a,*a]"; done; } >"$TMP/bomb.yaml"
expect "YAML bomb as configuration" 2 "$ASSAY" doctor --config "$TMP/bomb.yaml" --root "$SOURCE/tests/hosts/cpu-only/root"
says "YAML bomb" err "alias"

mkdir -p "$TMP/k/patterns"; echo 'patterns: [{id: x, regex: "("}]' >"$TMP/k/patterns/x.yaml"
expect "knowledge with a broken pattern" 2 "$ASSAY" diagnose --knowledge "$TMP/k" "$TMP/plain.log"

expect "root that is not there" 2 "$ASSAY" doctor --root "$TMP/nowhere"
expect "output that cannot be written" 2 "$ASSAY" doctor --root "$SOURCE/tests/hosts/cpu-only/root" -o "$TMP/nowhere/x"
expect "no log" 64 "$ASSAY" diagnose
mkfifo "$TMP/fifo"
# Opened for both ways, so that a reader that never comes does not hold this script for ever.
(exec 3<>"$TMP/fifo"; sleep 1; cat "$TMP/plain.log" >&3; sleep 1) &
expect "a pipe" 1 "$ASSAY" diagnose "$TMP/fifo"
wait
finish
