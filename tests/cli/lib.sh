# SPDX-License-Identifier: Apache-2.0
# Sourced by the command-line tests: $ASSAY is the program under test, $TMP a folder of its own.
set -euo pipefail
ASSAY=${ASSAY:?set ASSAY to the program under test}
SOURCE=${SOURCE:?set SOURCE to the source folder}
TMP=$(mktemp -d)
trap 'chmod -R u+rwx "$TMP" 2>/dev/null; rm -rf "$TMP"' EXIT
FAILED=0

# A hang is what the limit is for: sanitized programs on a busy machine need long.
: "${EXPECT_SECONDS:=$([ -n "${SANITIZED:-}" ] && echo 240 || echo 120)}"

# expect NAME STATUS COMMAND...: runs it, keeps stdout and stderr in $TMP/out and $TMP/err. Gets $EXPECT_SECONDS.
expect() {
    local name=$1 want=$2 got=0
    shift 2
    timeout "$EXPECT_SECONDS" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || got=$?
    if [ "$got" != "$want" ]; then
        echo "FAILED $name: exit $got, wanted $want: $*"
        head -n 20 "$TMP/err" | sed 's/^/    err: /'
        head -n 10 "$TMP/out" | sed 's/^/    out: /'
        FAILED=1
    fi
}

# says NAME FILE TEXT: the last command's out or err holds the text.
says() {
    grep -qF -- "$3" "$TMP/$2" || {
        echo "FAILED $1: '$3' is not in its $2:"
        head -n 20 "$TMP/$2" | sed 's/^/    /'
        FAILED=1
    }
}

finish() {
    exit "$FAILED"
}
