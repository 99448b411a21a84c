#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the includes against the may-use table of ARCHITECTURE.md.

The table is the block between '<!-- layers -->' and '<!-- /layers -->', one row per layer:
`| cli | report, diagnosis, ... |`. A folder of src/ that has no row is an error, as is an include
that is not in the row of its folder, or a cycle between headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def table():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"<!-- layers -->(.*?)<!-- /layers -->", text, re.S)
    if not block:
        sys.exit("ARCHITECTURE.md has no <!-- layers --> table")
    rows = {}
    for line in block.group(1).splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) < 2 or cells[0] in ("layer", "") or set(cells[0]) <= {"-", ":"}:
            continue
        may = {w.strip(" `") for w in cells[1].split(",")} - {"nothing", ""}
        rows[cells[0].strip("`")] = may
    return rows


def cycles(graph):
    state, found = {}, []

    def visit(node, path):
        state[node] = 1
        for nxt in graph.get(node, ()):
            if state.get(nxt) == 1:
                found.append(path[path.index(nxt):] + [nxt] if nxt in path else [node, nxt])
            elif nxt not in state:
                visit(nxt, path + [nxt])
        state[node] = 2

    for node in graph:
        if node not in state:
            visit(node, [node])
    return found


def main():
    rows, bad, graph = table(), [], {}
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        rel = path.relative_to(ROOT / "src")
        layer = rel.parts[0]
        if len(rel.parts) == 1:
            continue
        if layer not in rows:
            bad.append(f"src/{rel}: folder '{layer}' has no row in ARCHITECTURE.md")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            target = m.group(1)
            other = target.split("/")[0]
            if "/" in target and other != layer and other not in rows[layer]:
                bad.append(f"src/{rel}:{number}: {layer} may not use {other} ({target})")
            if path.suffix == ".h" and target.endswith(".h"):
                graph.setdefault(str(rel), []).append(target)
    for c in cycles(graph):
        bad.append("headers include each other: " + " -> ".join(c))
    for line in bad:
        print(line)
    return 1 if bad else 0


sys.exit(main())
