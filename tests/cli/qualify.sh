#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# qualify: what is sound is qualified, each broken stack gets its verdict, and what did not run never passes.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 77
cd "$TMP"
hosts=$SOURCE/tests/hosts

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
job period.sh 'sprintf("%.4f", 2.5 + 0.5 * sin(i * 6.2831853 / 8) + 0.02 * r)'

# --- sound -------------------------------------------------------------------------------------------------------
few=device,training,command,checkpoint,resume
expect "sound" 0 "$ASSAY" qualify --device cpu --only $few --save first --json -- sh good.sh
says "progress by stage" err "stage training: passed ("
for file in first/qualification.json first/report.html first/command/run.json first/command/metrics.jsonl; do
    [ -s "$file" ] || { echo "FAILED: $file was not kept"; FAILED=1; }
done
cmp -s out first/qualification.json || { echo "FAILED: the kept record is another"; FAILED=1; }
python3 - out "$SOURCE/docs/schema/README.md" <<'PY' || FAILED=1
import json, re, sys
record = json.load(open(sys.argv[1]))
part = open(sys.argv[2]).read().split("## `assay qualify --json`")[1].split("\n## ")[0]
documented = set(re.findall(r"`(\w+)`", part)) | {"schema_version", "command", "outcome"}
assert set(record) <= documented, f"not in docs/schema: {set(record) - documented}"
assert record["outcome"] == "fine" and record["verdict"].startswith("qualified: "), record["verdict"]
assert "not asked: host, stack" in record["verdict"] and "device: cpu" in record["verdict"], record["verdict"]
names = [s["name"] for s in record["stages"]]
assert names == ["host", "stack", "device", "operators", "torch", "evidence", "linear-attention", "tokenizer", "training", "command",
                 "checkpoint", "resume"], names
assert {s["name"] for s in record["stages"] if s["verdict"] == "passed"} == {"device", "training", "command", "checkpoint", "resume"}
for key in ("stages", "figures"):
    text = re.search(r"`%s` \(`\{(.*?)\}`" % key, part, re.S).group(1)
    for row in record[key]:
        assert set(row) == set(re.split(r",\s*", text)), (key, row, text)
assert [f["figure"] for f in record["figures"]] == ["training", "command"] and record["figures"][0]["value"] > 0
assert 1.6 < record["figures"][1]["value"] < 2.2, record["figures"]  # steps of 0.5 to 0.55 s, as the job tells
PY
expect "a folder is used once" 64 "$ASSAY" qualify --only stack --save first
says "a folder is used once" err "holds a qualification already"
expect "the page is read back" 0 "$ASSAY" report first/qualification.json

# --- what did not run never passes -------------------------------------------------------------------------------
expect "another machine" 2 "$ASSAY" qualify --root "$hosts/rx7900xtx/root"
says "it is named" out "not run: device, operators, torch, evidence, linear-attention, training, checkpoint, resume"
expect "another machine, files alone" 0 "$ASSAY" qualify --root "$hosts/rx7900xtx/root" --only host,stack
says "what was left out is named" out "not asked: device, operators"
expect "a command is asked for and not given" 2 "$ASSAY" qualify --only command
says "a command is asked for and not given" out "not run: command"
for left in "--only host --skip host" "--only collectives"; do
    # shellcheck disable=SC2086
    expect "nothing is left to judge: $left" 64 "$ASSAY" qualify $left
    says "nothing is left to judge: $left" err "leave no stage to run"
done
touch a-file
expect "a file as the folder of --save" 64 "$ASSAY" qualify --only host --save a-file
says "a file as the folder of --save" err "'a-file' is no folder"
expect "a time limit of nothing" 64 "$ASSAY" qualify --only host --timeout 0 -- true
says "a time limit of nothing" err "--timeout takes a number from"
expect "no PyTorch was named" 2 env -u VIRTUAL_ENV "$ASSAY" qualify --only torch,evidence,linear-attention
says "what it would take" out "to run it: --python PATH"
printf '#!/bin/sh\necho "ModuleNotFoundError: No module named torch" >&2\nexit 1\n' >no-torch && chmod +x no-torch
expect "no PyTorch in it" 2 "$ASSAY" qualify --only torch --python "$TMP/no-torch"
says "no PyTorch in it" out "not run: torch"
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/kfd ]; then
    expect "a GPU was asked for" 1 "$ASSAY" qualify --device cuda --only device,training
    says "a GPU was asked for" out "no-gpu-answers"
    says "the rest is meaningless" out "stage device failed, and without it this means nothing"
    if ! grep -q "0x0[38]" /sys/bus/pci/devices/*/class 2>/dev/null; then
        expect "no GPU in the machine" 0 "$ASSAY" qualify --only device
        says "no GPU in the machine" out "the CPU is what is judged"
        expect "nothing but a CPU" 0 env -u VIRTUAL_ENV "$ASSAY" qualify --skip operators
        says "what was not asked is named" out "not asked: operators, torch, evidence, linear-attention, tokenizer, command"
    fi
fi

# --- the model that training starts from -------------------------------------------------------------------------
mkdir model && cp "$SOURCE/tests/fuzz/corpus/tokenizer/byte_level.json" model/tokenizer.json
echo '{"model_type": "llama", "vocab_size": 300, "eos_token_id": 0}' >model/config.json
expect "a tokenizer that fits" 0 "$ASSAY" qualify --only tokenizer --model model
says "a tokenizer that fits" out "stage tokenizer        passed"
echo '{"model_type": "llama", "vocab_size": 200, "eos_token_id": 0}' >model/config.json
expect "ids beyond the vocabulary" 1 "$ASSAY" qualify --only tokenizer,command --save model-q -- sh good.sh --model_name_or_path=model
says "ids beyond the vocabulary" out "(tokenizer-beyond-vocabulary)"
expect "its weights" 2 "$ASSAY" qualify --only checkpoint --model model
says "its weights" out "there is no model file here"
expect "no model" 2 "$ASSAY" qualify --only tokenizer
says "no model" out "to run it: --model DIR"
expect "a model that is not there" 2 "$ASSAY" qualify --only tokenizer --model "$TMP/nowhere"
mkdir alone && cp "$ASSAY" alone/assay
expect "no recorder" 2 alone/assay qualify --only command -- sh good.sh
says "no recorder" out "libassay-record.so is not next to"

# --- broken stacks -----------------------------------------------------------------------------------------------
expect "an old driver under a nightly wheel" 1 "$ASSAY" qualify --only host,stack --root "$hosts/mi210-driver56-hip57-nightly/root"
says "an old driver under a nightly wheel" out "driver-behind-nightly"
expect "a driver that was not built" 1 "$ASSAY" qualify --only host,stack --root "$hosts/half-installed-rocm/root"
says "not qualified, why and the remedy" out "not qualified: 1 error"
says "the remedy" out "(remedy: sudo dkms status"
expect "NaN" 1 "$ASSAY" qualify --only command --save nan -- sh nan.sh
says "NaN" out "(loss-not-finite)"
says "NaN" out "not qualified"
says "a supposed cause is no fact" out "possible cause (confidence 0.50): The attention kernel"
says "what was seen goes first" out "first: 121 of 240 losses are not finite"
says "a loss that is no number is not called infinite" out "to not finite"
expect "a loss that repeats" 1 "$ASSAY" qualify --only command --save period -- sh period.sh
says "a loss that repeats" out "(period)"
expect "a command that fails" 1 "$ASSAY" qualify --only command --save fails -- sh -c 'sh good.sh; exit 3'
says "a command that fails" out "command-failed"
expect "a command that hangs" 1 "$ASSAY" qualify --only command --save hangs --timeout 1 -- sh -c 'sh good.sh; sleep 30'
says "a command that hangs" out "stopped at the time limit"
expect "a command that is not there" 1 "$ASSAY" qualify --only command --save none -- ./not-there
expect "no loss" 2 "$ASSAY" qualify --only command --save silent -- true
says "no loss" out "(loss-not-told)"
expect "a path that cannot be told" 2 "$ASSAY" qualify --only command --expect no:mkl --save path -- sh good.sh
says "a path that cannot be told" out "cannot tell whether no:mkl holds"

# --- usage -------------------------------------------------------------------------------------------------------
expect "no such stage" 64 "$ASSAY" qualify --only nonsense
says "no such stage" err "there are host, stack"
expect "a limit of nothing" 64 "$ASSAY" qualify --timeout 5
expect "no expectation" 64 "$ASSAY" qualify --expect mkl
expect "a file is no folder" 2 "$ASSAY" qualify --only stack --save empty/x
finish
