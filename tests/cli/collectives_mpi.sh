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
finish
