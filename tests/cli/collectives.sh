#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay collectives: look-alikes of HIP and RCCL on this machine, sound and with planted faults.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
fakes=(env "LD_LIBRARY_PATH=${FAKES:?}" ASSAY_FAKE_HIP_DEVICES=3)
try=("$ASSAY" collectives --bytes 4K --timeout 3)

expect "three devices" 0 "${fakes[@]}" "${try[@]}" --json
says "three devices" out '"verdict": "3 ranks: every result is exact'
python3 - "$TMP/out" <<'PY' || FAILED=1
import json, sys
r = json.load(open(sys.argv[1]))
assert len(r["checks"]) == 16 and all(c["exact"] == c["sizes"] >= 2 for c in r["checks"]), r["checks"]
# busbw as the nccl-tests define it
factor = {"all-reduce": 2 * 2 / 3, "all-gather": 2 / 3, "reduce-scatter": 2 / 3, "broadcast": 1}
assert len(r["bandwidth"]) == 4
for b in r["bandwidth"]:
    assert abs(b["algbw_gb_per_s"] - b["bytes"] / b["time_us"] / 1e3) < 1e-9 + 1e-4 * b["algbw_gb_per_s"], b
    assert abs(b["busbw_gb_per_s"] / b["algbw_gb_per_s"] - factor[b["operation"]]) < 1e-6, b
assert [k["rank"] for k in r["ranks"]] == [0, 1, 2]
PY

plant() { # WORD TEXT...
    local word=$1
    shift
    expect "$word" 1 "${fakes[@]}" "ASSAY_FAKE_RCCL=$word" "${try[@]}"
    for text in "$@"; do says "$word" out "$text"; done
}
plant wrong1 "Collectives give wrong results on rank 1" "the first is element 498"
plant hang2 "Hung in" "rank 2 ($(hostname | cut -c 1-64), hip:2) entered it and did not start it"
plant slow1 "Late at each collective: rank 1"
plant fail0 "Failed on rank 0" "ibv_reg_mr failed"
plant crash2 "The process of rank 2" "crashed or was killed"
plant stuck0 "all ranks arrived, and none ended it"
pgrep -s 0 -f "$ASSAY collectives --bytes 4K" >/dev/null && { echo "FAILED: processes are left behind"; FAILED=1; }

expect "less than was asked for" 2 "${fakes[@]}" "${try[@]}" --least-busbw 1000
says "less than was asked for" out "speaks of an all-reduce of 16 MiB or more"
expect "one device" 2 env "LD_LIBRARY_PATH=$FAKES" "${try[@]}"
says "one device" out "One rank alone"
expect "no library of collectives" 2 "${fakes[@]}" "${try[@]}" --library /nowhere/librccl.so
says "no library of collectives" out "Collectives cannot be tried on rank"
expect "no device" 2 env "LD_LIBRARY_PATH=$FAKES" ASSAY_FAKE_HIP=no-device "${try[@]}"
says "no device" err "neither CUDA nor HIP shows a GPU here"
expect "a number that is none" 64 "${try[@]}" --wait never
expect "an operand" 64 "${try[@]}" x
expect "MPI without its launcher" 64 "${try[@]}" --transport mpi
says "MPI without its launcher" err "mpirun -np N"
expect "no place" 64 env RANK=0 WORLD_SIZE=2 "LD_LIBRARY_PATH=$FAKES" "${try[@]}"
says "no place" err "set MASTER_ADDR"
expect "launcher's nonsense" 2 env RANK=7 WORLD_SIZE=2 "LD_LIBRARY_PATH=$FAKES" "${try[@]}"
says "launcher's nonsense" err "RANK is '7'"
expect "a rank that does not come" 1 env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "LD_LIBRARY_PATH=$FAKES" "${try[@]}" --wait 1
says "a rank that does not come" out "1 of 2 ranks did not come: rank 1"
expect "a lead that does not come" 2 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "${fakes[@]}" "${try[@]}" --wait 1
says "a lead that does not come" err "rank 1 does not reach rank 0 at 127.0.0.1:"

# Two processes that a launcher on two machines would start, over TCP; and on one machine, each behind a wrapper.
pair() { # NAME OPTION...: rank 1 in the background, rank 0 in front
    local name=$1
    shift
    RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 timeout 60 "${fakes[@]}" "${try[@]}" "$@" >"$TMP/second" 2>&1 &
    expect "$name" 0 env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "${fakes[@]}" "${try[@]}" "$@"
    wait $! || { echo "FAILED $name: the other rank: $?"; cat "$TMP/second"; FAILED=1; }
    says "$name" out "2 ranks: every result is exact"
}
port=$((20000 + $$ % 9000))
pair "over TCP" --rendezvous 127.0.0.1:$port
export LOCAL_WORLD_SIZE=2
pair "on one machine"
pair "on one machine over TCP" --rendezvous 127.0.0.1:$((port + 1))
# A process that is stopped answers nothing, a rank that waits for it does.
RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 timeout 60 "${fakes[@]}" ASSAY_FAKE_RCCL=stuck0 "${try[@]}" >"$TMP/second" 2>&1 &
second=$!
(
    sleep 2
    kill -STOP $(pgrep -P "$(pgrep -P $second)") 2>/dev/null
    sleep 8
    kill -KILL $(pgrep -P "$(pgrep -P $second)") 2>/dev/null
) &
expect "a stopped process" 1 env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 ASSAY_FAKE_RCCL=stuck0 "${fakes[@]}" "${try[@]}"
says "a stopped process" out "rank 1 ($(hostname | cut -c 1-64), hip:1) does not answer any more"
wait
# A rank of another job comes to the same place.
TORCHELASTIC_RUN_ID=other RANK=1 WORLD_SIZE=2 timeout 60 "${fakes[@]}" "${try[@]}" --rendezvous 127.0.0.1:$((port + 2)) >"$TMP/second" 2>&1 &
expect "a rank of another job" 1 env RANK=0 WORLD_SIZE=2 "${fakes[@]}" "${try[@]}" --rendezvous 127.0.0.1:$((port + 2)) --wait 2
wait $! && FAILED=1
says "a rank of another job" second "turned rank 1 away"
says "a rank of another job" out "1 of 2 ranks did not come: rank 1"
unset LOCAL_WORLD_SIZE
finish
