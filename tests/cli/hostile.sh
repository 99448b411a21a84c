#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pickles and archives that would run code when loaded: each is flagged, and reading them executes
# nothing, connects to nothing and writes nothing (watched with strace where it is there).
. "$(dirname "$0")/lib.sh"
: "${READ_CHECKPOINT:?}"
command -v python3 >/dev/null || { echo "python3 is missing"; exit 77; }
python3 "$SOURCE/tools/make_hostile.py" "$TMP/hostile" >"$TMP/made"
count=$(find "$TMP/hostile" -type f | wc -l)
[ "$count" -ge 100 ] || { echo "FAILED: only $count hostile files were made"; FAILED=1; }

if [ -z "${SANITIZED:-}" ] && command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    strace -f -o "$TMP/trace" -e trace=execve,execveat,fork,vfork,clone,clone3,connect,socket,bind,open,openat,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,symlink,symlinkat,truncate,ftruncate \
        "$READ_CHECKPOINT" "$TMP"/hostile/* >"$TMP/out" 2>"$TMP/err" || true
    # The program's own start, and opening to read, are all that may be seen.
    if grep -vE 'execve\("[^"]*read_checkpoint"|O_RDONLY|^[0-9]+ +(\+\+\+|---)' "$TMP/trace" | grep -q .; then
        echo "FAILED: reading did more than read:"
        grep -vE 'execve\("[^"]*read_checkpoint"|O_RDONLY|^[0-9]+ +(\+\+\+|---)' "$TMP/trace" | head
        FAILED=1
    fi
    [ "$(grep -c execve "$TMP/trace")" = 1 ] || { echo "FAILED: a program was executed"; FAILED=1; }
    [ "$(grep -c O_RDONLY "$TMP/trace")" -ge "$count" ] || { echo "FAILED: the files were not seen being read"; FAILED=1; }
else
    "$READ_CHECKPOINT" "$TMP"/hostile/* >"$TMP/out" 2>"$TMP/err" || true
fi
[ ! -e "$TMP/executed" ] || { echo "FAILED: a payload ran"; FAILED=1; }
[ "$(wc -l <"$TMP/out")" = "$count" ] || { echo "FAILED: not every file has its line"; FAILED=1; }
if grep -v ' rejected ' "$TMP/out"; then
    echo "FAILED: hostile files were accepted"
    FAILED=1
fi
# Nothing may be rejected for the wrong reason alone: the list of dangerous names does its part.
[ "$(grep -c 'pickle-dangerous-global' "$TMP/out")" -ge 60 ] || { echo "FAILED: too few are named"; FAILED=1; }
finish
