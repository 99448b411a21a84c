#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HealthCheckProgram=/etc/slurm/assay/health_check.sh in slurm.conf, with node_check.sh beside it. Drains the node where
# 'assay doctor' finds an error; leaves alone a node that is drained already, so that the reason of another stays.
# It never makes a node come back: that is for people. The exit status is always 0.
set -u
node=${SLURMD_NODENAME:-$(hostname -s)}
errors=$(sh "$(dirname "$0")/node_check.sh" 2>/dev/null)
if [ $? -ne 1 ] || [ -z "$errors" ]; then
    exit 0
fi
reason="assay: $(printf '%s' "$errors" | head -n 1 | tr -d '"' | cut -c 1-160)"
if timeout -k 1 10 scontrol show node "$node" 2>/dev/null | grep -q 'State=[^ ]*D\(RAIN\|OWN\)'; then
    exit 0
fi
timeout -k 1 10 scontrol update NodeName="$node" State=DRAIN Reason="$reason" >/dev/null 2>&1 || true
exit 0
