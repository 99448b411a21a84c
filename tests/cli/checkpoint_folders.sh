#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders of tests/samples/checkpoints, whole, and with what goes wrong between their files.
. "$(dirname "$0")/lib.sh"
: "${READ_CHECKPOINT:?}"
SAMPLES=$SOURCE/tests/samples/checkpoints

# fresh KIND: a copy in $F
fresh() {
    rm -rf "$TMP/copy"
    cp -r "$SAMPLES/$1" "$TMP/copy"
    F=$TMP/copy
}

# finds NAME ID: the copy is rejected, and for that reason among others
finds() {
    expect "$1" 1 "$READ_CHECKPOINT" -v "$F"
    says "$1" out " $2: "
}

for kind in trainer adapter zero megatron dcp; do
    expect "intact $kind" 0 "$READ_CHECKPOINT" "$SAMPLES/$kind"
done

fresh trainer; cp "$F/checkpoint-2/scheduler.pt" "$F/checkpoint-3/"; finds "scheduler of another step" trainer-step-mismatch
fresh trainer; cp "$F/checkpoint-2/optimizer.pt" "$F/checkpoint-3/"; finds "optimizer of another step" trainer-step-mismatch
fresh trainer; mv "$F/checkpoint-2" "$F/checkpoint-5"; finds "folder named after another step" trainer-step-mismatch
fresh trainer; rm "$F/checkpoint-2/scheduler.pt"; finds "no scheduler" trainer-incomplete
fresh trainer; rm "$F/checkpoint-2/rng_state_0.pth"; finds "a rank's random state" trainer-rank-missing
fresh trainer; head -c 40 "$SAMPLES/trainer/checkpoint-2/trainer_state.json" >"$F/checkpoint-2/trainer_state.json"
finds "cut trainer_state.json" trainer-state-broken
fresh trainer; cp "$SAMPLES/adapter/base/model.safetensors" "$F/checkpoint-2/"; finds "weights of another model" trainer-optimizer-other-model
history() { # PYTHON: the list that log_history of checkpoint-2 becomes
    fresh trainer
    python3 - "$F/checkpoint-2/trainer_state.json" "$1" <<'PY'
import json, sys
state = json.load(open(sys.argv[1]))
state["log_history"] = eval(sys.argv[2])
json.dump(state, open(sys.argv[1], "w"), indent=2)
PY
}
history '[{"loss": 2.5, "grad_norm": 1.25, "learning_rate": 1e-4, "step": i} for i in range(40000)]'
expect "the log of a long run" 0 "$READ_CHECKPOINT" "$F"
history '[{"loss": 2.5, "grad_norm": float("inf"), "step": 1}, {"loss": 0.0, "grad_norm": 0.1, "step": 2}]'
expect "a norm that the scaler skipped, and a loss of 0" 0 "$READ_CHECKPOINT" "$F"
history '[{"loss": 2.5, "step": 1}, {"loss": float("nan"), "step": 2}]'; finds "a loss of NaN" trainer-loss-not-finite
history '[{"loss": 2.5, "step": 1}, {"loss": 0.0, "grad_norm": float("nan"), "step": 2}]'; finds "a loss of 0 with a gradient of NaN" trainer-loss-not-finite
fresh trainer; : >"$F/checkpoint-2/scaler.pt"
expect "an empty file" 1 "$ASSAY" checkpoint verify "$F"
says "an empty file" out "(folder-empty-file)"
fresh trainer; touch "$F/checkpoint-2/model.safetensors.tmp"
expect "an unfinished file" 1 "$ASSAY" checkpoint verify "$F"
says "an unfinished file" out "(folder-half-written)"

fresh adapter; cp "$F/untrained.st" "$F/adapter_model.safetensors"; finds "lora_B all zero" adapter-untrained
fresh adapter; cp "$F/half.st" "$F/adapter_model.safetensors"; finds "lora_A alone" adapter-half-pair
fresh adapter; cp "$F/other.st" "$F/adapter_model.safetensors"; finds "another base" adapter-other-base
fresh adapter; sed -i 's/"r": 2/"r": 8/' "$F/adapter_config.json"; finds "another rank" adapter-rank
fresh adapter; sed -i 's/"q_proj"/"k_proj"/' "$F/adapter_config.json"; finds "another target" adapter-target
fresh adapter; rm "$F/adapter_model.safetensors"; finds "no tensors" adapter-missing

# DoRA: the same adapter with a magnitude for each row of its lora_B.
magnitudes() { # VALUE ROWS_MORE: writes them into the copy, and use_dora: true
    python3 - "$F" "$@" <<'PY'
import json, struct, sys
path, value, more = sys.argv[1] + "/adapter_model.safetensors", float(sys.argv[2]), int(sys.argv[3])
raw = open(path, "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header, data = json.loads(raw[8:8 + n]), raw[8 + n:]
for name in [x for x in header if ".lora_B" in x]:
    rows = header[name]["shape"][0] + more
    header[name.split(".lora_B")[0] + ".lora_magnitude_vector"] = {
        "dtype": "F32", "shape": [rows], "data_offsets": [len(data), len(data) + 4 * rows]}
    data += struct.pack(f"<{rows}f", *[value] * rows)
text = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
config = json.load(open(sys.argv[1] + "/adapter_config.json"))
json.dump(dict(config, use_dora=True), open(sys.argv[1] + "/adapter_config.json", "w"))
PY
}
fresh adapter; magnitudes 1 0; expect "a DoRA adapter" 0 "$READ_CHECKPOINT" "$F"
sed -i 's/"use_dora": true/"use_dora": false/' "$F/adapter_config.json"; finds "magnitudes nobody asked for" adapter-magnitude
fresh adapter; magnitudes 1 1; finds "a magnitude of another size" adapter-magnitude
fresh adapter; magnitudes 0 0; finds "a magnitude of zero" adapter-magnitude
fresh adapter; cp "$F/adapter_model.safetensors" "$TMP/plain.st"; magnitudes 1 0; cp "$TMP/plain.st" "$F/adapter_model.safetensors"
finds "no magnitude" adapter-magnitude

Z=global_step3
fresh zero; rm "$F/$Z/zero_pp_rank_0_mp_rank_00_optim_states.pt"; finds "a rank without optimizer" zero-rank-missing
fresh zero; rm "$F/$Z/zero_pp_rank_1_mp_rank_00_optim_states.pt"; finds "the last rank without optimizer" zero-world-size
fresh zero; cp "$F/step2.saved" "$F/$Z/zero_pp_rank_1_mp_rank_00_optim_states.pt"; finds "a rank of another step" zero-step-mismatch
fresh zero; cp "$F/short.saved" "$F/$Z/zero_pp_rank_1_mp_rank_00_optim_states.pt"; finds "a rank with a part missing" zero-size
fresh zero; rm "$F/$Z/mp_rank_00_model_states.pt"; finds "no model states" zero-rank-missing
fresh zero; echo global_step9 >"$F/latest"; finds "latest names what is not there" zero-tag-missing
fresh zero; mv "$F/$Z" "$F/global_step4"; echo global_step4 >"$F/latest"; finds "tag of another step" zero-step-mismatch

fresh megatron; rm -r "$F/iter_0000007/mp_rank_00"; finds "a tensor rank is missing" megatron-rank-missing
fresh megatron; echo 8 >"$F/latest_checkpointed_iteration.txt"; finds "iteration is not there" megatron-iteration-missing
fresh megatron; mv "$F/iter_0000007" "$F/iter_0000009"; echo 9 >"$F/latest_checkpointed_iteration.txt"
finds "iteration of another step" megatron-step-mismatch

fresh dcp; rm "$F/.metadata"; finds "save without .metadata" dcp-incomplete
fresh dcp; rm "$F/__0_0.distcp"; finds "a rank's file is missing" dcp-file-missing
fresh dcp; truncate -s -100 "$F/__0_0.distcp"; finds "a rank's file is cut" dcp-cut
fresh dcp; echo x >>"$F/__0_0.distcp"; finds "a rank's file has grown" dcp-bytes-behind
fresh dcp; cp "$F/__0_0.distcp" "$F/__1_0.distcp"; finds "a file of another save" dcp-file-unused
fresh dcp; LC_ALL=C sed -i 's/__0_0\.distcp/..\/_0.distcp/' "$F/.metadata"; finds "a path out of the folder" dcp-path
fresh dcp; at=$("$ASSAY" checkpoint show --json "$F" | jq '.tensors[0].offset')
printf '\xff\xff\xff\xff' | dd of="$F/__0_0.distcp" bs=1 seek="$at" conv=notrunc status=none
expect "a value that is no number" 1 "$ASSAY" checkpoint verify "$F"
says "the tensor and its file" out "'model.w' [4, 3]: 1 NaN"
says "its archive's checksum" out "CRC-32 is"
finish
