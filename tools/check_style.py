#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What STYLE.md asks and a machine can see: sizes, SPDX lines, banned calls, guards, TODOs."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION = 600, 80
BANNED = ("strcpy strcat sprintf vsprintf strncpy strncat strtok atoi atol atof gets ctime asctime "
          "localtime gmtime system popen alloca setlocale rand").split()
ONLY_IN = {  # call -> folders that may use it
    # preload/ wraps the allocator of the program it lives in.
    "malloc": ("base", "preload"), "calloc": ("base",), "realloc": ("base", "preload"),
    "free": ("base", "preload"),
    "printf": ("cli",), "puts": ("cli",), "putchar": ("cli",), "exit": ("cli",),
}


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    # Files of frozen machines are other people's formats.
    return [p for p in out.stdout.splitlines() if (ROOT / p).is_file() and "/root/" not in p]


def strip(text):
    """The code with comments and literals blanked, line breaks kept."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def functions(lines):
    start = None
    for n, line in enumerate(lines, 1):
        if line == "{":
            start = n
        elif line == "}" and start:
            yield start, n
            start = None


def check_c(path, bad):
    text = (ROOT / path).read_text()
    lines = text.splitlines()
    product = path.startswith("src/")
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        bad.append(f"{path}:1: no SPDX line")
    if len(lines) > MAX_FILE:
        bad.append(f"{path}: {len(lines)} lines, more than {MAX_FILE}: split it by responsibility")
    code = strip(text)
    code_lines = code.splitlines()
    for a, b in functions(code_lines):
        if b - a - 1 > MAX_FUNCTION:
            bad.append(f"{path}:{a}: function of {b - a - 1} lines, more than {MAX_FUNCTION}")
    for n, line in enumerate(code_lines, 1):
        for m in re.finditer(r"(?<![\w>.])(\w+)\s*\(", line):
            word = m.group(1)
            if word in BANNED:
                bad.append(f"{path}:{n}: {word}() is banned (STYLE.md)")
            layer = path.split("/")[1] if product else ""
            if product and word in ONLY_IN and layer not in ONLY_IN[word]:
                bad.append(f"{path}:{n}: {word}() belongs to {', '.join(ONLY_IN[word])}/")
    for n, line in enumerate(lines, 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line) and not re.search(r"#\d+", line):
            bad.append(f"{path}:{n}: a TODO without an issue number")
        if len(line.expandtabs(4)) > 120:
            bad.append(f"{path}:{n}: line of {len(line)} columns")
    if path.endswith(".h") and product:
        guard = "ASSAY_" + re.sub(r"[^A-Z0-9]", "_", path[len("src/"):].upper())
        if guard not in text:
            bad.append(f"{path}: the include guard should be {guard}")


def main():
    bad = []
    for path in tracked("src/**.c", "src/**.h", "tests/**.c", "tests/**.h", "tools/**.c", "bench/**.c"):
        check_c(path, bad)
    for path in tracked("*.sh", "*.py", "meson.build", "**/meson.build", "knowledge/**.yaml"):
        head = (ROOT / path).read_text().splitlines()[:3]
        if not any("SPDX-License-Identifier" in line for line in head):
            bad.append(f"{path}:1: no SPDX line")
    for line in bad:
        print(line)
    return 1 if bad else 0


sys.exit(main())
