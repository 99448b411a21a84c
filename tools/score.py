#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `assay diagnose` on a corpus: top-1, top-3, false alarms, confusion, seconds.

usage: score.py [--assay PROGRAM] [--mutate] [--yardstick] [--jobs N] [--seed N]
                [--min-top1 F] [--min-top3 F] [--within F] [--max-false N] CORPUS_DIR

CORPUS_DIR holds cases.jsonl and clean.jsonl. Each case's log, kernel log and facts are written to a
fresh folder and `PROGRAM diagnose --json [--kernel-log F] [--facts F] train.log` is run on them; the
answer is its `causes`, best first. A class in a case's `accept` counts as right too.

--mutate      each case is also asked in changed forms (tools/mutate.py); the table is by mutation
--yardstick   beside it: the first line that grep finds for 'Error:', and how often it stands in the
              evidence the right answer rests on
--within F    with --mutate: fail when any mutation's top-1 or top-3 is worse than unchanged by more
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate  # noqa: E402


def load(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def ask(program, case):
    """-> (classes or None, complaint, seconds, answer)"""
    with tempfile.TemporaryDirectory(prefix="score.") as folder:
        def put(name, data):
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(data if isinstance(data, bytes) else data.encode())
            return path

        command = [program, "diagnose", "--json"]
        if case.get("kernel_log"):
            command += ["--kernel-log", put("kernel.log", case["kernel_log"])]
        if case.get("facts"):
            command += ["--facts", put("facts.json", json.dumps(case["facts"]))]
        log = case["log"]
        command.append(put("train.log", log if isinstance(log, bytes) or log.endswith("\n") else log + "\n"))
        start = time.monotonic()
        try:
            p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, "timeout", time.monotonic() - start, {}
        seconds = time.monotonic() - start
    if p.returncode not in (0, 1, 2):
        return None, f"exit {p.returncode}: {p.stderr.decode('utf-8', 'replace')[-200:]}", seconds, {}
    try:
        answer = json.loads(p.stdout.decode("utf-8"))
        return [c["class"] for c in answer["causes"]], None, seconds, answer
    except (ValueError, KeyError, TypeError) as e:
        return None, f"bad output: {e}", seconds, {}


def right(case):
    return {case["class"]} | set(case.get("accept", []))


class Tally:
    def __init__(self):
        self.cases = self.top1 = self.top3 = self.clean = self.false = 0
        self.seconds, self.misses, self.alarms = [], [], []
        self.confusion = collections.Counter()

    def add(self, case, classes, complaint, seconds):
        self.seconds.append(seconds)
        if "class" not in case:
            self.clean += 1
            if complaint or classes:
                self.false += 1
                self.alarms.append((case["id"], complaint or ", ".join(classes[:3])))
            return
        self.cases += 1
        one = bool(classes) and classes[0] in right(case)
        three = bool(classes) and any(c in right(case) for c in classes[:3])
        self.top1 += one
        self.top3 += three
        got = complaint or (classes[0] if classes else "(nothing)")
        if not one:
            self.confusion[(case["class"], got)] += 1
            self.misses.append((case["id"], case["class"], complaint or ", ".join((classes or ["(nothing)"])[:3]),
                                three))

    def rates(self):
        n = max(self.cases, 1)
        return self.top1 / n, self.top3 / n

    def line(self):
        one, three = self.rates()
        return (f"top-1 {self.top1}/{self.cases} ({one:.1%})  top-3 {self.top3}/{self.cases} ({three:.1%})  "
                f"false alarms {self.false}/{self.clean}  mean {sum(self.seconds) / max(len(self.seconds), 1) * 1e3:.1f} ms"
                f"  slowest {max(self.seconds, default=0) * 1e3:.0f} ms")


def run(program, cases, jobs):
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for case, (classes, complaint, seconds, _) in zip(cases, pool.map(lambda c: ask(program, c), cases)):
            tally.add(case, classes, complaint, seconds)
    return tally


def yardstick(cases):
    """The first 'Error:' line, as a person with grep finds it. It counts as a hit when it holds a word of
    the class (three letters or more), which is generous: grep names no class at all."""
    hits = 0
    for c in cases:
        line = next((l for l in c["log"].splitlines() if "Error:" in l), "")
        words = [w for w in re.split(r"[^a-z0-9]+", c["class"]) if len(w) > 2]
        hits += any(w in line.lower() for w in words)
    alarms = lambda logs: sum("Error:" in c["log"] for c in logs)
    return hits, alarms


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--assay", default="build/assay")
    ap.add_argument("--mutate", action="store_true")
    ap.add_argument("--yardstick", action="store_true")
    ap.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--min-top1", type=float)
    ap.add_argument("--min-top3", type=float)
    ap.add_argument("--within", type=float)
    ap.add_argument("--max-false", type=int)
    ap.add_argument("corpus")
    o = ap.parse_args()
    program = os.path.abspath(o.assay)
    cases = load(os.path.join(o.corpus, "cases.jsonl"))
    clean = load(os.path.join(o.corpus, "clean.jsonl"))
    if not cases:
        sys.exit(f"{o.corpus}/cases.jsonl holds no case")
    base = run(program, cases + clean, o.jobs)
    bad = []

    if o.mutate:
        print(f"{'unchanged':24s} {base.line()}")
        one, three = base.rates()
        for name in mutate.names():
            t = run(program, [mutate.apply(name, c, o.seed) for c in cases + clean], o.jobs)
            print(f"{name:24s} {t.line()}")
            if o.within is not None and (t.rates()[0] < one - o.within or t.rates()[1] < three - o.within):
                bad.append(f"mutation {name} is worse than unchanged by more than {o.within:.0%}")
                for i, want, got, in3 in t.misses:
                    if i not in {m[0] for m in base.misses}:
                        print(f"    {i}: wanted {want}, got {got}")
            if o.max_false is not None and t.false > o.max_false:
                bad.append(f"mutation {name}: {t.false} false alarms: {t.alarms}")
        some = cases[::30]
        plain = run(program, some, 1)
        for change in mutate.HEAVY:
            t = run(program, [mutate.apply(change.__name__, c, o.seed) for c in some], 1)
            print(f"{change.__name__:24s} {t.line()}")
            if o.within is not None and t.top1 < plain.top1:
                bad.append(f"mutation {change.__name__}: {t.top1} of {len(some)} right, unchanged {plain.top1}")
    else:
        if base.misses:
            print("misses (case, wanted, answered):")
            for i, want, got, in3 in base.misses:
                print(f"  {i:34s} {want:26s} {got}{'   [in top 3]' if in3 else ''}")
        if base.alarms:
            print("false alarms:")
            for i, what in base.alarms:
                print(f"  {i:34s} {what}")
        repeated = [(k, n) for k, n in base.confusion.most_common() if n > 1]
        if repeated:
            print("confused more than once (wanted -> answered):")
            for (want, got), n in repeated:
                print(f"  {want} -> {got}: {n}")
        print(base.line())
        if o.yardstick:
            hits, alarms = yardstick(cases)
            print(f"yardstick: the first line with 'Error:' names the kind in {hits}/{len(cases)} "
                  f"({hits / len(cases):.1%}), and stands in {alarms(clean)}/{len(clean)} clean logs")
    one, three = base.rates()
    if o.min_top1 is not None and one < o.min_top1:
        bad.append(f"top-1 {one:.1%} is under {o.min_top1:.1%}")
    if o.min_top3 is not None and three < o.min_top3:
        bad.append(f"top-3 {three:.1%} is under {o.min_top3:.1%}")
    if o.max_false is not None and base.false > o.max_false:
        bad.append(f"{base.false} false alarms, {o.max_false} allowed")
    for line in bad:
        print("short: " + line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
