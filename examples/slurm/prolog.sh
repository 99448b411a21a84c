#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prolog=/etc/slurm/assay/prolog.sh in slurm.conf, with node_check.sh beside it. A Prolog that fails makes slurmd drain
# the node and requeue the job (slurm.conf(5)); no Slurm command is called here. It fails only where doctor finds an error.
set -u
errors=$(sh "$(dirname "$0")/node_check.sh" 2>/dev/null)
if [ $? -eq 1 ] && [ -n "$errors" ]; then
    logger -t assay-prolog "job ${SLURM_JOB_ID:-?} not started: $(printf '%s' "$errors" | head -n 1)" 2>/dev/null || true
    printf 'assay: %s\n' "$errors"
    exit 1
fi
exit 0
