#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What picklescan, fickling and modelscan say about the hostile files of tools/make_hostile.py.

usage: scanners.py READ_CHECKPOINT HOSTILE_FOLDER

Run it with the Python of an environment that has the three packages. A file counts as flagged when the
tool reports an issue, a suspicion or an error about it; "only failed" are files it could not read and
said so, which a user may take for harmless. Nothing is loaded.
"""
import pathlib
import subprocess
import sys


def run(*command):
    try:
        p = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout + p.stderr
    except subprocess.TimeoutExpired:
        return -1, "timeout"


def ours(path):
    code, _ = run(sys.argv[1], str(path))
    return "flagged" if code == 1 else "missed"


def picklescan(path):
    code, _ = run(str(pathlib.Path(sys.executable).parent / "picklescan"), "-p", str(path))
    return {0: "missed", 1: "flagged"}.get(code, "failed")  # 2: could not scan


def fickling(path):
    """Its verdict about the pickle, or about data.pkl of an archive; severities above LIKELY_SAFE count."""
    code, _ = run(sys.executable, "-c", """
import sys, zipfile, io
from fickling.fickle import Pickled, StackedPickle
from fickling.analysis import check_safety, Severity
data = open(sys.argv[1], 'rb').read()
blobs = [data]
if zipfile.is_zipfile(io.BytesIO(data)):
    z = zipfile.ZipFile(io.BytesIO(data))
    blobs = [z.read(i) for i in z.infolist() if i.filename.endswith('.pkl')]
worst = max((check_safety(p).severity for b in blobs for p in StackedPickle.load(io.BytesIO(b))),
            default=Severity.LIKELY_SAFE)
sys.exit(10 if worst > Severity.LIKELY_SAFE else 0)
""", str(path))
    return {0: "missed", 10: "flagged"}.get(code, "failed")


def modelscan(path):
    code, _ = run(str(pathlib.Path(sys.executable).parent / "modelscan"), "-p", str(path))
    return {0: "missed", 1: "flagged", 3: "missed"}.get(code, "failed")  # 3: no supported file


def main():
    files = sorted(p for p in pathlib.Path(sys.argv[2]).iterdir() if p.is_file())
    tools = {"assay": ours, "picklescan": picklescan, "fickling": fickling, "modelscan": modelscan}
    table = {p.name: {name: ask(p) for name, ask in tools.items()} for p in files}
    print(f"{'file':34}" + "".join(f"{name:>12}" for name in tools))
    for name, row in table.items():
        print(f"{name:34}" + "".join(f"{row[t]:>12}" for t in tools))
    for verdict in ("flagged", "failed", "missed"):
        print(f"{verdict:34}" + "".join(f"{sum(r[t] == verdict for r in table.values()):12}" for t in tools))
    return 0 if all(r["assay"] == "flagged" for r in table.values()) else 1


sys.exit(main())
