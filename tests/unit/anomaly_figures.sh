#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of docs/watch.md in small: what the detector must find on planted series, and how quiet it must
# be on clean ones. usage: anomaly_figures.sh TOOL
set -euo pipefail
table=$("$1" 2)
echo "$table"
echo "$table" | awk -F'|' '
    function must(name, least, most) { wanted[name] = 1; low[name] = least; high[name] = most }
    BEGIN {
        must("clean, normal noise 0.03", "-", 0.1); must("clean, normal noise 0.2", "-", 0.1)
        must("clean, heavy tails (t3) 0.2", "-", 2); must("clean, slow noise (AR 0.8) 0.2", "-", 2)
        must("spikes of 12 sigma (0.36)", 99, 0.5); must("spikes of 30 sigma (0.9), heavy tails", 45, 3)
        must("shift of 5 sigma (0.15)", 99, 1); must("drift of 10 sigma (0.3) in 1,000 steps", 99, 1)
        must("sine of 1 sigma, period 50", 99, 1); must("spike of 8 sigma every 25 steps", 99, 1)
        must("grad_norm around 8, clean", "-", 0.1); must("stuck at one value", 99, 0.1)
        must("clean, printed with two decimals", "-", 0.1)
    }
    { gsub(/^ +| +$/, "", $2) }
    $2 in wanted {
        seen++
        if (low[$2] != "-" && !($3 + 0 >= low[$2])) { print "FAILED " $2 ": recall " $3; bad = 1 }
        if (!($4 + 0 <= high[$2])) { print "FAILED " $2 ": false alarms " $4; bad = 1 }
    }
    END { if (seen != 13) { print "FAILED: " seen " of 13 rows"; bad = 1 } exit bad }'
