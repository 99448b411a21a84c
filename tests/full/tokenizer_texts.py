# SPDX-License-Identifier: Apache-2.0
"""usage: tokenizer_texts.py FILES OUT: texts to hold tokenizers against the libraries on, parts of 2 MB.

English, code, Chinese, Japanese and other languages are what is installed here and what tokenizer_files.sh
brought (FILES); the hostile part is made up: every character of Unicode, runs, odd white space, broken bytes."""
import glob
import gzip
import os
import random
import sys
import sysconfig
import unicodedata

PART = 2_000_000
files, out = sys.argv[1:]
man = "/usr/share/man"


def whole(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def gather(patterns, size, seed=1):
    """Up to `size` bytes of the files that match, in an order of their own."""
    paths = sorted(p for pattern in patterns for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))
    random.Random(seed).shuffle(paths)
    parts, have, seen = [], 0, set()
    for path in paths:
        try:
            text = whole(path)[:400_000]
        except (OSError, EOFError):
            continue
        if hash(text) in seen or b"\0" in text[:1000]:
            continue
        seen.add(hash(text))
        parts.append(text)
        have += len(text)
        if have >= size:
            break
    return b"\n".join(parts)[:size]


def every_character():
    """Each character alone, behind a space, between letters, digits and signs, and as a run."""
    r = random.Random(2)
    cps = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Co"]
    assigned = [c for c in cps if c < 0x40000 and (unicodedata.category(chr(c)) != "Cn" or c % 64 == 0 or c < 0x20000)]
    shapes = ["{0}", " {0}", "a{0}b", "1{0}2", ".{0}!", "{0}{0}{0}", "A{0}'s", "\n{0}\n", "  {0} ", "{0}\u0301"]
    one = " | ".join(r.choice(shapes).format(chr(c)) for c in assigned)
    two = "".join(shapes[c % len(shapes)].format(chr(c)) for c in assigned)
    return one + "\n" + two + "\n" + "".join(chr(c) for c in assigned)


def mixtures(size):
    """Bits that tokenizers trip over, joined at random."""
    r = random.Random(3)
    bits = ["'s", "'S", "'\u017f", "'ll", "'LL", "'Ve", "\u2019t", "don't", "I'M", " ", "  ", "\t", "\r\n", "\n", "\n\n", "\r", "\v", "\f",
            "\x85", "\xa0", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff", "\u200d", "\u00ad", "0", "12", "123", "1234567", "\u0661\u0662",
            "\u00bd", "\u2167", "\u4e00", "\u4e2d\u6587", "\u9fa6", "\u3042", "\u30a2", "\u30fc", "\uac00", "\u1100\u1161", "e\u0301",
            "\u0301", "\u0915\u094d\u0937", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd",
            "#\ufe0f\u20e3", "\U0001fadf", "\U00013460", "word", "Word", "WORD", "wOrD", "\u01c5", "\u02b0", "\u0410\u0431", "//", "/*", "{", "}",
            "->", "...", "\u2026", "\u3002", "\uff0c", "_", "__init__", "camelCase", "HTTPServer", "a/b/c", "<|im_start|>", "<|eot_id|>",
            "<s>", "</s>", "<0x0A>", "\u2581", "<bos>", "<unused7>", "<|endoftext|>", "[INST]", "\u0130", "\u00df", "\ufb01", "\u212b", "\0",
            "\U000e0041", "\ue000", "\ufffd", "\uffff", "\U0010ffff", "=====", "-----", "a" * 40, "\u5b57" * 40, "!?" * 30, " " * 70, "ha" * 50]
    text, have = [], 0
    while have < size:
        text.append(r.choice(bits) * (1 if r.random() < .9 else r.randint(2, 9)))
        have += len(text[-1].encode())
    return "".join(text)


def runs():
    """Long pieces, on which a merge that is not careful takes its square."""
    r = random.Random(4)
    letters = "".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(30_000))
    return "\n".join(["a" * 20_000, " " * 20_000 + "x", "\n" * 5_000, "0" * 20_000, "=" * 20_000, letters, "\u4e2d" * 8_000,
                      "\U0001f600" * 5_000, "ab" * 10_000, "\u0301" * 3_000, "aB" * 8_000, "'" * 5_000, "\u2581" * 5_000, "\r" * 500,
                      "".join(chr(0x4e00 + r.randrange(20000)) for _ in range(20_000))])


def broken(size):
    r = random.Random(5)
    good = ("Text, \u4e2d\u6587 and \U0001f600. " * 9).encode()
    text = bytearray()
    while len(text) < size:
        line = bytearray(good)
        for _ in range(r.randint(1, 9)):
            line[r.randrange(len(line))] = r.randrange(1, 256)
        text += line + bytes(r.randrange(1, 256) for _ in range(r.randint(0, 40))) + b"\n"
    return bytes(text)


kinds = {
    "english": gather([f"{man}/man[1-8]/*.gz", "/usr/share/doc/**/*.txt", "/usr/share/doc/**/README*", "/usr/share/doc/**/NEWS*",
                       "/usr/share/doc/**/copyright"], 16_000_000),
    "code": gather(["/usr/include/**/*.h", sysconfig.get_paths()["stdlib"] + "/**/*.py", sysconfig.get_paths()["purelib"] + "/**/*.py",
                    sysconfig.get_paths()["purelib"] + "/**/*.json", sysconfig.get_paths()["purelib"] + "/**/*.h"], 14_000_000),
    "chinese": gather([f"{files}/texts/usr/share/man/zh*/**/*.gz", f"{files}/texts/usr/share/debian-reference/*.zh-cn.*",
                       f"{man}/zh*/**/*.gz"], 10_000_000),
    "japanese": gather([f"{files}/texts/usr/share/man/ja/**/*.gz"], 6_000_000),
    "languages": gather([f"{man}/{x}/**/*.gz" for x in "cs da de es fi fr hr hu id it ko nl pl pt pt_BR ro ru sl sr sv tr uk".split()],
                        8_000_000),
    "hostile": "\n".join([every_character(), mixtures(2_000_000), runs()]).encode() + b"\n" + broken(500_000),
}
total = 0
for kind, text in kinds.items():
    for i in range(0, len(text), PART):
        with open(f"{out}/{kind}.{i // PART:02}", "wb") as f:
            f.write(text[i:i + PART])
    total += len(text)
    print(f"{kind:12}{len(text) / 1e6:8.1f} MB")
print(f"{'all':12}{total / 1e6:8.1f} MB")
