#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe: how many readable bytes hide an over-read: a page is searched, and beyond it that is said.
# And a campaign of many faults runs to its end, and what a library prints stays out of the report.
. "$(dirname "$0")/lib.sh"
printf '9 7 5 dtype=f32\n' >"$TMP/shapes"
expect "a near over-read" 1 "$ASSAY" probe --library "$FAKES/libblas_read.so" --shapes "$TMP/shapes"
says "a near over-read" out "readable bytes at the edge none of"
expect "300 bytes too far" 1 "$ASSAY" probe --library "$FAKES/libblas_wide.so" --shapes "$TMP/shapes"
says "300 bytes too far" out "with 512 readable bytes at the edge none of"
says "300 bytes too far" out "300 bytes behind its last byte"
expect "6,000 bytes too far" 1 "$ASSAY" probe --library "$FAKES/libblas_far.so" --shapes "$TMP/shapes"
says "6,000 bytes too far" out "hiding it takes more than 4096 readable bytes"
says "6,000 bytes too far" out "6000 bytes behind its last byte"

expect "more faults than are kept" 1 "$ASSAY" probe --library "$FAKES/libblas_wide.so" --dtype f32 --json
python3 - "$TMP/out" <<'P' || { echo "FAILED: the campaign did not run to its end"; FAILED=1; }
import json, sys
report = json.load(open(sys.argv[1]))
row = report["libraries"][0]
assert row["faulty"] > 4096 and row["probes"] > 15000, row
assert [f["severity"] for f in report["findings"]] == ["error"], report["findings"]
assert f"({row['faulty']} of them in this way)" in report["findings"][0]["claim"], report["findings"]
P

expect "a library that prints" 0 "$ASSAY" probe --library "$FAKES/libblas_chatty.so" --dtype f32 --json
python3 -m json.tool "$TMP/out" >/dev/null || { echo "FAILED: its words are in the report"; FAILED=1; }
finish
