#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Contrasts and comparisons on a real GPU: a forgotten mask that only the guard sees; two BLAS paths of one
# LoRA training, three runs each, judged by the noise of the first; eager against torch.compile, guard off and on,
# with the exporter scraped while they run.
# usage: h200_compare.sh [ASSAY]
set -u
here=$(cd "$(dirname "$0")" && pwd)
assay=${1:-$here/../../dist/bin/assay}
assay=$(realpath "$assay")
work=$(mktemp -d)
cd "$work"
sed 's/^repeats: .*/repeats: 4/' "$here/../../examples/plans/memory-cache.yaml" >memory-cache.yaml
echo "== cache off, guard on, with a kernel whose mask was forgotten"
"$assay" matrix -q memory-cache.yaml -- python3 "$here/forgotten_mask_job.py" 1000
echo "exit $?"
cat >blas.yaml <<'END'
name: cuBLAS and cuBLASLt
repeats: 3
routes:
  base:
    expect: ["yes:cublas"]
  lt:
    about: PyTorch told to prefer cuBLASLt
    environment: {TORCH_BLAS_PREFER_CUBLASLT: "1"}
    expect: ["yes:cublasLtMatmul"]
END
echo "== two BLAS paths"
"$assay" matrix -q blas.yaml -- python3 "$here/h200_run.py" 101
echo "exit $?"
"$assay" compare --plot blas.trials/base/0? --against blas.trials/lt/0?
echo "exit $?"

cat >compile.yaml <<'END'
name: eager, compiled, guarded
repeats: 3
routes:
  base:
    about: eager
  compiled:
    about: torch.compile
    environment: {COMPILE: "1"}
  guarded:
    about: eager, every tensor guarded
    guard: true
END
mkdir -p compile.trials # the exporter looks there from the start
echo "== eager, compiled, guarded"
"$assay" exporter --listen 127.0.0.1:9401 compile.trials >exporter.log 2>&1 &
exporter=$!
python3 - >scrapes <<'END' &
import time, urllib.request
good = bad = 0
text = ""
end = time.time() + 600
while time.time() < end:
    try:
        text = urllib.request.urlopen("http://127.0.0.1:9401/metrics", timeout=5).read().decode()
        good += 1
        open("metrics.txt", "w").write(text)
    except OSError:
        bad += 1
    open("scrapes", "w").write("%d scrapes answered, %d not, last page %d bytes\n" % (good, bad, len(text)))
    time.sleep(0.2)
END
scraper=$!
"$assay" matrix -q compile.yaml -- python3 "$here/compiled_job.py" 120
echo "exit $?"
kill $exporter $scraper
cat scrapes
grep -E '^assay_' metrics.txt | head -n 40
"$assay" compare --plot compile.trials/base/0? --against compile.trials/compiled/0?
echo "exit $?"
"$assay" compare compile.trials/base/0? --against compile.trials/guarded/0?
echo "exit $?"
