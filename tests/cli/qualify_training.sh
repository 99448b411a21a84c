#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stage `training` of qualify: takes its known course here, leaves no file behind, and is no pass where
# it cannot be tried.
. "$(dirname "$0")/lib.sh"
mkdir "$TMP/scratch"
status=0
TMPDIR=$TMP/scratch timeout "$EXPECT_SECONDS" "$ASSAY" qualify --only training,checkpoint,resume --json -q >"$TMP/out" 2>"$TMP/err" || status=$?
[ "$status" = 0 ] || { echo "FAILED: exit $status"; FAILED=1; }
grep -A2 '"name": "training"' "$TMP/out" >"$TMP/stage" || true
grep -q '"verdict": "passed"' "$TMP/stage" || { echo "FAILED: $(cat "$TMP/stage")"; FAILED=1; }
grep -qE 'loss 6\.2666 to 5\.1912, evaluation 5\.1674' "$TMP/stage" || { echo "FAILED: $(cat "$TMP/stage")"; FAILED=1; }
[ -z "$(ls "$TMP/scratch")" ] || { echo "FAILED: left behind: $(ls "$TMP/scratch")"; FAILED=1; }

# The instrument's other side: a library whose products are wrong for some shapes is convicted.
status=0
LD_LIBRARY_PATH=$WRONG_BLAS timeout "$EXPECT_SECONDS" "$ASSAY" qualify --only training -q >"$TMP/out" 2>"$TMP/err" || status=$?
[ "$status" = 1 ] || { echo "FAILED: exit $status with a wrong BLAS"; FAILED=1; }
says "wrong BLAS" out "training-trajectory"

expect "no folder to train in" 2 env TMPDIR="$TMP/nowhere" "$ASSAY" qualify --only training,checkpoint --save "$TMP/kept" -q
says "not tried" out "training-not-tried"
says "nor its checkpoint" out "not run: checkpoint"
expect "no folder at all" 2 env TMPDIR="$TMP/nowhere" "$ASSAY" qualify --only training
says "no folder at all" err "cannot make a folder for the work"
expect "another machine" 1 "$ASSAY" qualify --root "$SOURCE/tests/hosts/container-wrong-render-gid/root"
says "another machine" out "only this machine can train"
expect "no such stage" 64 "$ASSAY" qualify --only traning
finish
