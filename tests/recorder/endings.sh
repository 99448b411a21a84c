#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How a process ended is told as it was: a pointer to nothing, a stack that ran out, abort() with its words, a signal
# that somebody sent, _exit().
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)
no() { # no NAME FILE TEXT: it is not there
    if grep -qF -- "$3" "$2"; then echo "FAILED $1: '$3' is in its $2"; FAILED=1; fi
}

expect "null pointer" 139 "${run[@]}" --record null -- "$ENDINGS" null
says "null pointer" err "it read address 0x18"
says "the last step is told" err "killed by SIGSEGV after"
says "the last step is told" err "last step told: 2"
no "a guard does not help against null" err "--guard"
no "the log is not asked where the record tells" err "crash-unexplained"

expect "stack overflow without a stack for handlers" 139 "${run[@]}" --record overflow -- "$ENDINGS" overflow
says "stack overflow" err "the stack ran out in record_endings: deep"

expect "abort with words" 134 "${run[@]}" --record abort -- "$ENDINGS" abort
says "abort with words" err "abort() in record_endings: main: terminate called after throwing an instance of 'std::runtime_error' what():  my_op: expected 4 dims, got 3"
no "a guard does not help against an exception" err "--guard"
no "the abort is explained" err "core-dumped"

expect "a signal to itself" 139 "${run[@]}" --record self -- "$ENDINGS" self
says "a signal to itself" err "sent signal SEGV to itself"
expect "a signal from another" 139 "${run[@]}" --record sent -- "$ENDINGS" sent
says "a signal from another" err "was sent signal SEGV by process"

expect "_exit in a child" 0 "${run[@]}" --record forked -- "$ENDINGS" forked
says "_exit in a child" err "left by _exit(0)"
no "_exit in a child" err "killed"
expect "_exit" 7 "${run[@]}" --record leave -- "$ENDINGS" leave 7
says "_exit" err "record_endings, called _exit(7)"

expect "names of signals are no crash" 0 "${run[@]}" --record quiet -- "$ENDINGS" quiet
says "names of signals are no crash" err "no fault observed"

expect "a command that is not there" 127 "${run[@]}" --record missing -- ./is-not-there
says "a command that is not there" err "run: not started: No such file or directory (ENOENT)"
no "a command that is not there" err "no process left a record"
expect "a time limit" 124 "${run[@]}" --timeout 1 --record limit -- sleep 30
no "the limit is the cause" err "no cause is known"
: >out
# Under nohup the command would ignore it.
env --default-signal=HUP "${run[@]}" --record hup -- sh -c 'echo ready; exec sleep 30' 2>err >out </dev/null &
for _ in $(seq 100); do ! grep -q ready out || break; sleep 0.1; done
kill -HUP $!; wait $! || true
says "who was asked to stop" err "interrupted by SIGHUP"

# numpy's arrays come from malloc: a guard that no operand met says nothing.
expect "a guard that no operand met" 2 "${run[@]}" --guard --record unmet -- "$ENDINGS" quiet
says "a guard that no operand met" err "none of the 1 recorded products had a guarded operand"

# Of many products the one that fails stands in the table, however late it was tried. (A sanitized assay takes no preloaded library.)
if [ -z "${SANITIZED:-}" ] && cc -O1 -shared -fPIC -DWRONG_ABOVE=68 -o libwrong.so "$SOURCE/tests/recorder/tiny_blas.c" 2>/dev/null; then
    expect "many products" 0 env LD_PRELOAD="$TMP/libwrong.so" "${run[@]}" --record many -- "$ENDINGS" many
    expect "what fails stands first" 1 "$ASSAY" reproduce many
    grep -A 2 '^replayed alone:' out | grep -q 'NN 2x2x69 float32.* fails ' || { echo "FAILED: what fails is not the first of the table"; FAILED=1; }
fi

# What hangs is told by its state, not by a name of the kernel's alone.
expect "a loop" 124 "${run[@]}" --hang 2 --kill-hung --record loop -- sh -c "\"$ENDINGS\" loop; true"
says "a loop" err "(record_endings) computes, or loops: it is in no system call"
expect "a deadlock" 124 "${run[@]}" --hang 2 --kill-hung --record deadlock -- "$ENDINGS" deadlock
says "a deadlock" err "waits for a lock, as do all its 3 threads (futex)"
if command -v gdb >/dev/null; then
    says "a deadlock" err "native: "
fi

# A log that is read no more ends the program as it would without us.
SECONDS=0
{ timeout 20 "${run[@]}" -q --record pipe -- sh -c 'while echo line; do :; done' 2>/dev/null || true; } | head -n 1 >out
[ "$SECONDS" -lt 15 ] || { echo "FAILED: a program whose reader is gone does not end"; FAILED=1; }

# A limit on file sizes is the program's affair: it meets no SIGXFSZ of ours, and neither do we.
expect "a limit on file sizes" 0 bash -c 'ulimit -f 1000; exec "$@"' - "${run[@]}" --record small -- "$ENDINGS" quiet
says "a limit on file sizes" err "ulimit -f"
expect "a limit on file sizes, and much output" 3 bash -c 'ulimit -f 100; exec "$@"' - "${run[@]}" --record small2 -- sh -c 'i=0; while [ $i -lt 9000 ]; do echo "line $i, and some room for it"; i=$((i+1)); done; exit 3'
says "a limit on file sizes, and much output" err "the logs of the run are not whole"

# The end of the run is kept where the disk has no room for anything more.
if [ "$(id -u)" = 0 ] && mkdir full && mount -t tmpfs -o size=200k none full 2>/dev/null; then
    expect "a full disk" 4 "${run[@]}" --record full/run -- sh -c 'i=0; while [ $i -lt 9000 ]; do echo "line $i, and some room for it"; i=$((i+1)); done; exit 4'
    expect "a full disk, later" 1 "$ASSAY" report full/run
    says "a full disk, later" out "exited with status 4"
    umount full
fi
finish
