#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay exporter on NVIDIA GPUs: readings of a look-alike of NVML, none that is not there, and a driver that does not start.
. "$(dirname "$0")/lib.sh"
nvml=("$ASSAY" exporter --once --root "$SOURCE/tests/hosts/h200/root" --nvml "${FAKES:?}/libnvidia-ml.so.1")
expect "readings" 0 "${nvml[@]}"
for line in 'assay_gpu_temperature_celsius{gpu="0"} 34' 'assay_gpu_power_watts{gpu="0"} 123.456' \
    'assay_gpu_power_limit_watts{gpu="0"} 700' 'assay_gpu_clock_hertz{gpu="0"} 1980000000' 'assay_gpu_busy_ratio{gpu="0"} 0.87' \
    'assay_gpu_memory_size_bytes{gpu="0"} 150754820096' 'assay_gpu_memory_used_bytes{gpu="0"} 1073741824' \
    'assay_gpu_uncorrectable_errors_total{gpu="0"} 2' 'assay_gpu_correctable_errors_total{gpu="0"} 5' 'assay_gpu_processes{gpu="0"} 3' \
    'assay_gpu_throttled{gpu="0"} 0' 'assay_gpu_throttle_reason{gpu="0",reason="power_cap"} 0'; do
    says readings out "$line"
done
grep -qi xid "$TMP/out" && { echo "FAILED: NVML does not count Xids"; FAILED=1; }
expect "hot" 0 env ASSAY_FAKE_NVML=hot "${nvml[@]}"
says hot out 'assay_gpu_throttled{gpu="0"} 1'
says hot out 'assay_gpu_throttle_reason{gpu="0",reason="thermal_hardware"} 1'
says hot out 'assay_gpu_throttle_reason{gpu="0",reason="power_brake"} 0'
expect "a board without ECC" 0 env ASSAY_FAKE_NVML=no-ecc "${nvml[@]}"
grep -q '^assay_gpu_uncorrectable_errors_total' "$TMP/out" && { echo "FAILED: a reading that is not there"; FAILED=1; }
expect "it does not start" 2 env ASSAY_FAKE_NVML=no-start "${nvml[@]}"
says "it does not start" err "does not start: Driver Not Loaded (9)"
expect "no such library" 2 "$ASSAY" exporter --once --nvml /nowhere/libnvidia-ml.so.1
says "no such library" err "/nowhere/libnvidia-ml.so.1"
# Of another machine's files nothing is asked of this one's driver.
expect "a frozen machine" 0 env "LD_LIBRARY_PATH=$FAKES" "$ASSAY" exporter --once --root "$SOURCE/tests/hosts/h200/root"
grep -q '^assay_gpu_power_watts' "$TMP/out" && { echo "FAILED: this machine's readings under another's name"; FAILED=1; }
expect "this machine" 0 env "LD_LIBRARY_PATH=$FAKES" ASSAY_FAKE_NVML=no-start "$ASSAY" exporter --once
says "this machine" err "NVIDIA GPUs tell little"
if command -v promtool >/dev/null; then
    "${nvml[@]}" 2>/dev/null | promtool check metrics || FAILED=1
fi
finish
