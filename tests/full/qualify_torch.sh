#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole qualification with a real PyTorch: sound with the oracle's environment, and with BLIS 0.9.0 as the BLAS
# of Debian's PyTorch not qualified, by the products and by the path that ran.
. "$(dirname "$0")/../cli/lib.sh"
python=$("$(dirname "$0")/oracle_env.sh") || exit 77
cd "$TMP"
cat >job.py <<'PY'
import torch
from safetensors.torch import save_file
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(63, 129), torch.nn.ReLU(), torch.nn.Linear(129, 17))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
target = torch.nn.Linear(63, 17)
for step in range(1, 121):
    x = torch.randn(33, 63)
    loss = torch.nn.functional.cross_entropy(model(x), target(x).argmax(1))
    optimizer.zero_grad(); loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f} grad_norm {norm.item():.4f}", flush=True)
save_file(model.state_dict(), "model.safetensors")
PY
quick() { timeout 170 "$@" >out 2>err </dev/null; }
got=0
quick "$ASSAY" qualify --device cpu --python "$python" --skip host,stack --save sound -- "$python" job.py || got=$?
[ "$got" = 0 ] || { echo "FAILED: exit $got"; cat out; FAILED=1; }
says "qualified" out "qualified: "
says "the path" out "what really computed:"
says "its checkpoint" out "the command's: $TMP/model.safetensors"
for stage in device operators torch evidence linear-attention training command checkpoint resume; do
    grep -q "^stage $stage *passed" out || { echo "FAILED: $stage did not pass"; FAILED=1; }
done

debian=/usr/bin/python3
"$debian" -c 'import torch' 2>/dev/null || { echo "python3-torch is not installed: the part with BLIS is left out"; finish; }
apt-get download libblis4-openmp >/dev/null 2>&1 || { echo "the package of BLIS cannot be downloaded: that part is left out"; finish; }
for d in ./*.deb; do dpkg -x "$d" root; done
# The kernels of AVX2 processors; those of AVX-512 ones are clean.
export BLIS_ARCH_TYPE=3 OMP_NUM_THREADS=1 LD_LIBRARY_PATH=$TMP/root/usr/lib/x86_64-linux-gnu/blis-openmp
got=0
quick "$ASSAY" qualify --device cpu --python "$debian" --only operators,evidence --expect yes:blis || got=$?
[ "$got" = 1 ] || { echo "FAILED: BLIS: exit $got"; FAILED=1; }
says "BLIS is convicted" out "gemm-reads-past-operand"
says "BLIS is not qualified" out "not qualified: "
says "BLIS served PyTorch" out "it holds with --expect yes:blis"
got=0
quick "$ASSAY" qualify --device cpu --python "$debian" --only evidence --expect no:blis || got=$?
[ "$got" = 1 ] || { echo "FAILED: BLIS was to be left: exit $got"; FAILED=1; }
grep -qE 'no:blis +did not take effect' out || { echo "FAILED: BLIS was to be left"; FAILED=1; }
finish
