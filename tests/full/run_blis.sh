#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real bug in a real job: Debian's PyTorch with BLIS 0.9.0 passes plainly, stops under the guard with the
# operand named, and runs guarded to its end with OpenBLAS. Packages are unpacked, not installed.
. "$(dirname "$0")/../cli/lib.sh"
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || { echo "python3-torch is not installed"; exit 77; }
cd "$TMP"
apt-get download libblis4-openmp libopenblas0-pthread >/dev/null 2>&1 || { echo "the packages of BLIS and OpenBLAS cannot be downloaded"; exit 77; }
for d in ./*.deb; do dpkg -x "$d" root; done
libs=$TMP/root/usr/lib/x86_64-linux-gnu
cat >job.py <<'PY'
import torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(63, 129), torch.nn.ReLU(), torch.nn.Linear(129, 17))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(40):
    size = 5 + step % 13
    loss = torch.nn.functional.cross_entropy(model(torch.randn(size, 63)), torch.randint(0, 17, (size,)))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
print("done")
PY
# The kernels of AVX2 processors (haswell, zen to zen3). BLIS chooses by processor, and what it chooses on
# AVX-512 ones (skx) is clean.
export BLIS_ARCH_TYPE=3
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
expect "BLIS, plain" 0 env LD_LIBRARY_PATH="$libs/blis-openmp" "$ASSAY" run --no-facts --record plain -- "$python" job.py
says "BLIS served it" err "libblas.so.3"
expect "BLIS, guarded" 139 env LD_LIBRARY_PATH="$libs/blis-openmp" "$ASSAY" run --no-facts --guard --record blis -- "$python" job.py
says "BLIS is convicted" err "gemm-reads-past-operand"
says "the phase is told" err "phase: "
grep -q 'served by .*blis-openmp' "$TMP/err" || { echo "FAILED: the guilty library is not named"; FAILED=1; }
expect "OpenBLAS, guarded" 0 env LD_LIBRARY_PATH="$libs/openblas-pthread" "$ASSAY" run --no-facts --guard --record openblas -- "$python" job.py
says "OpenBLAS is acquitted" err "no fault observed"
finish
