#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay collectives with a real mpirun: four ranks over host memory and over look-alikes of HIP and RCCL.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
try=("$ASSAY" collectives --bytes 4K --timeout 20)
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "Open MPI's mpirun is not installed"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_plm_rsh_agent=/bin/false OMPI_MCA_hwloc_base_binding_policy=none
timeout 60 mpirun -np 4 true >/dev/null 2>&1 || { echo "mpirun does not start four processes here"; exit 77; }
expect "four ranks of Open MPI over host memory" 0 mpirun -np 4 "${try[@]}" --transport mpi
says "four ranks of Open MPI over host memory" out "4 ranks: every result is exact"
says "four ranks of Open MPI over host memory" out "Open MPI v"
export LD_LIBRARY_PATH=${FAKES:?} ASSAY_FAKE_HIP_DEVICES=4
expect "device memory through MPI" 0 mpirun -np 4 "${try[@]}" --transport mpi
says "device memory through MPI" out "times hold the copies from the device and back"
expect "a slow rank under mpirun" 1 mpirun -np 4 -x ASSAY_FAKE_RCCL=slow3 "${try[@]}"
says "a slow rank under mpirun" out "Late at each collective: rank 3"
expect "a rank that crashes under mpirun" 1 mpirun -np 4 -x ASSAY_FAKE_RCCL=crash1 "${try[@]}"
says "a rank that crashes under mpirun" out "The process of rank 1"

# All of it as stages of qualify: one rank with another switch, another one slow; both are named, by one verdict, and
# every rank ends with its exit status.
cat >odd <<SH
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 2 ] && export NCCL_ALGO=Ring
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && [ -n "\$DIES" ] && exit 3
"$ASSAY" "\$@"
echo \$? >"status-\$OMPI_COMM_WORLD_RANK"
exit 0
SH
chmod +x odd
qualify=(./odd qualify --fleet --only host,collectives,fleet --collective-bytes 4K)
expect "qualify --fleet" 0 mpirun -np 4 -x ASSAY_FAKE_RCCL=slow3 "${qualify[@]}"
says "qualify --fleet" out "Late at each collective: rank 3"
says "qualify --fleet" out "env.NCCL_ALGO: Ring on $(hostname)-rank2; absent on 3 of 4"
says "qualify --fleet" out "qualified with conditions: 2 warnings"
[ "$(grep -c 'qualified with conditions' "$TMP/out")" = 1 ] || { echo "FAILED: more than one verdict"; FAILED=1; }
[ "$(cat status-? | tr '\n' ' ')" = "1 1 1 1 " ] || { echo "FAILED: statuses of the ranks: $(cat status-?)"; FAILED=1; }
# A rank that is not there: it is named, and the others do not wait for ever.
expect "a rank of qualify --fleet that ends at once" 0 mpirun -np 3 -x DIES=1 --mca orte_abort_on_non_zero_status 0 "${qualify[@]}" --fleet-wait 3
says "a rank of qualify --fleet that ends at once" out "rank 1"
says "a rank of qualify --fleet that ends at once" out "not qualified"
[ "$(cat status-0 status-2 | tr '\n' ' ')" = "1 1 " ] || { echo "FAILED: statuses without rank 1: $(cat status-?)"; FAILED=1; }
unset LD_LIBRARY_PATH
expect "--fleet alone" 2 "$ASSAY" qualify --fleet --only host,fleet
says "--fleet alone" out "this process was started alone"
expect "--fleet-wait without --fleet" 64 "$ASSAY" qualify --fleet-wait 3
finish
