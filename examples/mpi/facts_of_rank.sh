#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One process of fleet.sh: writes the facts of its node. Always ends with 0: mpirun would end the other ranks with it.
#   facts_of_rank.sh FOLDER node|rank SECONDS ASSAY OPTIONS
set -u
name=$(hostname -s)
# Ranks as Open MPI, MPICH and Slurm's own launcher tell them.
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}
if [ "$2" = rank ]; then
    name=$name-rank$rank
elif [ "$local_rank" -ne 0 ]; then
    exit 0 # another process of this node writes
fi
# shellcheck disable=SC2086 # the options are words
timeout -k 5 "$3" "$4" doctor --facts --json --quiet $5 -o "$1/$name.json" ||
    echo "fleet: assay on $name ended with $?" >&2
exit 0
