#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The gates of examples/ci: valid YAML of the expected shape, and their shell parts run, on frozen machines.
. "$(dirname "$0")/lib.sh"
python3 -c 'import yaml' 2>/dev/null || { echo "python3-yaml is not installed"; exit 77; }
mkdir "$TMP/bin" "$TMP/work"
ln -s "$ASSAY" "$TMP/bin/assay"
export PATH="$TMP/bin:$PATH"
cp -r "$SOURCE/examples" "$TMP/work/examples"
cd "$TMP/work"
sh -n examples/ci/gate.sh || FAILED=1
hosts=$SOURCE/tests/hosts

# The three verdicts pass through, and the files are there whatever it was.
gate() {
    local want=$1 host=$2
    rm -rf assay-gate
    expect "gate on $host" "$want" env QUALIFY_OPTIONS="--root $hosts/$host/root --only host,stack" sh examples/ci/gate.sh assay-gate
    for f in qualification.json junit.xml report.html summary.md; do
        [ -s "assay-gate/$f" ] || { echo "FAILED gate on $host: no $f"; FAILED=1; }
    done
}
gate 0 rx7900xtx
says "an open gate" out "gate: passed"
gate 1 container-wrong-render-gid
says "a closed gate" err "a fault was found"
gate 2 unreadable-sys
says "a gate that cannot tell" err "could not be told"
expect "options that are wrong" 2 env QUALIFY_OPTIONS="--no-such-option" sh examples/ci/gate.sh other
says "options that are wrong" err "left no record"

# A snapshot beside it: told, and no verdict of its own.
"$ASSAY" snapshot -q --root "$hosts/mi300x/root" -o mi.lock
expect "gate with a snapshot" 0 env QUALIFY_OPTIONS="--root $hosts/rx7900xtx/root --only host,stack" DIFF_OPTIONS="--root $hosts/rx7900xtx/root" \
    STACK_LOCK=mi.lock sh examples/ci/gate.sh assay-gate
grep -q 'driver differs' assay-gate/summary.md || { echo "FAILED: the summary does not tell what changed"; FAILED=1; }

# The shell of each file, as its system would run it; nothing but the gate and the run.
cat >python <<'SH'
#!/bin/sh
echo "step: 1 loss: 1.0"
SH
chmod +x python; export PATH="$PWD:$PATH"; : >train.py
python3 - examples/ci >parts.tsv <<'PY' || { echo "FAILED: the files of examples/ci"; FAILED=1; }
import re, sys, yaml
top = sys.argv[1]
def out(system, text):
    print(system + "\t" + text.strip().replace("\n", "\\n"))
github = yaml.safe_load(open(top + "/github.yml"))
assert set(github) == {"name", True, "permissions", "jobs"}, set(github)  # YAML 1.1 reads `on` as true
assert github["jobs"]["train"]["needs"] == "qualify"
for job in github["jobs"].values():
    assert job["runs-on"]
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step), step
        if "run" in step:
            out("github", step["run"])
gitlab = yaml.safe_load(open(top + "/gitlab.yml"))
assert gitlab["stages"] == ["qualify", "train"]
for name in gitlab["stages"]:
    job = gitlab[name]
    assert job["stage"] == name and job["artifacts"]["when"] == "always"
    for line in job["script"] + job.get("after_script", []):
        assert isinstance(line, str), line
        out("gitlab", line)
jenkins = open(top + "/Jenkinsfile").read()
assert jenkins.count("{") == jenkins.count("}") and jenkins.count("'''") % 2 == 0
parts = re.findall(r"sh '''(.*?)'''", jenkins, re.S)
assert len(parts) == 3
for part in parts:
    out("jenkins", "\n".join(line.strip() for line in part.splitlines()))
PY
export QUALIFY_OPTIONS="--root $hosts/rx7900xtx/root --only host,stack" GITHUB_STEP_SUMMARY=$TMP/work/step.md
n=0
for system in github gitlab jenkins; do
    rm -rf assay-gate run run.html step.md
    while IFS=$'\t' read -r name text; do
        [ "$name" = "$system" ] || continue
        n=$((n + 1))
        printf '%b\n' "$text" >part.sh
        expect "$system: $text" 0 bash -eo pipefail part.sh
    done <parts.tsv
    [ -s assay-gate/junit.xml ] && [ -s run/run.json ] && [ -s run.html ] || { echo "FAILED: $system left not everything"; FAILED=1; }
done
[ "$n" -ge 10 ] || { echo "FAILED: only $n shell parts were found"; FAILED=1; }
grep -q '^# assay qualify' <(sh examples/ci/gate.sh g >/dev/null 2>&1; cat g/summary.md) || { echo "FAILED: the summary"; FAILED=1; }

# A closed gate stops the job in each system: its step fails.
export QUALIFY_OPTIONS="--root $hosts/container-wrong-render-gid/root --only host,stack"
while IFS=$'\t' read -r name text; do
    case $text in *gate.sh*)
        printf '%b\n' "$text" >part.sh
        expect "$name: closed" 1 bash -eo pipefail part.sh ;;
    esac
done <parts.tsv
finish
