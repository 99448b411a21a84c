#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reports as a page and as Markdown: self-contained, nothing of a log becomes markup, several runs together.
. "$(dirname "$0")/lib.sh"
cd "$TMP"

# job BAD: 60 steps; the last lines are an attack on the reader of the report.
cat >job.sh <<'SH'
awk -v bad="$1" 'BEGIN {
    for (s = 1; s <= 60; s++) {
        printf("step: %d loss: %s grad_norm: %.4f step_time: 0.2\n", s, bad && s > 50 ? "nan" : 3 - s / 30, 1 + s / 60)
        if (s % 20 == 0) printf("step: %d eval_loss: %.3f\n", s, 3 - s / 35)
    }
    if (bad) {
        print "RuntimeError: HIP error: an illegal memory access was encountered </script><script>alert(1)</script><img src=x onerror=alert(2)>"
        exit 1
    }
}'
SH
"$ASSAY" run -q --no-facts --record good -- sh job.sh 0 >/dev/null 2>&1
"$ASSAY" run -q --no-facts --record bad -- sh job.sh 1 >/dev/null 2>&1 || true
[ -e good/run.json ] && [ -e bad/run.json ] || { echo "FAILED: the runs left no folders"; exit 1; }

# What a page may not do: load anything. Links are for the reader to follow.
self_contained() {
    sed 's/<a href="[^"]*" rel="noreferrer noopener">[^<]*<\/a>//g' "$2" >bare
    if grep -oE '(src|href|srcset|action|poster)="?(https?:|//|data:)[^"> ]*|<link|<iframe|<object|<base |@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|importScripts' bare; then
        echo "FAILED $1: the page reaches outside itself"
        FAILED=1
    fi
    [ "$(grep -c '<!DOCTYPE html>' "$2")" = 1 ] || { echo "FAILED $1: no page"; FAILED=1; }
    python3 - "$2" <<'PY' || { echo "FAILED $1: the page is not well formed"; FAILED=1; }
import base64, hashlib, html.parser, json, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
class Check(html.parser.HTMLParser):
    void = {"meta", "line", "path", "rect", "br"}
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.anchors, self.scripts, self.raw = [], set(), set(), [], ""
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        assert not any(k.startswith("on") for k in a), (tag, a)
        assert tag not in ("img", "link", "iframe"), tag
        assert "style" not in a, "the policy lets no style attribute through"
        if "id" in a:
            assert a["id"] not in self.ids, a["id"]
            self.ids.add(a["id"])
        if a.get("href", "").startswith("#"):
            self.anchors.add(a["href"][1:])
        if tag not in self.void:
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        pass
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()
    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts.append((self.open[-1], data))
c = Check()
c.feed(text)
assert c.open == [], c.open
assert c.anchors <= c.ids, c.anchors - c.ids
policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
assert "default-src 'none'" in policy and "unsafe" not in policy
for kind, body in c.scripts:
    if body.startswith("[{") or body == "[]":
        for p in json.loads(body):
            assert all(len(k["x"]) == len(k["y"]) > 0 for k in p["curves"])
        continue
    digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy, f"a {kind} that the policy does not know"
PY
}

expect "a run as a page" 1 "$ASSAY" report bad --format html -o bad.html
self_contained "a run as a page" bad.html
[ "$(grep -c 'onerror=alert' bad.html)" != 0 ] || { echo "FAILED: the hostile line is not shown at all"; FAILED=1; }
grep -q '<img' bad.html && { echo "FAILED: a log line became an element"; FAILED=1; }
grep -q '&lt;/script&gt;&lt;script&gt;alert(1)' bad.html || { echo "FAILED: the hostile line is not shown as text"; FAILED=1; }
grep -q '10 not finite, first at 51' bad.html || { echo "FAILED: where the loss stops being finite"; FAILED=1; }
expect "a good run" 0 "$ASSAY" report good --format html -o good.html
self_contained "a good run" good.html
grep -q 'nothing wrong' good.html || { echo "FAILED: the verdict of a good run"; FAILED=1; }
expect "unwritable output" 2 "$ASSAY" report good --format html -o nowhere/x.html
says "unwritable output" err "cannot write"

# Two routes and a qualification.
cat >qualification.json <<'J'
{"schema_version": 1, "command": "qualify", "verdict": "not qualified: 1 error", "outcome": "fault",
 "stages": [{"name": "host", "verdict": "passed", "summary": "fine"}, {"name": "train", "verdict": "failed", "summary": "<b>nan</b>"}],
 "findings": [{"id": "x", "severity": "error", "title": "t", "claim": "c", "confidence": 1, "evidence": [], "remedy": [], "links": []}],
 "health": {"score": 60, "maximum": 100, "confidence": 1, "weights": [{"id": "x", "severity": "error", "weight": 40, "lost": 40}]}, "notes": []}
J
expect "routes together" 1 "$ASSAY" report qualification.json good bad --format html -o all.html
self_contained "routes together" all.html
for text in 'Path through the stages' '&lt;b&gt;nan&lt;/b&gt;' '<figcaption>Loss' 'good' 'Runs beside each other' 'cost 40 points'; do
    grep -qi -- "$text" all.html || { echo "FAILED: the page of all does not show '$text'"; FAILED=1; }
done
grep -q '[.]scroll { overflow-x: auto; position: relative; }' all.html || { echo "FAILED: what is hidden in a wide table widens the page"; FAILED=1; }
sed 's/"failed", "summary": "<b>/"conditions", "summary": "<b>/; s/"severity": "error"/"severity": "warning"/g' qualification.json >conditions.json
expect "conditions are no fault" 1 "$ASSAY" report conditions.json --format html -o conditions.html
grep -q '<title>assay qualify: warnings</title>' conditions.html || { echo "FAILED: the page calls a warning a fault"; FAILED=1; }
expect "two good runs" 0 "$ASSAY" report good good --json
jq -e '.outcome == "fine" and (.parts | length) == 2 and .parts[0].about[0].name == "command" and (.runs | length) == 2' out >/dev/null ||
    { echo "FAILED: JSON of two runs"; FAILED=1; }
expect "a fault in one of two" 1 "$ASSAY" report good bad
says "each run has its heading" out "== bad =="
says "the verdict counts" out "a fault in 1 of 2"
expect "JUnit of two" 1 "$ASSAY" report good bad --format junit -o two.xml
python3 -c 'import sys, xml.dom.minidom as m; d = m.parse("two.xml"); sys.exit(len(d.getElementsByTagName("testsuite")) != 3)' ||
    { echo "FAILED: JUnit of two runs"; FAILED=1; }
expect "a record alone" 1 "$ASSAY" report qualification.json
says "its stages" out "stage train"

# Markdown.
expect "Markdown" 1 "$ASSAY" report qualification.json good bad --format markdown
says "table of stages" out '| train | ✕ failed | &lt;b\>nan&lt;/b\> |'
says "numbers of the curves" out '| bad | 60 |'
grep -q '<script' out && { echo "FAILED: Markdown holds markup of a log"; FAILED=1; }

# Every command's report has both forms.
"$ASSAY" doctor --root "$SOURCE/tests/hosts/mi300x/root" --format html -o doctor.html || true
self_contained doctor doctor.html
"$ASSAY" diagnose "$SOURCE/examples/train.log" --format html -o diagnose.html || true
self_contained diagnose diagnose.html
"$ASSAY" diagnose "$SOURCE/examples/train.log" --format markdown >diagnose.md || true
grep -q '^# assay diagnose: fault found' diagnose.md || { echo "FAILED: Markdown of diagnose"; FAILED=1; }
# A record of another command, made into a page later, is the same page.
"$ASSAY" diagnose "$SOURCE/examples/train.log" --json >diagnose.json || true
expect "a record of diagnose" 1 "$ASSAY" report diagnose.json --format html -o again.html
self_contained "a record of diagnose" again.html

# What is neither.
echo '{}' >empty.json; : >nothing.json; printf '{"schema_version": 1' >cut.json
expect "no operands" 64 "$ASSAY" report
expect "an expectation of a record" 64 "$ASSAY" report qualification.json --expect no:mkl
says "an expectation of a record" err "no run folder was given"
expect "no such run" 2 "$ASSAY" report nowhere
expect "no such record among runs" 2 "$ASSAY" report good nowhere.json
says "no such record among runs" err "no run folder and no record 'nowhere.json'"
for f in empty.json nothing.json cut.json; do
    expect "not a record: $f" 2 "$ASSAY" report "$f"
done
mkdir folder; expect "a folder that is no run" 2 "$ASSAY" report folder good
says "a folder that is no run" err "is no run folder"

# A folder of the reference trainer: metrics alone.
mkdir trained
awk 'BEGIN { for (s = 1; s <= 30; s++) printf("{\"step\": %d, \"epoch\": 0.1, \"loss\": %.4f, \"learning_rate\": 0.001, \"grad_norm\": 1.5, \"seconds\": 0.25, \"tokens_per_second\": 4096, \"memory_bytes\": %d, \"grad_norm_by_layer\": {\"a\": 1}}\n", s, 3 - s / 30, 2147483648 + s * 1048576) }' >trained/metrics.jsonl
expect "metrics alone" 2 "$ASSAY" report trained --format html -o trained.html
self_contained "metrics alone" trained.html
for text in '<figcaption>Memory' '(GiB)' '<figcaption>Step time' '<figcaption>Learning rate' 'do not tell how the run ended'; do
    grep -qF -- "$text" trained.html || { echo "FAILED: metrics alone: '$text'"; FAILED=1; }
done
expect "an expectation of metrics" 64 "$ASSAY" report trained --expect no:mkl
expect "beside a run" 2 "$ASSAY" report good trained --format html -o both.html
self_contained "beside a run" both.html
echo '{"step": 31, "loss": null, "seconds": 0.25}' >>trained/metrics.jsonl
expect "metrics with a loss that is none" 1 "$ASSAY" report trained
says "metrics with a loss that is none" out "not finite, first at step 31"

# Metrics cut off anywhere, and lines that are none.
cp -r good odd; printf '{"t": 1, "step": 1e999, "loss": 1}\n[1]\n{"t": "x"}\n{"t": 9, "step": 3, "loss": "-inf", "a\\u0022b": 4, "deep": {"x": [1]}}\n{"t": 10, "st' >>odd/metrics.jsonl
expect "odd metrics" 0 "$ASSAY" report odd --format html -o odd.html
self_contained "odd metrics" odd.html
: >odd/metrics.jsonl; expect "empty metrics" 0 "$ASSAY" report odd --format html -o odd.html
self_contained "empty metrics" odd.html
rm odd/metrics.jsonl; expect "no metrics" 0 "$ASSAY" report odd --format html -o odd.html
self_contained "no metrics" odd.html
finish
