#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a newcomer gets wrong: one sentence that helps, the right exit status, and nothing left lying about.
. "$(dirname "$0")/lib.sh"

# lacks NAME FILE TEXT: the last command's out or err does not hold the text.
lacks() {
    if grep -qF -- "$3" "$TMP/$2"; then
        echo "FAILED $1: '$3' is in its $2"
        FAILED=1
    fi
}

# A wrong option of 'run' is told before a run folder is made.
for bad in --guard-every=1.5 --guard-every=nan --guard-min=1e400 --timeout=99999999999999999999 --hang=-1 --env==x \
    --guard-side=begin --expect=bogus; do
    expect "run $bad" 64 "$ASSAY" run --record "$TMP/run" "$bad" -- true
    [ ! -e "$TMP/run" ] || { echo "FAILED run $bad: it left a folder"; FAILED=1; rm -rf "$TMP/run"; }
done

: >"$TMP/empty"
expect "train on a file" 2 "$ASSAY" train "$TMP/empty"
says "train on a file" err "is no model folder"
expect "tokenizer of a device" 2 "$ASSAY" tokenizer show /dev/null
expect "data of a device" 2 "$ASSAY" data check /dev/null
says "data of a device" out "device, pipe or socket"

# A place without a text ends where it ends.
expect "empty model file" 1 "$ASSAY" checkpoint verify "$TMP/empty"
says "empty model file" out "evidence  $TMP/empty"
lacks "empty model file" out "$TMP/empty: "

# Any JSON is not the facts of a healthy machine.
echo '{"hello": 1}' >"$TMP/other.json"
expect "doctor --from another file" 2 "$ASSAY" doctor --from "$TMP/other.json"
says "doctor --from another file" err "holds no fact of a machine"
echo '{"schema_version": 99, "command": "doctor", "findings": []}' >"$TMP/record.json"
expect "diagnose --facts of another file" 2 "$ASSAY" diagnose --facts "$TMP/record.json" "$SOURCE/examples/train.log"
echo '{"os.wsl": false}' >"$TMP/part.json"
expect "doctor --from a part" 2 "$ASSAY" doctor --from "$TMP/part.json"
says "doctor --from a part" out "facts-incomplete"
{ printf '\357\273\277'; "$ASSAY" doctor --root "$SOURCE/tests/hosts/cpu-only/root" --facts --json; } >"$TMP/mark.json"
expect "facts with a byte order mark" 0 "$ASSAY" doctor --from "$TMP/mark.json"

mkdir "$TMP/folder"
expect "doctor --root on an empty folder" 2 "$ASSAY" doctor --root "$TMP/folder"
says "doctor --root on an empty folder" err "is not the root of a machine"
expect "snapshot --root on an empty folder" 2 "$ASSAY" snapshot --root "$TMP/folder"
expect "version to a full disk" 2 sh -c '"$1" --version >/dev/full' sh "$ASSAY"
says "version to a full disk" err "cannot write"

# An option of another action is told, not ignored.
while read -r line; do
    # shellcheck disable=SC2086
    expect "$line" 64 "$ASSAY" $line
    says "$line" err "--"
done <<'LINES'
data check x --sample 3
data show x --media y
checkpoint verify x --adapter y
checkpoint show x --fast
tokenizer show x --specials
tokenizer encode x --against y hi
train x --params 1M --plan
train x --tokens 5
train x --plan --against y
diagnose x --python y
LINES

# A key that a plan has not is told with those it has.
printf 'command: ["true"]\nroutes:\n  base: {}\n  other: {env: {X: "1"}}\n' >"$TMP/plan.yaml"
expect "plan with another key" 64 "$ASSAY" matrix --dry-run "$TMP/plan.yaml"
says "plan with another key" err "environment"

# A wrong option is told before a file that is not there.
expect "data: length before files" 64 "$ASSAY" data check --max-length -1 --tokenizer "$TMP/nowhere" "$TMP/nowhere"

# Names of files do not steer the terminal.
red="$TMP/$(printf '\033[31m\302\233red')"
: >"$red"
for command in 'checkpoint verify' 'data check' 'tokenizer show' diagnose report 'watch --once' train reproduce diff; do
    # shellcheck disable=SC2086
    timeout 20 "$ASSAY" $command "$red" >"$TMP/out" 2>"$TMP/err" </dev/null & wait $! || true
    for f in out err; do
        ! LC_ALL=C grep -qaP '\x1b|\xc2\x9b' "$TMP/$f" || { echo "FAILED $command: a file's name steers the terminal"; FAILED=1; }
    done
done
printf '{"gpu.count": 0, "env.HSA_X": "\\u001b[31m\\u009bred"}\n' >"$TMP/steer.json"
expect "facts that steer" 0 "$ASSAY" doctor --from "$TMP/steer.json" --facts
says "facts that steer" out "red"
! LC_ALL=C grep -qaP '\x1b|\xc2\x9b' "$TMP/out" || { echo "FAILED: a fact steers the terminal"; FAILED=1; }
finish
