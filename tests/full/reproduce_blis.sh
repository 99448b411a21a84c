#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a training job to an issue: a small transformer of Debian's PyTorch on BLIS 0.9.0 stops under the
# guard; reproduce makes a C program of it that fails against BLIS on its own and passes with OpenBLAS.
. "$(dirname "$0")/../cli/lib.sh"
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || { echo "python3-torch is not installed"; exit 77; }
command -v cc >/dev/null || { echo "no C compiler"; exit 77; }
grep -qw avx2 /proc/cpuinfo || { echo "BLIS's kernels at fault need AVX2"; exit 77; }
cd "$TMP"
libs=/usr/lib/x86_64-linux-gnu
blis=$(ls -d "$libs"/blis-*/libblas.so.3 2>/dev/null | head -n 1)
openblas=$(ls -d "$libs"/openblas-*/libblas.so.3 2>/dev/null | head -n 1)
if [ -z "$blis" ] || [ -z "$openblas" ]; then
    apt-get download libblis4-openmp libopenblas0-pthread >/dev/null 2>&1 || { echo "BLIS and OpenBLAS are neither installed nor to be downloaded"; exit 77; }
    for d in ./*.deb; do dpkg -x "$d" root; done
    blis=$TMP/root$libs/blis-openmp/libblas.so.3 openblas=$TMP/root$libs/openblas-pthread/libblas.so.3
fi
cat >job.py <<'PY'
import torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.TransformerEncoderLayer(63, 3, 129, dropout=0.0, batch_first=True), torch.nn.Linear(63, 17))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(40):
    size = 5 + step % 13
    logits = model(torch.randn(1, size, 63))
    loss = torch.nn.functional.cross_entropy(logits[0], torch.randint(0, 17, (size,)))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print("done")
PY
# The kernels of Zen and Haswell, whatever BLIS makes of this processor.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 BLIS_ARCH_TYPE=3
on=(env LD_LIBRARY_PATH="$(dirname "$blis")")
expect "BLIS, plain" 0 "${on[@]}" "$ASSAY" run --no-facts --record plain -- "$python" job.py
expect "BLIS, guarded" 139 "${on[@]}" "$ASSAY" run --guard --record run -- "$python" job.py
says "BLIS, guarded" err "gemm-reads-past-operand"
expect "reproduce" 1 "$ASSAY" reproduce run
says "the fault is the recorded one" out "It is the fault that was recorded"
says "unguarded it passes" out "without the guard the same call passes"
says "the program was tried" out "fails on its own: yes"
cp "$TMP/out" reproduced.txt
(cd run/reproducer && cc -O1 -o "$TMP/alone" reproducer.c -ldl -lm)
expect "the program alone, BLIS" 1 ./alone "$blis"
says "the program alone, BLIS" out "FAILED: "
expect "the program alone, OpenBLAS" 0 ./alone "$openblas"
expect "the program alone, BLIS, slack" 0 ./alone --slack "$blis"
[ "$(wc -l <run/reproducer/reproducer.c)" -le 100 ] || { echo "FAILED: more than 100 lines"; FAILED=1; }
grep -q "in the run: operand" run/reproducer/report.md || { echo "FAILED: the layout of the run is missing"; FAILED=1; }
! grep -q "$(hostname)" run/reproducer/report.md || { echo "FAILED: the host is named"; FAILED=1; }
expect "OpenBLAS, the same products" 2 "$ASSAY" reproduce plain --library "$openblas" --time 30
says "OpenBLAS, the same products" out "not reproduced"
cat reproduced.txt
finish
