#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that hang in a collective: the rank that is behind, and ranks that called different things, by their records.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"

job() { # NAME ARGUMENTS-OF-RANK...
    local name=$1 rank=0 script=
    shift
    for arguments in "$@"; do
        script+="RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$# \"$DESYNC\" $arguments & "
        rank=$((rank + 1))
    done
    expect "$name" 124 "$ASSAY" run --no-facts --hang 2 --kill-hung --record "$name" -- sh -c "$script wait"
}

job behind 24 23 24
says "who is behind" err "rank 1 did not come to collective 24 (ncclAllReduce of 124 elements), where rank 0 waits"
says "its class" err "(collective-timeout, application-config"
says "how far it came" err "rank 1 made 23 collectives; the last: ncclAllReduce of 123 elements"
says "how far another came" err "rank 2 made 24 collectives; number 24: ncclAllReduce of 124 elements"
says "whose stacks to read" err "lines of output of rank 1"
says "the stacks are there as well" err "stacks."
job odd "12" "12 9"
says "who differs" err "rank 0 and rank 1 called different collectives: ncclAllReduce of 109 elements, and ncclAllGather of 8 elements"
says "its class" err "(collective-desync, application-config"
job long 9000 8999
says "beyond the ring" err "rank 1 did not come to collective 9000 (ncclAllReduce of 9100 elements)"
for same in "equal 7 7" "several 7|0|2 6|0|2"; do
    # shellcheck disable=SC2086 # words
    set -- $same
    job "$1" "${2//|/ }" "${3//|/ }"
    says "$1: it hung" err "the job hung"
    if grep -q "did not come" err; then echo "FAILED: $1: a rank is blamed"; FAILED=1; fi
done

# What torchrun says when it is stopped needs no explanation where we stopped it.
cat >launcher <<'S'
trap 'echo "W1130 12:32:29.806000 1646 torch/distributed/elastic/multiprocessing/api.py:1012] Sending process 1686 closing signal SIGTERM
Traceback (most recent call last):
  File \"/opt/venv/lib/python3.12/site-packages/torch/distributed/elastic/multiprocessing/api.py\", line 100, in _terminate_process_handler
    raise SignalException(f\"Process {os.getpid()} got signal: {sigval}\", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 1646 got signal: 15" >&2; exit 1' TERM
[ -z "${DIES:-}" ] || kill -TERM $$
sleep 100 & wait
S
for how in "--hang 2 --kill-hung" "--timeout 2"; do
    # shellcheck disable=SC2086 # words
    expect "a launcher, $how" 124 "$ASSAY" run --no-facts $how --record "launcher$how" -- sh launcher
    if grep -q "not explained" err; then echo "FAILED: $how: what the launcher says of our own signal"; FAILED=1; fi
done
DIES=1 expect "somebody else's signal" 1 "$ASSAY" run --no-facts --record other -- sh launcher
says "that is not explained" err "not explained"

# The watchdog of PyTorch tells that somebody waited; the records, for whom.
watchdog='[rank0]:[E1130 10:00:00.000000 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=24, OpType=ALLREDUCE, NumelIn=124, NumelOut=124, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.'
expect "a watchdog" 1 "$ASSAY" run --no-facts --record watchdog -- sh -c "RANK=0 WORLD_SIZE=2 \"$DESYNC\" 24 & RANK=1 WORLD_SIZE=2 \"$DESYNC\" 23 & sleep 2; kill \$(jobs -p); echo '$watchdog' >&2; exit 1"
says "the time-out" err "(collective-timeout"
says "the rank that did not come" err "rank 1 did not come to collective 24"
finish
