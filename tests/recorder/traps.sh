#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What real programs do to a preloaded library: each must run as it runs without.
. "$(dirname "$0")/../cli/lib.sh"
cd "$TMP"
run=("$ASSAY" run --no-facts)
for guard in "" --guard; do
    with=${guard:+, guarded}
    n=${guard#--}
    unmet=${guard:+2} # their products run on the stack: the guard meets no operand, and that is told
    # shellcheck disable=SC2086 # one word or none
    {
    expect "vfork$with" 7 "${run[@]}" $guard --record "v$n" -- "$TRAPS" vfork
    expect "vfork, a crash in the child$with" "${unmet:-0}" "${run[@]}" $guard --record "c$n" -- "$TRAPS" vfork-crash
    if grep -q fatal-signal err; then echo "FAILED: the child's fault is told of the parent"; FAILED=1; fi
    expect "plug-ins that come and go$with" "${unmet:-0}" "${run[@]}" $guard --record "u$n" -- "$TRAPS_UNLOAD" "$PLUGIN_A" "$PLUGIN_B"
    says "all their calls are counted" err "40 ${guard:+recorded products}"
    [ -n "$guard" ] || says "all their calls are counted" err "40 library calls recorded"
    expect "thread ends$with" 0 "${run[@]}" $guard --record "e$n" -- "$TRAPS" ends
    expect "stack overflow$with" 7 "${run[@]}" $guard --record "o$n" -- "$TRAPS" overflow
    expect "handlers$with" 0 "${run[@]}" $guard --record "h$n" -- "$TRAPS" handlers
    expect "clone$with" 7 "${run[@]}" $guard --record "k$n" -- "$TRAPS" clone
    expect "before and after main$with" 0 "${run[@]}" $guard --record "m$n" -- "$TRAPS_EARLY" handlers
    expect "a library that the user preloads$with" 0 env LD_PRELOAD="$USER_PRELOAD" "${run[@]}" $guard --record "p$n" -- "$TRAPS" ends
    [ -n "$guard" ] || says "it is asked" out "the user's library was asked"
    }
done
expect "a program with its own free" 0 "${run[@]}" --record own -- "$OWN_FREE"
expect "a program with its own free, guarded" 2 "${run[@]}" --guard --record own-guard -- "$OWN_FREE"
says "it is said" err "the program brings its own memory functions: not guarded"

# AddressSanitizer refuses a library in front of its own, unless it is told not to look.
if cc -fsanitize=address -o asan "$SOURCE/tests/recorder/traps_asan.c" 2>/dev/null && ./asan >/dev/null 2>&1; then
    for guard in "" --guard; do
        # shellcheck disable=SC2086
        expect "AddressSanitizer $guard" 0 env ASAN_OPTIONS=detect_leaks=0 "${run[@]}" $guard --record "address$guard" -- ./asan
        # shellcheck disable=SC2086
        expect "AddressSanitizer still finds $guard" 1 env ASAN_OPTIONS=detect_leaks=0 "${run[@]}" $guard --record "address-bad$guard" -- ./asan bad
        says "AddressSanitizer still finds $guard" err "heap-use-after-free"
    done
fi

# Launchers other than torchrun; several processes make a table with their ranks.
PMI_RANK=3 MPI_LOCALRANKID=1 PMI_SIZE=8 expect "MPICH" 0 "${run[@]}" --record mpich -- "$JOB" fork
expect "MPICH" 0 "$ASSAY" report mpich --json
jq -e '[.processes[].rank] == [3, 3, 3]' out >/dev/null || { echo "FAILED: ranks of MPICH"; FAILED=1; }
SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NTASKS=16 expect "SLURM" 0 "${run[@]}" --record slurm -- "$JOB" fork
expect "SLURM" 0 "$ASSAY" report slurm --json
jq -e '[.processes[].rank] == [5, 5, 5]' out >/dev/null || { echo "FAILED: ranks of SLURM"; FAILED=1; }

# Interpreters within an interpreter (Python 3.12 on).
if python3 -c 'import _interpreters' 2>/dev/null; then
    expect "subinterpreters" 0 "${run[@]}" --guard --record sub -- python3 -c 'import _interpreters as i; [i.exec(i.create(), "import json, zlib") for _ in range(3)]; print("done")'
fi

# Another user's program: the loader ignores our library, and says nothing.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$TMP"; mkdir -m 777 theirs; install -m 4755 "$JOB_STATIC" theirs/setuid
    expect "setuid" 0 setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ "${run[@]}" --record "$TMP/theirs/run" -- theirs/setuid steps 1
fi

# Symbols of the C library up to 2.35, and nothing of others.
library=$(dirname "$ASSAY")/libassay-record.so
newest=$(readelf -W --dyn-syms "$library" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
[ "$(printf '%s\nGLIBC_2.35\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.35 ] || { echo "FAILED: it needs $newest"; FAILED=1; }
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v '^libc\.so\|^libdl\|^libpthread\|^ld-linux' || true)
[ -z "$needed" ] || { echo "FAILED: it needs $needed"; FAILED=1; }

# A path that LD_PRELOAD cannot hold.
mkdir "a b"; cp "$ASSAY" "$library" "a b/"
expect "a folder with a space" 2 "a b/assay" run --no-facts --record space -- true
says "a folder with a space" err "which LD_PRELOAD cannot hold"
finish
