#!/usr/bin/env python3
"""kernel_classes.py INFERPROF [TRACE...]: the category of each kernel is the one a person gives it.

Imports every trace (default: those of tests/data, and of ../shared/data if it exists), reads kernels.csv and compares the
category of each name with kernel_labels.tsv, written by hand. Of a trace's kernel time at least 98% must be in names that
have a label and the category of that label. Prints the share per trace; exit status 1 if one is below."""
import csv
import glob
import os
import subprocess
import sys
import tempfile

NEEDED = 0.98
HERE = os.path.dirname(os.path.abspath(__file__))


def labels():
    found = {}
    with open(os.path.join(HERE, "kernel_labels.tsv"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                category, _, name = line.rstrip("\n").split("\t")
                found[name] = category
    return found


def default_traces():
    seen = {}
    for folder in ("tests/data", "../shared/data"):
        for pattern in ("kineto/*.json*", "nsys/*.sqlite*"):
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                seen.setdefault(os.path.basename(path).removesuffix(".gz"), path)
    return seen.values()


def kernels(program, trace):
    """(name, category, ns) of every kernel that `import` lists."""
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "run")
        subprocess.run([program, "import", "-q", "--output", folder, trace], check=True, stdout=subprocess.DEVNULL)
        path = os.path.join(folder, "kernels.csv")
        with open(path, newline="", encoding="utf-8") as f:
            return [(r["name"], r["category"], float(r["total_ns"])) for r in csv.DictReader(f)]


def check(program, trace, by_hand):
    rows = kernels(program, trace)
    total = sum(ns for _, _, ns in rows)
    if not total:
        print(f"{trace}: no kernels")
        return True
    right = sum(ns for name, category, ns in rows if by_hand.get(name) == category)
    print(f"{trace}: {100 * right / total:.2f}% of {total / 1e6:.3f} ms in the category a person gives it")
    for name, category, ns in rows:
        if name in by_hand and by_hand[name] != category:
            print(f"  {100 * ns / total:.2f}% {category}, not {by_hand[name]}: {name[:120]}")
    return right >= NEEDED * total


def main():
    program, *traces = sys.argv[1:]
    by_hand = labels()
    results = [check(program, t, by_hand) for t in traces or default_traces()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
