#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes dist/: the program with third parties linked statically, its manual pages, completions,
# knowledge and licences. Fails when a symbol needs a glibc newer than 2.35.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-dist
[ -d $build ] || meson setup $build --buildtype=release -Db_ndebug=false -Dstatic_deps=true -Dstrip=true >$build.log 2>&1 ||
    { cat $build.log; exit 1; }
rm -f $build.log
ninja -C $build --quiet src/cli/assay 2>/dev/null || ninja -C $build --quiet
rm -rf dist
mkdir -p dist/bin dist/lib dist/share/man/man1 dist/share/bash-completion/completions dist/share/zsh/site-functions \
    dist/share/fish/vendor_completions.d dist/share/doc/assay
program=$build/assay
cp "$program" dist/bin/assay
strip dist/bin/assay
cp $build/libassay-record.so dist/lib/
strip --strip-unneeded dist/lib/libassay-record.so
./dist/bin/assay man >dist/share/man/man1/assay.1
for c in $(./dist/bin/assay help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -vx help); do
    ./dist/bin/assay man "$c" >"dist/share/man/man1/assay-$c.1"
done
./dist/bin/assay completion bash >dist/share/bash-completion/completions/assay
./dist/bin/assay completion zsh >dist/share/zsh/site-functions/_assay
./dist/bin/assay completion fish >dist/share/fish/vendor_completions.d/assay.fish
cp LICENSE README.md dist/share/doc/assay/
cp third_party/uplot/LICENSE dist/share/doc/assay/LICENSE.uplot
tools/check_symbols.sh dist/bin/assay 2.35
tools/check_symbols.sh dist/lib/libassay-record.so 2.35
# It runs from where it was unpacked, without its build tree.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r dist "$copy/assay"
(cd / && "$copy/assay/bin/assay" --version)
(cd "$copy" && "$copy/assay/bin/assay" run --no-facts --record "$copy/run" -- true)
du -sh dist | cut -f 1 | sed 's/^/dist: /'
