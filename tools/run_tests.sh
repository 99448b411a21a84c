#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a tier of tests and ends with "N passed, N failed, N skipped".
#   quick  unit and command-line suites of the ordinary build
#   test   quick + slow suites + lint + sanitizers + fuzz regression + corpus scores + dist
#   full   suites that download real wheels and packages
# With ASSAY_TOTALS=FILE the three numbers are appended there.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=${1:-quick}
build=${BUILD:-build}
passed=0 failed=0 skipped=0

# One check that is a command: passes or fails as a whole, 77 is a skip.
check() {
    local name=$1 rc=0
    shift
    local log=$build/check-$name.log
    local start=$SECONDS
    "$@" >"$log" 2>&1 || rc=$?
    case $rc in
    0) passed=$((passed + 1)); echo "ok      $name ($((SECONDS - start)) s)" ;;
    77) skipped=$((skipped + 1)); echo "skipped $name: $(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name (exit $rc):"; tail -n 60 "$log" | sed 's/^/    /' ;;
    esac
}

# A meson suite: every test program counts by itself.
suite() {
    local dir=$1 name=$2
    shift 2
    echo "suite $name in $dir"
    meson test -C "$dir" --suite "$name" --no-rebuild --print-errorlogs "$@" >"$build/suite.log" 2>&1 || true
    grep -aE '^ *[0-9]+/[0-9]+ .*(FAIL|TIMEOUT|ERROR)' "$build/suite.log" || true
    local counts
    counts=$(awk '/^Ok:/ {ok=$2} /^Fail:/ {f+=$2} /^Timeout:/ {f+=$2} /^Unexpected Pass:/ {f+=$3} /^Skipped:/ {s=$2}
        END {print ok+0, f+0, s+0}' "$build/suite.log")
    set -- $counts
    if [ $(($1 + $2 + $3)) -eq 0 ]; then
        echo "FAILED  suite $name ran no test"; tail -n 20 "$build/suite.log"
        failed=$((failed + 1))
    fi
    if [ "$2" -ne 0 ]; then tail -n 80 "$build/suite.log"; fi
    passed=$((passed + $1)); failed=$((failed + $2)); skipped=$((skipped + $3))
}

sanitized() {
    [ -d build-asan ] || meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Doptimization=1 >build-asan.log 2>&1 || { cat build-asan.log; return 1; }
    rm -f build-asan.log
    ninja -C build-asan
}

case $tier in
quick)
    suite "$build" unit
    suite "$build" cli
    ;;
test)
    suite "$build" unit
    suite "$build" cli
    suite "$build" slow
    suite "$build" torture
    check lint tools/lint.sh "$build"
    check corpus-score tools/score.py --assay "$build/assay" --min-top1 0.95 --min-top3 0.98 --max-false 0 corpus
    check corpus-second tools/score.py --assay "$build/assay" --min-top1 0.85 --min-top3 0.88 --max-false 0 corpus/second
    check corpus-third tools/score.py --assay "$build/assay" --min-top1 0.95 --min-top3 0.95 --max-false 0 corpus/third
    check corpus-fourth tools/score.py --assay "$build/assay" --min-top1 0.93 --min-top3 0.93 --max-false 0 corpus/fourth
    check corpus-fifth tools/score.py --assay "$build/assay" --min-top1 0.95 --min-top3 0.95 --max-false 0 corpus/fifth
    check corpus-sixth tools/score.py --assay "$build/assay" --min-top1 0.95 --min-top3 0.95 --max-false 0 corpus/sixth
    check corpus-seventh tools/score.py --assay "$build/assay" --min-top1 0.95 --min-top3 0.95 --max-false 0 corpus/seventh
    check corpus-mutated tools/score.py --assay "$build/assay" --mutate --within 0.02 --max-false 0 corpus
    check sanitizer-build sanitized
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:handle_segv=0:handle_sigill=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    suite build-asan unit --timeout-multiplier 6
    suite build-asan cli --timeout-multiplier 6
    suite build-asan slow --timeout-multiplier 6
    unset ASAN_OPTIONS UBSAN_OPTIONS
    check dist tools/make_dist.sh
    ;;
full)
    suite "$build" full --timeout-multiplier 2
    ;;
*)
    echo "usage: run_tests.sh quick|test|full" >&2
    exit 64
    ;;
esac

[ -z "${ASSAY_TOTALS:-}" ] || echo "$passed $failed $skipped" >>"$ASSAY_TOTALS"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
