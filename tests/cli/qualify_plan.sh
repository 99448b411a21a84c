#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay qualify --plan: what a plan asks for is done, limits of figures count, and what is wrong in it is told with its line.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
cat >plan.yaml <<'YAML'
name: a test
device: cpu
stages: [host, training, command]
command: [sh, -c, 'for i in 1 2 3; do echo "step $i loss 2.$i"; done']
history: h.sqlite
save: kept
figures:
  training: {at-least: 1, at-most: 1e12}
YAML
expect "a plan" 2 "$ASSAY" qualify --plan plan.yaml --json   # 2: three losses are too few to judge
says "a plan" out '"name": "command"'
[ -s kept/qualification.json ] && [ -s h.sqlite ] || { echo "FAILED: save or history of the plan"; FAILED=1; }
grep -q 'plan-figure' out && { echo "FAILED: a figure within its limits is told"; FAILED=1; }
expect "the command line goes first" 2 "$ASSAY" qualify --plan plan.yaml --only host --save other --history second.sqlite
says "the command line goes first" out "not asked: stack, device, operators, torch, evidence, linear-attention, tokenizer, training, command"
says "the command line goes first" out "no stage measured it"
sed 's/at-least: 1,/at-least: 1e9,/' plan.yaml >high.yaml
expect "a limit that is missed" 1 "$ASSAY" qualify --plan high.yaml --only training --save third
says "a limit that is missed" out "the plan asks for at least 1e+09"
says "a limit that is missed" out "not qualified"
says "score and verdict agree" out "health 59/100"

bad() { # TEXT MESSAGE
    printf '%b' "$1" >bad.yaml
    expect "$1" 64 "$ASSAY" qualify --plan bad.yaml
    says "$1" err "$2"
}
bad '' "bad.yaml"
bad '- host\n' "a plan is a map of keys"
bad 'stage: host\n' "bad.yaml:1: there is no key 'stage'; did you mean 'stages'?"
bad 'name: x\nzzzzzzz: 1\n' "bad.yaml:2: there is no key 'zzzzzzz'; docs/qualify.md lists them"
bad 'level: hard\n' "bad.yaml:1: level is 'hard': one of quick|full was expected"
bad 'device: cpu\nstages: [host, hots]\n' "bad.yaml:2: stages: there is no stage 'hots'"
bad 'fleet: maybe\n' "bad.yaml:1: fleet is true or false"
bad 'device: [cpu]\n' "bad.yaml:1: device takes one word or number"
bad 'skip: {a: 1}\n' "bad.yaml:1: skip takes a word or a list of words"
bad 'command: python train.py\n' "command is a list of words"
bad 'device: cpu\nexpect: hipblaslt\n' "bad.yaml:2: 'hipblaslt' is no expectation"
bad 'figures:\n  training: {at-least: 5, at-most: 1}\n' "bad.yaml:2: no figure is at least 5 and at most 1"
bad 'figures: {speed: {at-least: 1}}\n' "no stage measures a figure 'speed'"
bad 'figures:\n  training: {atleast: 1}\n' "bad.yaml:2: a figure has at-least, at-most, or both"
bad 'figures: {training: {at-least: .nan}}\n' "at-least takes a number"
bad 'figures: {training: {at-least: nan}}\n' "at-least takes a number"
bad 'device: cpu\ndevice: cuda\n' "bad.yaml"
expect "no such plan" 64 "$ASSAY" qualify --plan nowhere.yaml
says "no such plan" err "nowhere.yaml"

# The example is a plan: the first thing that is wrong with it here is this machine.
sed 's|/var/lib/assay/|./|; s|^save.*||' "$SOURCE/examples/qualify/nightly.yaml" >example.yaml
expect "the example" 2 "$ASSAY" qualify --plan example.yaml --only host --device cpu
says "the example" out "The plan limits 'command', and no stage measured it"
finish
