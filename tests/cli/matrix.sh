#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay matrix: contrasts counted, proofs demanded, searches with flaky failures, interruption and going on,
# bad plans named by line and key; the plans of examples/plans are valid.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
cp "$SOURCE/tests/cli/training_job.sh" job.sh
echo data >data.txt

cat >plan.yaml <<'END'
name: leave the switch
command: [./job.sh, --steps, "12", --data, data.txt]
repeats: 4
time_limit: 30
routes:
  base:
    environment: {JOB_FAIL: "5"}
  left:
    about: the switch left
    unset: JOB_FAIL
    passes: The switch is at fault.
  other:
    environment: {JOB_FAIL: "6"}
  unproven:
    unset: [JOB_FAIL]
    expect: ["no:hipblaslt"]
factors:
  batch:
    values: [1, 2]
    unset: JOB_FAIL
    arguments: [--micro_batch_size, "{value}"]
END
expect "dry run" 0 "$ASSAY" matrix plan.yaml --dry-run
says "dry run" out "JOB_FAIL=5 ./job.sh --steps 12 --data data.txt"
says "the factor's value" out "--micro_batch_size 2"
[ ! -e plan.trials ] || { echo "FAILED: a dry run made the folder"; FAILED=1; }
expect "the experiment" 1 "$ASSAY" matrix plan.yaml
says "the base fails" out "base fails: 4 of 4 failed"
says "the class" out "gpu-memory-fault x4"
says "the contrast" out "left fails less often than the base: 0 of 4 against 4 of 4 (p = 0.029)"
says "what it rules out" out "The switch is at fault."
says "never fixed" out "Not observed is not fixed"
says "a route that fails too" out "other fails too"
says "no proof" out "unproven: the change is not proven to be in effect"
says "trials are told" err "left, trial 4: completed"
[ -f plan.trials/base/04/run.json ] || { echo "FAILED: no run folder of a trial"; FAILED=1; }
grep -q '"JOB_FAIL": "5"' plan.trials/base/01/run.json || { echo "FAILED: the environment is not on record"; FAILED=1; }
head -n 12 plan.trials/plan.yaml | grep -q "leave the switch" || { echo "FAILED: the plan is not kept"; FAILED=1; }
expect "again" 1 "$ASSAY" matrix plan.yaml --json
jq -e '.resumed == 24 and .trials == 24 and (.routes[] | select(.route == "left") | .failed == 0 and .trials == 4)
    and (.routes[] | select(.factor == "batch" and .level == "2") | .failed == 0)' out >/dev/null || { echo "FAILED: JSON of matrix"; FAILED=1; }
expect "another command into the same folder" 64 "$ASSAY" matrix plan.yaml -- ./job.sh
says "another command" err "give another folder with --trials"

# Nothing fails: a bound, and a route that does better or worse in numbers
cat >fine.yaml <<'END'
command: [./job.sh, --steps, "25", --data, data.txt]
repeats: 3
routes:
  base:
  nan: {arguments: [--nan, "5"]}
END
expect "NaN counts as a failure" 1 "$ASSAY" matrix fine.yaml
says "NaN" out "3 of 3 against 0 of 3"
sed -i '/nan:/d' fine.yaml
rm -r fine.trials
expect "nothing fails" 0 "$ASSAY" matrix fine.yaml -q
says "nothing fails" out "no failure observed: 0 of 3 failed: failure rate below 63 % at 95 %"

# No trial fails, one trains otherwise: the odd one out is named, be it a route or the base
cat >odd.yaml <<'END'
command: [./job.sh, --steps, "25", --data, data.txt]
repeats: 3
routes:
  base:
  other-way:
    about: the same by another way
    environment: {OTHER: "1"}
  wrong:
    about: a wrong backward
    arguments: [--scale, "1.05"]
END
expect "a route that trains otherwise" 1 "$ASSAY" matrix odd.yaml
says "it is blamed" out "wrong trains otherwise than the base, without failing"
says "by whom" out "other-way and the base agree, so the suspect"
says "the others are not" out "other-way: 0 of 3 failed"
! grep -q "^ok *wrong" out || { echo "FAILED: a route that trains otherwise is called ok"; FAILED=1; }
says "the verdict" out "no failure observed: 0 of 9 failed: failure rate below 28 % at 95 %; trains otherwise than the base: wrong"
cat >odd.yaml <<'END'
command: [./job.sh, --steps, "25", --data, data.txt]
repeats: 3
routes:
  base: {arguments: [--scale, "1.05"]}
  one: {arguments: [--scale, "1"]}
  two: {arguments: [--scale, "1.0"]}
END
rm -r odd.trials
expect "a base that trains otherwise" 1 "$ASSAY" matrix odd.yaml
says "the base is blamed" out "base stands alone"
sed -i '/two:/d; s/"1"/"0.9"/' odd.yaml
rm -r odd.trials
expect "two that disagree" 1 "$ASSAY" matrix odd.yaml
says "neither is blamed" out "No other route tells which of the two is wrong"

# A flaky fault that begins in the middle; switches
cat >search.yaml <<'END'
repeats: 4
bisect:
  values: ["6.0", "6.1", "6.2", "6.3", "6.4"]
  command: [sh, -c, "case {value} in 6.3|6.4) exec ./job.sh --steps 8 --flaky count.{value};; esac; exec ./job.sh --steps 8"]
END
expect "search" 1 "$ASSAY" matrix search.yaml
says "search" out "the fault begins with 6.3; 6.2 is the last without it"
[ ! -e search.trials/6.1 ] || { echo "FAILED: a position that could not matter was tried"; FAILED=1; }
cat >switches.yaml <<'END'
command: [sh, -c, "test -n \"$B\" || exit 3"]
repeats: 2
bisect: {switches: [A=1, B=1, C=1]}
END
expect "switches" 1 "$ASSAY" matrix switches.yaml
says "switches" out "the fault ends with B=1; A=1 is the last with it (exit 3)"
printf 'command: ["true"]\nrepeats: 2\nbisect: {values: [1, 2, 3], environment: {N: "{value}"}}\n' >alike.yaml
expect "ends alike" 2 "$ASSAY" matrix alike.yaml
says "ends alike" out "neither end fails"

# Interrupted in its second trial, then gone on
cat >slow.yaml <<'END'
command: [sh, -c, "sleep 0.7; echo \"{'loss': 1.0, 'step': 1}\""]
repeats: 3
routes: {base: , other: {environment: {X: "1"}}}
END
"$ASSAY" matrix slow.yaml >out 2>err &
pid=$!
for _ in $(seq 100); do [ -e slow.trials/other/01/run.json ] && break; sleep 0.1; done
kill -TERM $pid
got=0; wait $pid || got=$?
[ $got = 2 ] || { echo "FAILED: interrupted with exit $got"; cat err; FAILED=1; }
says "interrupted" out "interrupted after 1 of 6 trials"
[ ! -e slow.trials/base/02 ] || { echo "FAILED: it went on after the interruption"; FAILED=1; }
expect "gone on" 0 "$ASSAY" matrix slow.yaml
says "gone on" out "1 trials were finished before"
[ -d slow.trials/other/01.unfinished-1 ] || { echo "FAILED: the unfinished trial was not kept aside"; FAILED=1; }
expect "a time limit" 1 bash -c 'sed -i "s/0.7/9/; s/repeats: 3/repeats: 1\ntime_limit: 0.5/" slow.yaml; exec "$0" matrix slow.yaml --trials limited' "$ASSAY"
says "a time limit" out "stopped at the time limit"

# A container's prefix gets the environment
printf 'command: [sh, -c, "echo $X"]\nrepeats: 1\nroutes: {base: {environment: {X: seen}, container: [env, -i, "{environment}", PATH=/bin]}}\n' >box.yaml
expect "container" 0 "$ASSAY" matrix box.yaml --dry-run
says "container" out "env -i -e X=seen PATH=/bin sh -c"

# Libraries for the command alone
printf 'command: [sh, -c, "echo $LD_PRELOAD $LD_LIBRARY_PATH"]\nrepeats: 1\nroutes: {base: {preload: [libm.so.6], library_path: [/a, /b]}}\n' >libs.yaml
expect "libraries" 0 "$ASSAY" matrix libs.yaml
grep -q 'libassay-record.so:libm.so.6 /a:/b' libs.trials/base/01/stdout.log || { echo "FAILED: libraries: $(cat libs.trials/base/01/stdout.log)"; FAILED=1; }

# bad NAME TEXT SENTENCE
bad() {
    printf '%s\n' "$2" >bad.yaml
    rm -rf bad.trials
    expect "$1" 64 "$ASSAY" matrix bad.yaml
    says "$1" err "$3"
}
bad "unknown key" 'routs: {a: }' "bad.yaml:1: a plan has no key 'routs'; did you mean 'routes'?"
bad "unknown key of a route" $'command: [a]\nroutes:\n  a: {enviroment: {}}' "bad.yaml:3: route 'a' has no key 'enviroment'; did you mean 'environment'?"
bad "a command as text" $'command: python x\nroutes: {a: }' "should be a list of words"
bad "repeats" $'command: [a]\nrepeats: many\nroutes: {a: }' "bad.yaml:2: 'repeats' should be a number from 1 to 1000"
bad "values that nothing uses" $'command: [a]\nfactors: {n: {values: [1, 2], about: "{value}"}}' "nothing changes with it"
bad "a tab" $'command: [a]\nroutes:\n\ta: {}' "YAML is indented with spaces"
bad "a search of one" $'command: [a]\nbisect: {values: [1]}' "two at least"
bad "routes and bisect" $'command: [a]\nroutes: {a: }\nbisect: {values: [1, 2]}' "either 'routes'"
bad "base" $'command: [a]\nbase: x\nroutes: {a: }' "bad.yaml:2: 'base' names no route: 'x'"
bad "a list" '[1, 2]' "a plan is a map"
bad "empty" '' "empty document"
bad "no command" 'routes: {a: }' "names no command"
bad "no YAML" 'command: [a' "not YAML"
bad "an expectation" $'command: ["true"]\nroutes: {a: {expect: [hipblaslt]}}' "is no expectation"
bad "a variable" $'command: ["true"]\nroutes: {a: {environment: {"A=B": 1}}}' "is no name of a variable"
bad "a flag" $'command: ["true"]\nroutes: {a: {guard: maybe}}' "'guard' should be true or false"
bad "no such program" $'command: [nosuchprogram]\nroutes: {a: }' "cannot be started: 'nosuchprogram'"
bad "no such folder" $'command: ["true"]\ndirectory: /nowhere\nroutes: {a: }' "in '/nowhere'"
bad "twice the same name" $'command: ["true"]\nroutes: {"a b": , a_b: }' "a second route with the name 'a_b'"
expect "no plan" 64 "$ASSAY" matrix
expect "a plan that is not there" 2 "$ASSAY" matrix nowhere.yaml
# A command that takes the last room: its trial has kept room for its end, the next one finds none.
if unshare -rm true 2>/dev/null && mkdir full && unshare -rm mount -t tmpfs -o size=256k tmpfs full 2>/dev/null; then
    printf 'command: [sh, -c, "head -c 1000000 /dev/zero | tr \\\\0 x"]\nrepeats: 1\nroutes: {a: , b: {environment: {N: "1"}}}\n' >fill.yaml
    expect "a full disk" 2 unshare -rm sh -c 'mount -t tmpfs -o size=256k tmpfs full && "$@"' - "$ASSAY" matrix fill.yaml --trials full/t
    says "a full disk" err "no room is left in the file system of "
fi
expect "trials that cannot be kept" 2 "$ASSAY" matrix fine.yaml --trials /proc/nowhere

n=0
for plan in "$SOURCE"/examples/plans/*.yaml; do
    expect "$(basename "$plan")" 0 "$ASSAY" matrix "$plan" --dry-run -- python train.py
    n=$((n + 1))
done
[ "$n" -ge 8 ] || { echo "FAILED: only $n plans in examples/plans"; FAILED=1; }
finish
