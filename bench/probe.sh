#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checked matrix products a second on one core, by size, beside the same products in a plain loop that checks
# nothing: the floor. In seconds of processor time, without the start of the process; medians of 5.
# usage: probe.sh [BUILD_DIR [LIBRARY]]; ASSAY_BENCH_BEFORE=another assay, for a comparison with it.
set -euo pipefail
cd "$(dirname "$0")/.."
assay=$PWD/${1:-build}/assay
library=${2:-$(ldconfig -p | awk '/libopenblas\.so\.0|libblas\.so\.3/ {print $NF}' | sort | tail -1)}
[ -n "$library" ] || { echo "skipped: no BLAS here"; exit 0; }
command -v cc >/dev/null && command -v taskset >/dev/null || { echo "skipped: needs cc and taskset"; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/plain.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    void *h = dlopen(argv[1], RTLD_NOW);
    void (*f)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    *(void **)&f = h != NULL ? dlsym(h, "cblas_sgemm") : NULL;
    int s = atoi(argv[2]), calls = argc > 3 ? atoi(argv[3]) : 0;
    float *x = calloc((size_t)s * (size_t)s * 3 + 1, sizeof *x);
    if (f == NULL) { fprintf(stderr, "no cblas_sgemm in %s\n", argv[1]); return 2; }
    f(102, 111, 111, s, s, s, 1, x, s, x + s * s, s, 0, x + 2 * s * s, s);
    clock_t since = clock();
    for (int i = 0; i < calls; i++)
        f(102, i & 1 ? 112 : 111, i & 2 ? 112 : 111, s, s, s, 1, x, s, x + s * s, s, 0, x + 2 * s * s, s);
    printf("%.0f\n", calls / ((double)(clock() - since) / CLOCKS_PER_SEC));
}
C
cc -O2 -o "$tmp/plain" "$tmp/plain.c" -ldl
export OPENBLAS_NUM_THREADS=1 BLIS_NUM_THREADS=1 OMP_NUM_THREADS=1
ASSAY=$assay LIBRARY=$library TMP=$tmp taskset -c 0 python3 - <<'P'
import json, os, resource, statistics, subprocess
assay, library, tmp = os.environ["ASSAY"], os.environ["LIBRARY"], os.environ["TMP"]
before = os.environ.get("ASSAY_BENCH_BEFORE")

def once(program, args):
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run([program, "probe", "--library", library, "--json", *args], capture_output=True, text=True)
    s = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert p.returncode in (0, 1), p
    return s.ru_utime + s.ru_stime - r.ru_utime - r.ru_stime, json.loads(p.stdout)["probes"]

def rates(args, n=5):  # alternating, so that both see the same minute
    seen = {p: [] for p in (assay, before) if p}
    for _ in range(n):
        for p in seen:
            seconds, probes = once(p, args)
            seen[p].append(probes / max(seconds - start[p], 1e-3))
    return [statistics.median(v) for v in seen.values()]

with open(f"{tmp}/one", "w") as f:
    f.write("1 1 1 transpose=nn alpha=1 beta=0 lda=1 ldb=1 ldc=1 dtype=f32\n")
start = {p: statistics.median(once(p, ["--shapes", f"{tmp}/one"])[0] for _ in range(5)) for p in (assay, before) if p}
print(f"{library}, float32\n{'product':16}{'checked':>12}{'plain':>12}  plain/checked" + ("  checked before  now/before" if before else ""))

def row(name, got, plain=None):
    text = f"{name:16}{got[0]:12,.0f}" + (f"{plain:12,.0f}{plain / got[0]:15.1f}" if plain else f"{'-':>12}{'-':>15}")
    print(text + (f"{got[1]:16,.0f}{got[0] / got[1]:12.2f}" if before else ""))

for s in (4, 8, 16, 32, 64, 128):
    with open(f"{tmp}/shapes", "w") as f:
        f.write(f"{s} {s} {s} dtype=f32\n" * max(12, 1024 // s))
    calls = max(2000, 4_000_000 // (s * s))
    plain = statistics.median(float(subprocess.check_output([f"{tmp}/plain", library, str(s), str(calls)])) for _ in range(5))
    row(f"{s} x {s} x {s}", rates(["--shapes", f"{tmp}/shapes"]), plain)
row("the quick plan", rates(["--dtype", "f32"]))
P
