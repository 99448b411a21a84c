#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the nodes of an MPI job; mpirun only starts the processes, nothing is linked with MPI.
#
#   fleet.sh -np 16 --hostfile hosts --map-by ppr:1:node      one process a node; the options are mpirun's
#
#   FLEET_DIR       where the nodes write; every node must see it (default: a new folder fleet-PID here)
#   FLEET_NODES     how many should answer (default: not checked)
#   FLEET_PER       node (default) or rank: compare every rank, such as its environment
#   FLEET_OPTIONS   more options of 'assay doctor'
#   FLEET_SECONDS   how long one process may take (default: 120)
#   ASSAY           the program (default: assay)
#
# Exit status: that of 'assay fleet' (0 alike, 1 someone differs, 2 could not tell).
set -u
dir=${FLEET_DIR:-$PWD/fleet-$$}
mkdir -p "$dir" || exit 2
here=$(cd "$(dirname "$0")" && pwd)

mpirun "$@" sh "$here/facts_of_rank.sh" "$dir" "${FLEET_PER:-node}" "${FLEET_SECONDS:-120}" "${ASSAY:-assay}" \
    "${FLEET_OPTIONS:-}" || echo "fleet: mpirun ended with $?" >&2
if [ -n "${FLEET_NODES:-}" ]; then
    exec "${ASSAY:-assay}" fleet "$dir" --nodes "$FLEET_NODES"
fi
exec "${ASSAY:-assay}" fleet "$dir"
