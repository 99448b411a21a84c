#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# qualify: the checkpoint of the user's command, and comparison with an earlier qualification.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 77
cd "$TMP"

# A training command that only prints: 240 steps with LOSS, an awk expression. It tells its own step time: when
# lines arrive says how busy this machine is. The numbers are the same with each awk.
job() { # FILE LOSS
    cat >"$1" <<SH
awk 'function chance() { x = (x * 75 + 74) % 65537; return x / 65537 }
    BEGIN { x = 42; for (i = 1; i <= 240; i++) { r = chance(); l = $2
    printf "{'"'"'loss'"'"': %s, '"'"'grad_norm'"'"': %.4f, '"'"'step_time'"'"': %.4f, '"'"'step'"'"': %d}\n",
    l, 0.8 + 0.4 * chance(), 0.5 + 0.05 * chance(), i } }'
SH
}
job good.sh 'sprintf("%.4f", 2.2 + 0.9 * exp(-i / 60) + 0.05 * r)'
job nan.sh 'i < 120 ? sprintf("%.4f", 2.9 - i / 200 + 0.05 * r) : "nan"'

expect "the first" 0 "$ASSAY" qualify --device cpu --only training,command --save first -- sh good.sh

# --- its checkpoint ----------------------------------------------------------------------------------------------
python3 - <<'PY'
import json, os, random, struct
random.seed(1)
os.makedirs("model")
raw = struct.pack("<4096f", *[random.gauss(0, .02) for _ in range(4096)])
head = json.dumps({"w": {"dtype": "F32", "shape": [64, 64], "data_offsets": [0, len(raw)]}}).encode()
head += b" " * (-len(head) % 8)
open("model/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + raw)
PY
"$ASSAY" checkpoint hash model -o model/assay-manifest.json -q
cat good.sh >writes.sh
echo 'mkdir -p runs && rm -rf runs/checkpoint-240 && cp -r model runs/checkpoint-240' >>writes.sh
expect "a sound checkpoint" 0 "$ASSAY" qualify --only command,checkpoint --save whole -- sh writes.sh
says "it was found" out "the command's: $TMP/runs/checkpoint-240"
echo 'printf "\001" | dd of=runs/checkpoint-240/model.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null' >>writes.sh
expect "a flipped bit" 1 "$ASSAY" qualify --only command,checkpoint --save bit -- sh writes.sh
grep -q 'stage checkpoint *failed' out || { echo "FAILED: the flipped bit passes"; FAILED=1; }
says "a flipped bit" out "not qualified"

# --- an earlier qualification ------------------------------------------------------------------------------------
edit() { # OUT PYTHON
    python3 -c "import json; d = json.load(open('first/qualification.json')); $2; json.dump(d, open('$1', 'w'))"
}
edit faster.json 'd["figures"][0]["value"] *= 50'
edit same.json 'd["figures"][0]["value"] *= 0.02'
edit failed.json 'd["figures"][0]["value"] *= 0.02; [s.update(verdict="failed") for s in d["stages"] if s["name"] == "training"]'
expect "slower than before" 1 "$ASSAY" qualify --only training --baseline faster.json
says "slower than before" out "baseline-slower"
says "conditions" out "qualified with conditions: 1 warning"
expect "not slower than before" 0 "$ASSAY" qualify --only training --baseline same.json
says "not slower than before" out "faster"
expect "better than before" 0 "$ASSAY" qualify --only training --baseline same.json --baseline failed.json --json
python3 -c '
import json
rows = {r["what"]: r for r in json.load(open("out"))["changes"]}
assert rows["stage training"]["before"] == "failed" and rows["stage training"]["now"] == "passed", rows' || FAILED=1
expect "worse than before" 1 "$ASSAY" qualify --only command --baseline first/qualification.json --save worse -- sh nan.sh
says "worse than before" out "baseline-stage-worse"
says "new findings" out "loss-not-finite "
"$ASSAY" doctor --json -q >doctor.json || true
expect "no qualification" 2 "$ASSAY" qualify --only stack --baseline doctor.json
says "no qualification" err "--baseline takes a qualification.json"
: >empty
expect "an empty file" 2 "$ASSAY" qualify --only stack --baseline empty
expect "no file" 2 "$ASSAY" qualify --only stack --baseline nowhere

finish
