#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is said of a cause is true of the log at hand: small jobs of PyTorch that broke in known ways, as they print it.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
first() { # first NAME CLASS FILES...: that cause stands first; - stands for none
    local name=$1 want=$2 got
    shift 2
    "$ASSAY" diagnose "$@" --json >out 2>err || true
    got=$(jq -r '.causes[0].class // "-"' out)
    [ "$got" = "$want" ] || { echo "FAILED $name: $got, wanted $want"; FAILED=1; }
}
not_said() { # not_said NAME TEXT: the last answer does not say it
    if grep -qF -- "$2" out; then echo "FAILED $1: it says '$2'"; FAILED=1; fi
}

cat >refused.log <<'L'
step 22 loss 0.1
Traceback (most recent call last):
  File "/tmp/job.py", line 5, in <module>
    xs.append(torch.zeros(1<<26)); print(f"step {step} loss 0.1",flush=True)
              ^^^^^^^^^^^^^^^^^^
RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 268435456 bytes. Error code 12 (Cannot allocate memory)
L
first "an allocation that a limit refused" host-oom refused.log
not_said "an allocation that a limit refused" "the kernel killed a process\""

cat >killed.log <<'L'
rank 1 step 5 loss 0.3186
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:23456: Connection reset by peer
W1130 05:06:32.157000 18220 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 18366 closing signal SIGTERM
E1130 05:06:32.229000 18220 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 18368) of binary: /opt/venv/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
L
: >quiet.kernel
first "SIGKILL, and the kernel log was not asked" host-oom killed.log
first "SIGKILL, and the kernel did not do it" killed-from-outside killed.log --kernel-log quiet.kernel

cat >gloo.log <<'L'
rank 0 step 5 loss 0.3186
rank 1 step 5 loss 0.3186
[rank0]: Traceback (most recent call last):
[rank0]:   File "/tmp/ddp.py", line 9, in <module>
[rank0]:     l=m(torch.randn(8,16)).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete
W1130 05:07:19.021000 25787 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 26712 closing signal SIGTERM
E1130 05:07:19.055000 25787 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 26710) of binary: /opt/venv/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
L
first "a rank of gloo that does not come" collective-timeout gloo.log
{ cat gloo.log; echo "[rank1]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:25295. This is typically caused by a remote worker crashing."; } >desync.log
first "the echo of the rank that gave up" collective-timeout desync.log

i=0
for n in 0.9 31.2 8140.5 2.1e+12 inf nan nan nan nan nan; do echo "{'loss': $n, 'step': $((i++))}"; done >diverges.log
first "a loss that rises without bound" lr-too-high diverges.log

cat >hook.log <<'L'
step 0 loss 0.4492
Traceback (most recent call last):
  File "/tmp/job.py", line 6, in <module>
    l.backward()
  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
  File "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 1113, in _engine_run_backward
    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
  File "/tmp/job.py", line 3, in h
    def h(g): raise RuntimeError("hook says no")
RuntimeError: hook says no
L
first "an exception of the program's own" program-error hook.log
first "lists of signals" - <(printf '%s\n' "step 1 loss 0.5" "{'SIGINT': '1', 'SIGTERM': '0', 'SIGSEGV': '0'}" "done")
finish
