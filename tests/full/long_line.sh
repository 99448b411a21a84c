#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A log that is one line of 1 GB (a sparse file) with a fault in it: found, in bounded memory.
set -euo pipefail
assay=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
truncate -s 1G "$log"
printf 'Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f3a0000. Reason: Page not present or supervisor privilege.' |
    dd of="$log" bs=1 seek=700000123 conv=notrunc status=none
python3 - "$assay" "$log" <<'P'
import resource, subprocess, sys
out = subprocess.run([sys.argv[1], "diagnose", "--json", sys.argv[2]], capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
assert out.returncode == 1, (out.returncode, out.stderr)
assert "0x7f3a0000" in out.stdout, out.stdout[:500]
assert peak < 100, f"peak memory {peak:.0f} MB"
print(f"found, peak {peak:.0f} MB")
P
