#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm of two nodes on this machine: collectives and qualify --fleet under srun, examples/slurm as batch job, Prolog and
# HealthCheckProgram. Needs root, slurmctld, slurmd and munge (Debian: slurmctld slurmd slurm-client munge); else skipped.
. "$(dirname "$0")/../cli/lib.sh"
for tool in munged slurmctld slurmd srun sbatch; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "slurmd needs root"; exit 77; }
cd "$TMP"
host=$(hostname -s)
port=$((20000 + $$ % 9000))
mkdir state log bin check
# The program under its name; a rank is made odd by RANK_*, a node by the file broken-NODE.
cat >bin/assay <<SH
#!/bin/sh
[ "\${SLURM_PROCID:-x}" = "\${ODD_RANK:-y}" ] && export NCCL_ALGO=Ring
if [ "\$1" = doctor ] && [ -e "$TMP/broken-\${SLURMD_NODENAME:-x}" ]; then
    shift
    set -- doctor --root "$SOURCE/tests/hosts/container-wrong-render-gid/root" "\$@"
fi
exec "$ASSAY" "\$@"
SH
chmod +x bin/assay
# Slurm calls Prolog and HealthCheckProgram with an environment of its own.
for script in prolog health_check; do
    printf '#!/bin/sh\nexport PATH="%s:$PATH" CHECK_STATE="%s" SLURM_CONF="%s"\nexec sh "%s/examples/slurm/%s.sh"\n' \
        "$TMP/bin" "$TMP/check" "$TMP/slurm.conf" "$SOURCE" "$script" >"bin/$script"
    chmod +x "bin/$script"
done
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key
cat >slurm.conf <<CONF
ClusterName=assay
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$TMP/munge.sock
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SlurmUser=root
SlurmdUser=root
ReturnToService=2
StateSaveLocation=$TMP/state
SlurmdSpoolDir=$TMP/spool-%n
SlurmctldPidFile=$TMP/slurmctld.pid
SlurmdPidFile=$TMP/slurmd-%n.pid
SlurmctldLogFile=$TMP/log/slurmctld.log
SlurmdLogFile=$TMP/log/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
Prolog=$TMP/bin/prolog
PrologFlags=Alloc
HealthCheckProgram=$TMP/bin/health_check
HealthCheckInterval=3
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$TMP/slurm.conf
stop() {
    for pid in "$TMP"/*.pid; do
        [ -e "$pid" ] && kill "$(cat "$pid")" 2>/dev/null
    done
    sleep 1
    chmod -R u+rwx "$TMP" 2>/dev/null
    rm -rf "$TMP"
}
trap stop EXIT
munged --force --key-file="$TMP/munge.key" --socket="$TMP/munge.sock" --pid-file="$TMP/munged.pid" \
    --log-file="$TMP/log/munged.log" --seed-file="$TMP/munge.seed" >log/out 2>&1
sleep 1
slurmctld -c >>log/out 2>&1 && slurmd -N n1 >>log/out 2>&1 && slurmd -N n2 >>log/out 2>&1
wait_for_nodes() { # STATE: until the node $1 is so
    for _ in $(seq 40); do
        [ "$(sinfo -h -n "$1" -o %T)" = "$2" ] && return 0
        sleep 0.5
    done
    return 1
}
wait_for_nodes n1 idle && wait_for_nodes n2 idle || {
    sinfo
    tail -n 5 log/*
    echo "Slurm does not start here"
    exit 77
}
export PATH="$TMP/bin:$PATH" LD_LIBRARY_PATH=${FAKES:?} ASSAY_FAKE_HIP_DEVICES=2
export -n ASSAY

expect "two nodes" 0 srun -N 2 -n 4 --export=ALL,MASTER_ADDR=127.0.0.1 assay collectives --bytes 4K
says "two nodes" out "4 ranks: every result is exact"
expect "one node, without an address" 0 srun -N 1 -n 2 assay collectives --bytes 4K
says "one node, without an address" out "2 ranks: every result is exact"
expect "a wrong rank" 1 srun -N 2 -n 4 --export=ALL,MASTER_ADDR=127.0.0.1,ASSAY_FAKE_RCCL=wrong3 assay collectives --bytes 4K
says "a wrong rank" out "wrong results on rank 3"
expect "qualify --fleet" 1 srun -N 2 -n 4 --kill-on-bad-exit=0 --export=ALL,MASTER_ADDR=127.0.0.1,ODD_RANK=2,ASSAY_FAKE_RCCL=slow1 \
    assay qualify --fleet --only host,collectives,fleet --collective-bytes 4K
says "qualify --fleet" out "Late at each collective: rank 1"
says "qualify --fleet" out "env.NCCL_ALGO: Ring on $host-rank2"
[ "$(grep -c 'qualified with conditions' out)" = 1 ] || { echo "FAILED: one verdict was expected"; FAILED=1; }

batch() { # NAME STATUS COMMAND...: as a batch job; out has what it printed
    local name=$1 want=$2
    shift 2
    expect "$name" "$want" sbatch --quiet --wait -N 2 --ntasks=4 -o "$TMP/job" "$@"
    cp job out
}
batch "qualify.sbatch" 0 --export=ALL,MASTER_ADDR=127.0.0.1,RANKS_PER_NODE=2 "$SOURCE/examples/slurm/qualify.sbatch" --only host,collectives,fleet --collective-bytes 4K
says "qualify.sbatch" out "qualified: 1 note"
batch "fleet.sbatch" 0 "$SOURCE/examples/slurm/fleet.sbatch"
says "fleet.sbatch" out "the 2 nodes are alike"

# A node that is broken is drained, by the health check or by the job that comes to it; the other one goes on.
touch broken-n2
wait_for_nodes n2 drained || { echo "FAILED: HealthCheckProgram did not drain n2: $(sinfo -h)"; FAILED=1; }
scontrol show node n2 | grep -q 'Reason=assay: ' || { echo "FAILED: the reason: $(scontrol show node n2 | grep Reason)"; FAILED=1; }
expect "the other node works" 0 srun -N 1 -n 1 true
scontrol update NodeName=n2 State=RESUME
# Now without the health check: the Prolog alone.
sed -i '/^HealthCheck/d' slurm.conf
scontrol reconfigure
rm -f broken-n2
wait_for_nodes n2 idle || { scontrol update NodeName=n2 State=RESUME; wait_for_nodes n2 idle; } || true
touch broken-n2
timeout 30 srun -w n2 -n 1 true >out 2>err && { echo "FAILED: a job ran on the broken node"; FAILED=1; }
scancel -u root 2>/dev/null
sinfo -h -n n2 -o %T | grep -q drain || { echo "FAILED: Prolog did not drain n2: $(sinfo -h)"; FAILED=1; }
finish
