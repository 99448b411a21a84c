# SPDX-License-Identifier: Apache-2.0
"""usage: tokenizer_faults.py ASSAY COUNT FILE...: COUNT copies of each tokenizer file with one fault, read by `assay
tokenizer encode`: each must be refused, and none may end by a signal. A changed letter of a piece is another tokenizer,
which only a checksum tells, and is not tried. Two faults can leave a file of the right form, by chance, and are counted
apart: a page less within a list of pieces, noise in the table of a SentencePiece file."""
import collections
import os
import random
import subprocess
import sys
import tempfile

assay, count, paths = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
PAGE = 4096


def at_page(r, raw):
    return r.randrange(1, max(2, len(raw) // PAGE - 1)) * PAGE


def cut(r, raw):
    return raw[:r.randrange(1, len(raw) - 2)]


def cut_at_page(r, raw):
    return raw[:at_page(r, raw)]


def zeros(r, raw):
    at = at_page(r, raw)
    return raw[:at] + bytes(PAGE) + raw[at + PAGE:]


def zero_tail(r, raw):
    at = at_page(r, raw)
    return raw[:at] + bytes(len(raw) - at)


def noise(r, raw):
    at = at_page(r, raw)
    return raw[:at] + r.randbytes(PAGE) + raw[at + PAGE:]


def missing_page(r, raw):
    at = at_page(r, raw) + r.randrange(PAGE)
    return raw[:at] + raw[at + PAGE + 1:]


def pointer(r, raw):
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%064x\nsize %d\n" % (r.getrandbits(256), len(raw))


def page_of_a_server(r, raw):
    return b"<!DOCTYPE html><html><title>%d</title></html>" % r.randrange(400, 600)


faults = [cut, cut_at_page, zeros, zero_tail, noise, missing_page, pointer, page_of_a_server]
chance = {(missing_page, ".json"), (missing_page, ".model"), (noise, ".model")}
tried, bad, passed = collections.Counter(), 0, 0
with tempfile.TemporaryDirectory() as folder:
    for path in paths:
        r = random.Random(len(path))
        raw = open(path, "rb").read()
        copy = os.path.join(folder, os.path.basename(path))
        for i in range(count):
            fault = faults[i % len(faults)]
            with open(copy, "wb") as f:
                f.write(fault(r, raw))
            done = subprocess.run([assay, "tokenizer", "encode", copy, "x"], capture_output=True)
            tried[fault.__name__] += 1
            if done.returncode == 0 and (fault, os.path.splitext(path)[1]) in chance:
                passed += 1
            elif done.returncode not in (1, 2) or not done.stderr:
                bad += 1
                print(f"{path}: {fault.__name__} number {i}: exit {done.returncode} {done.stderr.decode()[:200]}")
        os.unlink(copy)
for name, n in sorted(tried.items()):
    print(f"{name:20}{n:5}")
print(f"{sum(tried.values())} faults in {len(paths)} files, {bad} accepted or crashed, {passed} by chance of the right form")
sys.exit(bad != 0)
