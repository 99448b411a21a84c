#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay qualify --history: the first run, later ones, a machine that became slow, and files that are none.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
export LC_ALL=C
run=("$ASSAY" qualify --device cpu --only host,training --history h.sqlite)
expect "first" 0 "${run[@]}"
says "first" out "first"
rows() { sqlite3 h.sqlite "SELECT count(*) FROM $1"; }
command -v sqlite3 >/dev/null || { echo "sqlite3 is not installed"; exit 77; }
[ "$(rows run)" = 1 ] && [ "$(rows figure)" -ge 4 ] || { echo "FAILED: $(rows run) runs, $(rows figure) figures"; FAILED=1; }
[ "$(sqlite3 h.sqlite "SELECT count(*) FROM figure WHERE name = 'training' AND unit = 'tokens/s' AND less = 0")" = 1 ] || FAILED=1
[ "$(sqlite3 h.sqlite "SELECT count(*) FROM figure WHERE name = 'copy to the device' AND unit = 'GB/s' AND less = 0")" = 1 ] || FAILED=1
# This machine used to be a hundred times as fast, six times over; nothing else is known of it.
sqlite3 h.sqlite "DELETE FROM figure WHERE name <> 'training'; UPDATE figure SET value = value * 100;
    INSERT INTO run(at, host, device, stack) SELECT 1, host, device, stack FROM run, (VALUES (1),(2),(3),(4),(5));
    INSERT INTO figure SELECT r.id, f.name, f.unit, f.less, f.value FROM figure f, run r WHERE r.at = 1"
expect "slower" 1 "${run[@]}"
says "slower" out "training: slower than this machine's own baseline:"
says "slower" out "bound 1.08"
says "slower" out "history-slower"
[ "$(sqlite3 h.sqlite "SELECT count(*) FROM figure WHERE name = 'training'")" = 6 ] || { echo "FAILED: a slow run joined the baseline"; FAILED=1; }
# With another stack the same is told, and becomes the baseline of that stack.
sqlite3 h.sqlite "UPDATE run SET stack = 'another'"
expect "another stack" 1 "${run[@]}"
says "another stack" out "another stack"
[ "$(sqlite3 h.sqlite "SELECT count(*) FROM figure WHERE name = 'training'")" = 7 ] || { echo "FAILED: the new stack has no baseline"; FAILED=1; }

echo "not a database at all, only some words that are long enough to be read as the header of one, one hundred bytes and more" >text
expect "no SQLite" 2 "$ASSAY" qualify --only host --history text
says "no SQLite" err "'text' is no SQLite file"
sqlite3 foreign "CREATE TABLE t(x)"
expect "of another program" 2 "$ASSAY" qualify --only host --history foreign
says "of another program" err "the SQLite file of another program"
expect "no folder" 2 "$ASSAY" qualify --only host --history nowhere/h
says "no folder" err "cannot open 'nowhere/h'"
[ "$(sqlite3 foreign .tables)" = t ] || { echo "FAILED: another program's file was changed"; FAILED=1; }
finish
