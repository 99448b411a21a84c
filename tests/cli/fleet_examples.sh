#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/slurm and examples/mpi with a made-up srun, scontrol and mpirun; frozen machines are the nodes.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
hosts=$SOURCE/tests/hosts
slurm=$SOURCE/examples/slurm
mkdir bin state
export PATH="$TMP/bin:$PATH" CHECK_STATE=$TMP/state
export -n ASSAY # the examples take the made-up one from PATH
for f in "$slurm"/*.sh "$slurm"/fleet.sbatch "$SOURCE"/examples/mpi/*.sh; do sh -n "$f" || FAILED=1; done
tool() { cat >"bin/$1"; chmod +x "bin/$1"; }
is() { [ "$2" = "$3" ] || { echo "FAILED $1: '$2' and not '$3'"; FAILED=1; }; }

# assay of a node: the machine under NODE_ROOT.
tool assay <<SH
#!/bin/sh
[ "\$1" = doctor ] || exec "$ASSAY" "\$@"
shift
exec "$ASSAY" doctor --root "\${NODE_ROOT:-$hosts/mi300x/root}" "\$@"
SH
# srun: the command once for each node; the options before it are dropped. NODE2_ROOT is the machine of n2, n3 may be down.
tool srun <<'SH'
#!/bin/sh
while :; do case $1 in --*) shift ;; *) break ;; esac; done
for n in n1 n2 n3 n4; do
    [ "$n" = "${DOWN:-}" ] && continue
    [ "$n" = n2 ] && [ -n "${NODE2_ROOT:-}" ] && NODE_ROOT=$NODE2_ROOT || NODE_ROOT=
    SLURMD_NODENAME=$n NODE_ROOT=$NODE_ROOT "$@" || true
done
[ -z "${DOWN:-}" ]
SH
tool train <<'SH'
#!/bin/sh
echo "$SLURMD_NODENAME trains $*"
SH
export SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=4 SLURM_JOB_NODELIST='n[1-4]'
expect "nodes alike" 0 sh "$slurm/fleet.sbatch"
says "nodes alike" out "the 4 nodes are alike"
is "files" "$(echo fleet-7/*)" "fleet-7/n1.json fleet-7/n2.json fleet-7/n3.json fleet-7/n4.json"
expect "then it trains" 0 sh "$slurm/fleet.sbatch" train "two words"
says "then it trains" out "n4 trains two words"
expect "another machine" 1 env FLEET_DIR=odd NODE2_ROOT="$hosts/rx7900xtx/root" sh "$slurm/fleet.sbatch" train
says "another machine" out "differs in what matters: n2"
grep -q trains out && { echo "FAILED: it trains on nodes that differ"; FAILED=1; }
expect "a node is down" 2 env FLEET_DIR=down DOWN=n3 sh "$slurm/fleet.sbatch" train
says "a node is down" out "no file came from: n3"
grep -q trains out && { echo "FAILED: it trains although a node is down"; FAILED=1; }

# The check of one node: 1 only for errors of doctor; never for a check that itself fails.
check() { expect "$1" "$2" env NODE_ROOT="$hosts/$3/root" sh "$slurm/node_check.sh"; }
check "a fit node" 0 mi300x
check "a node that cannot tell" 0 unreadable-sys
check "a node with an error" 1 container-wrong-render-gid
errors=$("$ASSAY" doctor --json --root "$hosts/container-wrong-render-gid/root" | jq -r '.findings[] | select(.severity == "error").title') || true
is "the errors" "$(cat out)" "$errors"
is "nothing is left" "$(ls state)" ""
for broken in 'exit 2' 'exit 127' 'kill -SEGV $$' 'echo "{"; exit 1' 'exit 1'; do
    printf '#!/bin/sh\n%s\n' "$broken" >bin/bad && chmod +x bin/bad
    expect "assay that fails: $broken" 0 env ASSAY="$TMP/bin/bad" sh "$slurm/node_check.sh"
    expect "its Prolog: $broken" 0 env ASSAY="$TMP/bin/bad" sh "$slurm/prolog.sh"
done
expect "assay that is not there" 0 env ASSAY=/nonexistent sh "$slurm/node_check.sh"
tool slow <<'SH'
#!/bin/sh
exec sleep 60
SH
SECONDS=0
expect "assay that hangs" 0 env ASSAY="$TMP/bin/slow" CHECK_SECONDS=1 sh "$slurm/node_check.sh"
[ "$SECONDS" -le 15 ] || { echo "FAILED: a hanging check took $SECONDS s"; FAILED=1; }
says "assay that hangs" err "no answer in time"
sleep 60 & hung=$!
echo "$hung $(cut -d ' ' -f 22 "/proc/$hung/stat")" >state/assay-node-check.pid
expect "an earlier check hangs" 0 env NODE_ROOT="$hosts/container-wrong-render-gid/root" sh "$slurm/node_check.sh"
says "an earlier check hangs" err "still hangs"
echo "$hung 1" >state/assay-node-check.pid
expect "its number is another's now" 1 env NODE_ROOT="$hosts/container-wrong-render-gid/root" sh "$slurm/node_check.sh"
kill "$hung"; wait "$hung" 2>/dev/null || true
rm -f state/*

# Prolog and HealthCheckProgram around it.
tool logger <<'SH'
#!/bin/sh
echo "$*" >>logged
SH
expect "Prolog of a fit node" 0 sh "$slurm/prolog.sh"
expect "Prolog of a sick node" 1 env NODE_ROOT="$hosts/container-wrong-render-gid/root" sh "$slurm/prolog.sh"
grep -q 'job 7 not started' logged || { echo "FAILED: the Prolog logs nothing"; FAILED=1; }
tool scontrol <<'SH'
#!/bin/sh
case $1 in
show) echo "   State=${NODE_STATE:-IDLE} ThreadsPerCore=1" ;;
*) printf '%s\n' "$@" >drained ;;
esac
SH
expect "health of a fit node" 0 sh "$slurm/health_check.sh"
[ ! -e drained ] || { echo "FAILED: a fit node is drained"; FAILED=1; }
expect "health of a drained node" 0 env NODE_STATE=IDLE+DRAIN NODE_ROOT="$hosts/container-wrong-render-gid/root" sh "$slurm/health_check.sh"
[ ! -e drained ] || { echo "FAILED: the reason of another is overwritten"; FAILED=1; }
expect "health of a sick node" 0 env SLURMD_NODENAME=n9 NODE_ROOT="$hosts/container-wrong-render-gid/root" sh "$slurm/health_check.sh"
is "what scontrol is told" "$(sed -n '1,3p' drained | tr '\n' ' ')" "update NodeName=n9 State=DRAIN "
is "the reason" "$(sed -n 4p drained)" "Reason=assay: $(head -n 1 <<<"$errors" | tr -d '"' | cut -c 1-160)"

# mpirun, made up: three ranks on two nodes.
tool mpirun <<'SH'
#!/bin/sh
while :; do case $1 in sh) break ;; *) shift ;; esac; done
for r in 0 1 2; do
    export OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_LOCAL_RANK=$((r % 2)) FAKE_HOST=m$((r / 2))
    "$@"
done
SH
tool hostname <<'SH'
#!/bin/sh
echo "$FAKE_HOST"
SH
expect "one file a node" 0 env FLEET_DIR=mpi FLEET_NODES=2 sh "$SOURCE/examples/mpi/fleet.sh" -np 3
is "one file a node" "$(echo mpi/*)" "mpi/m0.json mpi/m1.json"
expect "too few nodes" 2 env FLEET_DIR=mpi FLEET_NODES=3 sh "$SOURCE/examples/mpi/fleet.sh" -np 3
expect "one file a rank" 0 env FLEET_DIR=ranks FLEET_PER=rank sh "$SOURCE/examples/mpi/fleet.sh" -np 3
is "one file a rank" "$(echo ranks/*)" "ranks/m0-rank0.json ranks/m0-rank1.json ranks/m1-rank2.json"
finish
