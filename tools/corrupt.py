#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in copies of checkpoints and asks a checker about each: none may be accepted.

usage: corrupt.py [--count N] [--seed S] [--work DIR] CHECKER SAMPLE...

CHECKER is called with one path and must exit 0 only when all is well; 'a b c' may carry arguments. Each
SAMPLE is a checkpoint file or folder: first it must be accepted as it is, then N copies, each with one
fault at a random place, must not be. A checker that dies of a signal or takes a minute has failed too.
Faults are rows of FAULTS: cuts, torn pages, flipped bits, swapped bytes, files of another step, missing
and unfinished files, git-LFS pointers, error pages. To add one: a function and a row.
"""
import argparse
import collections
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064x\nsize 12345\n"
PAGE = b"<!DOCTYPE html><html><head><title>503 Service Unavailable</title></head></html>\n"
# Legacy streams, safetensors, GGUF and JSON carry no checksum: a changed value in them is another valid value.
UNCHECKED = ("legacy.pt", ".json", ".jinja", ".md", ".py", "latest", ".txt", ".safetensors", ".gguf", ".metadata")


def covered(path, data, at):
    """Is a change of the byte at `at` noticed by the format itself?"""
    if path.name.endswith(UNCHECKED):
        return False
    # Fields of ZIP headers that nobody needs (versions, times, attributes) may say anything.
    for mark, free in ((b"PK\3\4", ((4, 8), (10, 14))), (b"PK\1\2", ((4, 10), (12, 16), (34, 42)))):
        start = data.rfind(mark, max(0, at - 50), at + 1)
        if start >= 0 and any(a <= at - start < b for a, b in free):
            return False
    return True


def member_bytes(data, r):
    """A random place inside of the content of a ZIP member of some size, or None."""
    import io
    import struct
    import zipfile
    spans = []
    base = 0
    while base < len(data):  # a .distcp file is a row of archives
        end = data.find(b"PK\5\6", base)
        if end < 0:
            break
        end += 22
        try:
            with zipfile.ZipFile(io.BytesIO(data[base:end])) as z:
                for i in z.infolist():
                    name, extra = struct.unpack("<HH", data[base + i.header_offset + 26:base + i.header_offset + 30])
                    first = base + i.header_offset + 30 + name + extra
                    if i.file_size >= 8 and not i.filename.endswith(("serialization_id",)):
                        spans.append((first, first + i.file_size))
        except zipfile.BadZipFile:
            return None
        base = end
    return r.choice(spans) if spans else None


def cut(path, data, r):
    return data[:r.randrange(len(data))]


def cut_page(path, data, r):
    return data[:(r.randrange(len(data)) // 512) * 512] if len(data) > 512 else data[:-1]


def grown(path, data, r):
    return data + r.randbytes(r.choice((1, 7, 512, 4096)))


def stale_tail(path, data, r):
    n = r.randrange(1, len(data))
    return data[:n] + data[:r.randrange(1, len(data))]


def flipped(path, data, r):
    span = member_bytes(data, r)
    if span is None:
        return None
    at = r.randrange(*span)
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1:]


def flipped_header(path, data, r):
    at = data.find(b"PK\1\2", r.randrange(len(data)))
    if at < 0:
        return None
    at += r.choice((0, 1, 2, 3, 10, 16, 17, 18, 20, 21, 24, 25, 28, 42, 43, 46, 47))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1:]


def torn(path, data, r):
    span = member_bytes(data, r)
    if span is None:
        return None
    a = r.randrange(*span)
    b = min(span[1], a + r.choice((64, 512, 4096)))
    return data[:a] + bytes(b - a) + data[b:] if any(data[a:b]) else None


def swapped(path, data, r):
    span = member_bytes(data, r)
    if span is None or span[1] - span[0] < 8:
        return None
    a = r.randrange(span[0], span[1] - 4)
    new = data[:a] + data[a:a + 4][::-1] + data[a + 4:]
    return new if new != data else None


def moved(path, data, r):
    a, b = sorted((r.randrange(len(data)), r.randrange(len(data))))
    n = min(64, b - a, len(data) - b)
    if n < 1 or path.name.endswith(UNCHECKED):
        return None
    new = data[:a] + data[b:b + n] + data[a + n:b] + data[a:a + n] + data[b + n:]
    return new if new != data and covered(path, data, a) and covered(path, data, b) else None


def pointer(path, data, r):
    return LFS % r.getrandbits(256)


def error_page(path, data, r):
    return PAGE


def empty(path, data, r):
    return b""


def zeros(path, data, r):
    return bytes(len(data))


FAULTS = {"cut": cut, "cut_at_sector": cut_page, "grown": grown, "stale_tail": stale_tail, "bit": flipped,
          "header_bit": flipped_header, "torn_page": torn, "swapped": swapped, "moved": moved,
          "lfs_pointer": pointer, "error_page": error_page, "empty": empty, "zeros": zeros}
BINARY = (".pt", ".pth", ".bin", ".distcp", ".metadata", ".gguf")


def missing(folder, r):
    """Removes a file that the others need."""
    files = [p for p in folder.rglob("*") if p.name.startswith(("__", "bf16_zero", "zero_pp", "mp_rank")) or
             p.name in (".metadata", "scheduler.pt", "optimizer.pt", "adapter_model.safetensors")]
    if not files:
        return False
    r.choice(files).unlink()
    return True


def unfinished(folder, r):
    files = [p for p in folder.rglob("*") if p.suffix in BINARY or p.name == ".metadata"]
    if not files:
        return False
    p = r.choice(files)
    p.rename(p.with_name(p.name + ".tmp"))
    return True


def other_step(folder, r):
    """A file from the checkpoint of another step, or a step that is not the folder's."""
    states = sorted(folder.rglob("trainer_state.json"))
    if not states:
        return False
    state = r.choice(states)
    others = [s for s in states if s != state]
    if others and r.random() < 0.5:
        shutil.copy(others[0].parent / "optimizer.pt", state.parent / "optimizer.pt")
    elif others and r.random() < 0.5:
        shutil.copy(others[0].parent / "scheduler.pt", state.parent / "scheduler.pt")
    else:
        import re
        text = state.read_text()
        state.write_text(re.sub(r'"global_step": (\d+)', lambda m: f'"global_step": {int(m[1]) + 1 + r.randrange(9)}', text))
    return True


def other_rank(folder, r):
    """One rank's file of ZeRO copied over another's, or renamed to a rank that did not exist."""
    ranks = sorted(folder.rglob("*optim_states.pt"))
    if len(ranks) < 2:
        return False
    p = r.choice(ranks)
    p.rename(p.with_name(p.name.replace("pp_rank_0", "pp_rank_7").replace("pp_rank_1", "pp_rank_9")))
    return True


FOLDER_FAULTS = {"missing_file": missing, "unfinished": unfinished, "other_step": other_step,
                 "rank_renamed": other_rank}


def ask(checker, path):
    try:
        done = subprocess.run([*checker, str(path)], capture_output=True, timeout=60)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return -99, b"timeout"


def plant(copy, r):
    """Plants one fault; its name and file, or None when it does not fit."""
    if copy.is_dir() and r.random() < 0.3:
        name = r.choice(list(FOLDER_FAULTS))
        return (name, copy) if FOLDER_FAULTS[name](copy, r) else None
    files = [copy] if copy.is_file() else sorted(p for p in copy.rglob("*") if p.name.endswith(BINARY))
    path = r.choice(files)
    name = r.choice(list(FAULTS))
    data = path.read_bytes()
    new = FAULTS[name](path, data, r)
    if new is None or new == data:
        return None
    path.write_bytes(new)
    return name, path


def run_sample(args, sample, r, counts, bad):
    code, out = ask(args.checker, sample)
    if code != 0:
        bad.append(f"intact {sample} was not accepted: exit {code}\n{out.decode(errors='replace')[:800]}")
        return
    done = 0
    while done < args.count:
        with tempfile.TemporaryDirectory(dir=args.work) as t:
            copy = pathlib.Path(t) / sample.name
            (shutil.copytree if sample.is_dir() else shutil.copy)(sample, copy)
            planted = plant(copy, r)
            if planted is None:
                continue
            done += 1
            code, out = ask(args.checker, copy)
            counts[planted[0]] += 1
            if code == 0 or code < 0 or code > 64:
                kind = "accepted" if code == 0 else f"died ({code})"
                bad.append(f"{kind}: {sample.name} number {done}, {planted[0]} in {planted[1].name}")
                if args.keep:
                    shutil.copytree(t, pathlib.Path(args.keep) / f"{sample.name}-{done}", dirs_exist_ok=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=100, help="faults a sample (100)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--work", help="folder for copies")
    p.add_argument("--keep", help="folder for copies that were accepted")
    p.add_argument("checker", type=shlex.split)
    p.add_argument("samples", nargs="+", type=pathlib.Path)
    args = p.parse_args()
    counts, bad = collections.Counter(), []
    for sample in args.samples:
        run_sample(args, sample, random.Random(f"{args.seed} {sample.name}"), counts, bad)
    for name in sorted(counts):
        print(f"{name:16} {counts[name]:6}")
    print(f"{sum(counts.values())} faults in {len(args.samples)} samples, {len(bad)} not noticed")
    for line in bad[:40]:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
