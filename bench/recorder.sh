#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the recorder costs a call: the smallest product there is (1x1x1), as it is and recorded, by 1, 2
# and 8 threads, best of three. Ten million calls a thread, all of them counted.
set -euo pipefail
build=$PWD/${1:-build}
job=$build/tests/recorder/record_job
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
calls=${CALLS:-10000000}

best() { # COMMAND...: ns per call
    for _ in 1 2 3; do rm -rf "$tmp/r"; "$@" 2>"$tmp/err" | sed -n 's/.*: \([0-9.]*\) ns per call/\1/p'; done | sort -g | head -n 1
}
printf '%-8s %12s %12s %10s %14s\n' threads "plain, ns" "recorded, ns" "added, ns" "calls counted"
for threads in 1 2 8; do
    plain=$(best "$job" rate $threads "$calls")
    recorded=$(best "$build/assay" run --no-facts --record "$tmp/r" -- "$job" rate $threads "$calls")
    counted=$(sed -n 's/.* \([0-9]*\) library calls recorded.*/\1/p' "$tmp/err")
    awk -v t="$threads" -v p="$plain" -v r="$recorded" -v c="$counted" -v n="$calls" \
        'BEGIN {printf "%-8d %12.1f %12.1f %10.1f %14s\n", t, p, r, r - p, c == t * n ? c " (all)" : c " LOST"}'
done

# A framework launches from hundreds of places: the first call of each is looked up, by two threads at once here.
echo
printf '%-8s %12s %12s %10s\n' places "plain, ns" "recorded, ns" "added, ns"
cat >"$tmp/library.c" <<'C'
int hipEventSynchronize(void *event) { return event == 0; }
C
cat >"$tmp/places.py" <<'P'
import sys
n = int(sys.argv[1])
print('''#include <pthread.h>
#include <stdio.h>
#include <time.h>
int hipEventSynchronize(void *);''')
for i in range(n):
    print(f"static __attribute__((noinline)) int place{i}(void) {{ volatile int r = hipEventSynchronize((void *)1); return r; }}")
print("static int (*const places[])(void) = {", ", ".join(f"place{i}" for i in range(n)), "};")
print('''static void *work(void *ret_ns) {
    struct timespec a, b;
    enum { CALLS = 120000, N = sizeof places / sizeof *places };
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < CALLS; i++) places[i % N]();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    *(double *)ret_ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / CALLS;
    return 0;
}
int main(void) {
    double ns[2];
    pthread_t other;
    pthread_create(&other, 0, work, &ns[1]);
    work(&ns[0]);
    pthread_join(other, 0);
    printf("2 threads: %.1f ns per call\\n", (ns[0] + ns[1]) / 2);
}''')
P
cc -O1 -shared -fPIC -o "$tmp/libplaces.so" "$tmp/library.c"
for places in 1 16 400 1600; do
    python3 "$tmp/places.py" "$places" >"$tmp/places.c"
    cc -O1 -o "$tmp/places" "$tmp/places.c" -L"$tmp" -lplaces -Wl,-rpath,"$tmp" -lpthread
    plain=$(best "$tmp/places")
    recorded=$(best "$build/assay" run --no-facts --record "$tmp/r" -- "$tmp/places")
    awk -v n="$places" -v p="$plain" -v r="$recorded" 'BEGIN {printf "%-8d %12.1f %12.1f %10.1f\n", n, p, r, r - p}'
done
