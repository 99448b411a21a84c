#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C header with text files as string literals, and NAME_SHA256, the hash of each in base 64 as
content security policies want it: embed_text.py OUT NAME=FILE..."""
import base64
import hashlib
import sys


def literal(text):
    lines = []
    for line in text.splitlines(keepends=True):
        body = line.replace("\\", "\\\\").replace("??", "?\\?").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
        lines.append(f'    "{body}"')
    return " \\\n".join(lines) if lines else '    ""'


def main():
    out, pairs = sys.argv[1], [a.split("=", 1) for a in sys.argv[2:]]
    with open(out, "w", encoding="utf-8") as f:
        f.write("/* Made by tools/embed_text.py. */\n")
        for name, path in pairs:
            with open(path, encoding="utf-8") as src:
                text = src.read()
            f.write(f"#define {name} \\\n{literal(text)}\n")
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            f.write(f'#define {name}_SHA256 "{digest}"\n')


main()
