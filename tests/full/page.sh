#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page in a real browser, offline: curves are drawn, nothing of a log runs, nothing is wider than a phone, the
# policy lets the page's own scripts through and a planted one not.
. "$(dirname "$0")/../cli/lib.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "no Chromium is installed"; exit 77; }
cd "$TMP"
cat >job.sh <<'SH'
awk 'BEGIN { for (s = 1; s <= 80; s++) printf("step: %d loss: %s grad_norm: 1.5 step_time: 0.2\n", s, s == 40 ? "nan" : 3 - s / 40);
    print "RuntimeError: </script><script>document.title=\"PLANTED\"</script><img src=x onerror=\"document.title=1\">"; exit 1 }'
SH
"$ASSAY" run -q --no-facts --record one -- sh job.sh >/dev/null 2>&1 || true
"$ASSAY" run -q --no-facts --record two -- sh job.sh >/dev/null 2>&1 || true
"$ASSAY" report one two --format html -o page.html || true

# Every request but that for the page itself fails: no host can be resolved.
chrome() {
    timeout 90 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$TMP/profile" \
        --host-resolver-rules="MAP * ~NOTFOUND" --virtual-time-budget=4000 --enable-logging=stderr "$@" 2>"$TMP/browser"
}
chrome --window-size=1280,1000 --dump-dom "file://$TMP/page.html" >dom.html || { echo "FAILED: the browser"; tail -3 "$TMP/browser"; exit 1; }
grep -q '<html lang="en" class="drawn">' dom.html || { echo "FAILED: the script did not finish"; FAILED=1; }
[ "$(grep -o '<canvas' dom.html | wc -l)" = 3 ] || { echo "FAILED: three plots, not $(grep -o '<canvas' dom.html | wc -l)"; FAILED=1; }
grep -q '<title>assay report: fault found</title>' dom.html || { echo "FAILED: a planted script ran"; FAILED=1; }
if grep -E 'CONSOLE.*(Error|Refused|violates)' "$TMP/browser"; then echo "FAILED: the console complains"; FAILED=1; fi

# The policy is a second wall: a script that got into the page in spite of the escapes does not run.
sed 's|</main>|<script>document.title="PLANTED"</script></main>|' page.html >planted.html
chrome --dump-dom "file://$TMP/planted.html" >dom.html
grep -q '<title>assay report: fault found</title>' dom.html || { echo "FAILED: the policy lets a planted script run"; FAILED=1; }
grep -q 'Refused\|violates' "$TMP/browser" || { echo "FAILED: the browser does not know the policy"; FAILED=1; }

# A phone: the page in a frame of 390 points tells its own width.
cat >frame.html <<'H'
<iframe id="f" src="page.html" width="390" height="800"></iframe>
<script>document.getElementById("f").onload = e => document.title = "width " + e.target.contentDocument.documentElement.scrollWidth;</script>
H
chrome --allow-file-access-from-files --dump-dom "file://$TMP/frame.html" >dom.html
width=$(sed -n 's/.*<title>width \([0-9]*\).*/\1/p' dom.html)
[ "${width:-9999}" -le 390 ] || { echo "FAILED: on a phone the page is ${width:-unknown} wide"; FAILED=1; }

# Printed: the drawings instead of the canvases.
chrome --no-pdf-header-footer --print-to-pdf="$TMP/page.pdf" "file://$TMP/page.html"
head -c 5 page.pdf | grep -q '%PDF-' || { echo "FAILED: print"; FAILED=1; }
chrome --window-size=1280,2000 --screenshot="$TMP/page.png" "file://$TMP/page.html"
[ "$(stat -c %s page.png)" -gt 30000 ] || { echo "FAILED: the picture of the page is empty"; FAILED=1; }
finish
