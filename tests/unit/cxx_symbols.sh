#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cxx_symbols.sh TOOL: an extension built for another library than the one that is there, in
# the ways that happen with PyTorch: other string type, removed function, older library version.
set -euo pipefail
tool=$(realpath "$1")
command -v g++ >/dev/null || { echo "g++ is not installed"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir -p v1 v2
fail() { echo "$1"; echo "$out"; exit 1; }

cat >torch.cc <<'END'
#include <string>
namespace c10 {
void check(const std::string &text) { (void)text; }
#ifndef NEWER
int removed(int x) { return x; }
#endif
}
END
cat >extension.cc <<'END'
#include <string>
#include <cmath>
namespace c10 { void check(const std::string &text); int removed(int x); }
extern "C" int PyModule_Create2(void *, int);
extern "C" __attribute__((weak)) void optional_hook();
extern "C" int PyInit_extension() {
    c10::check("x");
    if (optional_hook) optional_hook();
    return c10::removed(1) + PyModule_Create2(nullptr, 0) + (int)std::cbrt(c10::removed(2));
}
END
build() { # FOLDER FLAGS...
    local d=$1; shift
    g++ -shared -fPIC "$@" torch.cc -o "$d/libc10.so" -Wl,-soname,libc10.so
}
build v1 -D_GLIBCXX_USE_CXX11_ABI=1
g++ -shared -fPIC extension.cc -o new.so -Lv1 -lc10
g++ -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=0 extension.cc -o old.so -Lv1 -lc10 -Wl,--unresolved-symbols=ignore-all
build v2 -D_GLIBCXX_USE_CXX11_ABI=1 -DNEWER

out=$(JOB_LIBRARY_PATH=$dir/v1 "$tool" "$dir/new.so")
grep -qx 'missing 0 libraries 0 strings new' <<<"$out" || fail "a matching pair must miss nothing"
out=$(JOB_LIBRARY_PATH=$dir/v2 "$tool" "$dir/new.so")
grep -qx 'symbol _ZN3c107removedEi' <<<"$out" || fail "a removed function must be missed"
out=$(JOB_LIBRARY_PATH=$dir/v1 "$tool" "$dir/old.so")
grep -q 'missing 1 .* strings old' <<<"$out" || fail "the old string type must be seen"
grep -qx 'symbol _ZN3c105checkERKSs' <<<"$out" || fail "the function with the old string must be missed"
out=$("$tool" "$dir/new.so")
grep -q 'missing 2 libraries 1 ' <<<"$out" || fail "without the library its symbols are missing, and the library is counted"
out=$(JOB_LIBRARY_PATH=$dir/v1 "$tool" /bin/true "$dir/v1/libc10.so" "$dir/old.so")
grep -q 'missing 1 ' <<<"$out" || fail "a library loaded before must serve an extension that names it"

# A library that defines versions, and a copy that lacks the newest.
echo 'int f(void) { return 1; } int g(void) { return 2; }' >ver.c
echo 'V_1 { global: f; }; V_2 { global: g; } V_1;' >new.map
echo 'V_1 { global: f; g; };' >old.map
for d in new old; do
    mkdir -p "ver_$d"
    gcc -shared -fPIC ver.c -o "ver_$d/libver.so" -Wl,-soname,libver.so -Wl,--version-script,$d.map
done
echo 'int g(void); int h(void) { return g(); }' | gcc -shared -fPIC -x c - -o uses.so -Lver_new -lver
out=$(JOB_LIBRARY_PATH=$dir/ver_new "$tool" "$dir/uses.so")
grep -q version <<<"$out" && fail "all versions are there"
out=$(JOB_LIBRARY_PATH=$dir/ver_old "$tool" "$dir/uses.so")
grep -qx "version V_2 of $dir/ver_old/libver.so for $dir/uses.so" <<<"$out" || fail "a missing version must be named"
echo "all as the loader would"
