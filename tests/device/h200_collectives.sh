#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: h200_collectives.sh [OUT]
# Collectives on a machine with two or more NVIDIA GPUs, from an unpacked dist/: NCCL of PyTorch's wheel over all GPUs in
# one process each, then two processes as a launcher would start them, also of qualify --fleet, the metrics of the exporter
# while the GPUs work, one rank that is stopped in the middle; then data parallel training by torchrun, recorded, and the
# same with a rank that leaves its loop. Needs no MPI. About two minutes.
set -u
export NCCL_NVLS_ENABLE=0 # no multicast
here=$(cd "$(dirname "$0")" && pwd)
assay=${ASSAY:-$here/../../dist/bin/assay}
out=${1:-$(mktemp -d)}
mkdir -p "$out"
gpus=$(nvidia-smi -L | wc -l)
# Where the Python of this machine has NCCL, in case it is no place that assay looks at.
nccl=$(python3 - 2>/dev/null <<'PY'
import glob, site, sys
for root in site.getsitepackages() + [site.getusersitepackages()] + sys.path:
    for found in sorted(glob.glob(f"{root}/nvidia/nccl/lib/libnccl.so.2")):
        print(found.rsplit("/", 1)[0])
        sys.exit()
PY
)
[ -n "$nccl" ] && export LD_LIBRARY_PATH="$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
bad=0
check() { # NAME WANTED GOT
    if [ "$2" = "$3" ]; then echo "== $1: exit $3"; else echo "== $1: exit $3, WANTED $2"; bad=1; fi
}

echo "== $gpus GPUs, one process each"
timeout 60 "$assay" collectives --device cuda --format json -o "$out/collectives.json" 2>"$out/collectives.err"
check "all GPUs" 0 $?
python3 - "$out/collectives.json" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
print(r["verdict"])
for f in r["findings"]: print(f["severity"], f["id"], f["title"], [e["text"] for e in f["evidence"]])
print("exact:", sum(c["exact"] for c in r["checks"]), "of", sum(c["sizes"] for c in r["checks"]))
for b in r["bandwidth"]: print("%-14s %10d bytes %10.1f us  algbw %8.2f  busbw %8.2f GB/s" % (b["operation"], b["bytes"], b["time_us"], b["algbw_gb_per_s"], b["busbw_gb_per_s"]))
for k in r["ranks"]: print("rank", k["rank"], k["device"], "comes after", k["arrival_us"], "us, spread", k["spread_us"])
for n in r["notes"]: print(n)
PY

echo "== two processes of a launcher, over TCP"
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
RANK=1 LOCAL_RANK=1 timeout 40 "$assay" collectives --bytes 16M --rendezvous 127.0.0.1:29477 >"$out/rank1" 2>&1 &
second=$!
RANK=0 LOCAL_RANK=0 timeout 40 "$assay" collectives --bytes 16M --rendezvous 127.0.0.1:29477 >"$out/rank0" 2>&1
check "rank 0" 0 $?
wait $second
check "rank 1" 0 $?
tail -n 1 "$out/rank0"

echo "== rank 1 stopped: its process is named within the limit"
RANK=1 LOCAL_RANK=1 timeout 40 "$assay" collectives --timeout 5 --rendezvous 127.0.0.1:29478 >"$out/stop1" 2>&1 &
second=$!
RANK=0 LOCAL_RANK=0 timeout 40 "$assay" collectives --timeout 5 --rendezvous 127.0.0.1:29478 >"$out/stop0" 2>&1 &
first=$!
sleep 7 # libraries are loaded and trials run
worker=$(pgrep -P "$(pgrep -P $second | head -n 1)" 2>/dev/null || pgrep -P $second)
kill -STOP $worker 2>/dev/null
wait $first
echo "exit $? (1 where it was stopped in a trial; 0 where all was over before)"
tail -n 1 "$out/stop0"
kill -KILL $worker 2>/dev/null
wait $second 2>/dev/null

echo "== qualify --fleet: two ranks, one verdict"
RANK=1 LOCAL_RANK=1 timeout 60 "$assay" qualify --fleet --only host,collectives,fleet --collective-bytes 16M >"$out/fleet1" 2>&1 &
second=$!
RANK=0 LOCAL_RANK=0 timeout 60 "$assay" qualify --fleet --only host,collectives,fleet --collective-bytes 16M --json >"$out/fleet0" 2>"$out/fleet0.err"
first=$?
wait $second
check "rank 1 has the status of rank 0" $first $?
python3 -c "import json; r = json.load(open('$out/fleet0')); print(r['verdict']); [print(s['name'], s['verdict'], s['summary']) for s in r['stages'] if s['verdict'] != 'not asked']"
unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR

echo "== the exporter during work"
"$assay" exporter --listen 127.0.0.1:9478 2>"$out/exporter.err" &
exporter=$!
timeout 40 "$assay" collectives --device cuda --bytes 1G >"$out/work" 2>&1 &
work=$!
sleep 6
python3 -c "import urllib.request; open('$out/metrics', 'wb').write(urllib.request.urlopen('http://127.0.0.1:9478/metrics', timeout=10).read())"
wait $work
kill -TERM $exporter
wait $exporter
check "exporter" 0 $?
grep '^assay_gpu_' "$out/metrics" | grep -v _info
for metric in temperature_celsius power_watts clock_hertz memory_used_bytes busy_ratio; do
    grep -q "^assay_gpu_$metric{" "$out/metrics" || { echo "MISSING assay_gpu_$metric"; bad=1; }
done

echo "== data parallel training, recorded"
export PYTHONWARNINGS=ignore
"$assay" run --no-facts --record "$out/ddp" -- torchrun --nproc-per-node "$gpus" "$here/h200_ddp.py" 20 >"$out/ddp.out" 2>"$out/ddp.err"
check "data parallel" 0 $?
tail -n 30 "$out/ddp.err"
grep -q ncclAllReduce "$out/ddp.err" || { echo "NO ncclAllReduce on record"; bad=1; }
echo "== a rank leaves its loop"
"$assay" run --no-facts --hang 20 --kill-hung --record "$out/desert" -- torchrun --nproc-per-node "$gpus" "$here/h200_ddp.py" 20 desert >"$out/desert.out" 2>"$out/desert.err"
check "a hang that was ended" 124 $?
sed -n '/^cause/,/^libraries/p' "$out/desert.err" | head -n 60
exit $bad
