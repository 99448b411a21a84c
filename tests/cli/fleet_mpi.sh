#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/mpi with a real mpirun: four ranks, one with another switch, then one on another (frozen) machine.
. "$(dirname "$0")/lib.sh"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "Open MPI's mpirun is not installed"; exit 77; }
cd "$TMP"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_plm_rsh_agent=/bin/false OMPI_MCA_hwloc_base_binding_policy=none ASSAY FLEET_PER=rank
options=(-np 4)
if ! timeout 60 mpirun "${options[@]}" true >"$TMP/mpi" 2>&1; then
    head -n 5 "$TMP/mpi"
    echo "mpirun does not start four processes here"
    exit 77
fi
fleet=$SOURCE/examples/mpi/fleet.sh
host=$(hostname -s)

expect "four ranks alike" 0 env FLEET_DIR=same FLEET_NODES=4 sh "$fleet" "${options[@]}"
says "four ranks alike" out "the 4 nodes are alike"
[ "$(find same -name "$host-rank?.json" | wc -l)" = 4 ] || { echo "FAILED: files of four ranks: $(ls same)"; FAILED=1; }

# The launcher hands one rank another environment, as a forgotten line in one node's profile does.
cat >odd <<SH
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 2 ] && export NCCL_ALGO=Ring
exec "$ASSAY" "\$@"
SH
chmod +x odd
real=$ASSAY
expect "one rank with a switch" 1 env FLEET_DIR=switch ASSAY="$TMP/odd" sh "$fleet" "${options[@]}"
says "one rank with a switch" out "differs in what matters: $host-rank2"
says "one rank with a switch" out "env.NCCL_ALGO: Ring on $host-rank2; absent on 3 of 4"

cat >odd <<SH
#!/bin/sh
[ "\$1" = doctor ] && { shift; root=$SOURCE/tests/hosts/rx7900xtx/root
    [ "\$OMPI_COMM_WORLD_RANK" = 1 ] && root=$SOURCE/tests/hosts/mi300x/root
    exec "$real" doctor --root "\$root" "\$@"; }
exec "$real" "\$@"
SH
expect "one rank on another machine" 1 env FLEET_DIR=machine ASSAY="$TMP/odd" sh "$fleet" "${options[@]}"
says "one rank on another machine" out "devices: not as on the other nodes: $host-rank1"

# A rank whose assay dies does not end the others.
cat >odd <<SH
#!/bin/sh
[ "\$1" = doctor ] && [ "\$OMPI_COMM_WORLD_RANK" = 3 ] && kill -SEGV \$\$
exec "$real" "\$@"
SH
expect "one rank dies" 2 env FLEET_DIR=dead FLEET_NODES=4 ASSAY="$TMP/odd" sh "$fleet" "${options[@]}"
says "one rank dies" out "1 of 4 nodes"
finish
