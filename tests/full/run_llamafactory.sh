#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recorder in the users' real frameworks, unmodified, on the CPU: LLaMA-Factory's LoRA fine-tuning is
# recorded and guarded to its end, and stopped with the operand named where a BLAS over-reads; a data
# worker that hangs is found; the processes of torchrun are told apart by rank.
. "$(dirname "$0")/../cli/lib.sh"
jobs=$SOURCE/tests/full/jobs
python=$("$SOURCE/tests/full/llamafactory_env.sh") || { echo "LLaMA-Factory cannot be installed"; exit 77; }
bin=$(dirname "$python")
mkdir "$TMP/job" # the job has a folder "out" of its own
cd "$TMP/job"
export EXPECT_SECONDS=300
run=("$ASSAY" run --no-facts)
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
train=("$python" "$bin/llamafactory-cli" train lora.yaml)
"$python" "$jobs/llamafactory_job.py" >job.out 2>&1 || { cat job.out; exit 1; }

expect "LLaMA-Factory, recorded" 0 "${run[@]}" --record plain -- "${train[@]}"
says "its products are seen" err "sgemm_"
expect "LLaMA-Factory, guarded" 0 "${run[@]}" --guard --record guarded -- "${train[@]}"
says "every tensor was guarded" err "guard proven at the start"
for r in plain guarded; do # steps 5, 10, .. 40, each with its loss
    [ "$(jq -s '[.[] | select(.loss != null and .grad_norm != null)] | length' $r/metrics.jsonl)" = 8 ] ||
        { echo "FAILED: eight losses in $r/metrics.jsonl"; cat $r/metrics.jsonl; FAILED=1; }
    jq -s '[.[] | .loss // empty]' $r/metrics.jsonl >$r.losses
done
cmp -s plain.losses guarded.losses || { echo "FAILED: the guard changed the losses"; diff plain.losses guarded.losses; FAILED=1; }
expect "LLaMA-Factory over a BLAS that over-reads" 139 env LD_PRELOAD="$OVER_READ" "${run[@]}" --guard --record over -- "${train[@]}"
says "the operand is named" err "gemm-reads-past-operand"
says "the library is named" err "libtinyblas-over.so"
says "the phase is told" err "phase: forward"

expect "a data worker that hangs" 124 "${run[@]}" --hang 3 --kill-hung --record hang -- "$python" "$jobs/hanging_worker.py"
says "its place is named" err "waits in read_from_a_dead_mount"

expect "two ranks" 0 "${run[@]}" --record ranks -- "$python" -m torch.distributed.run --nproc-per-node 2 "$jobs/two_ranks.py"
"$ASSAY" report ranks --json >ranks.json || true
jq -e '[.processes[] | select(.rank != null) | .calls] | length == 2 and .[0] == .[1] and .[0] > 0' ranks.json >/dev/null ||
    { echo "FAILED: two ranks of as many calls"; jq .processes ranks.json; FAILED=1; }
expect "a rank that dies" 1 env PLANT=1 "${run[@]}" --record dead -- "$python" -m torch.distributed.run --nproc-per-node 2 "$jobs/two_ranks.py"
"$ASSAY" report dead --json >dead.json || true
jq -e '.processes[] | select(.rank == 1) | .end == "signal SEGV"' dead.json >/dev/null ||
    { echo "FAILED: rank 1 died of SIGSEGV"; jq .processes dead.json; FAILED=1; }
finish
