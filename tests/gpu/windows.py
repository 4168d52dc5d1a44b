"""Checks a trace that was captured in windows, and prints what the windows hold.

    windows.py TRACE.jsonl RANGE

TRACE.jsonl is `inferprof trace dump --json`. The captured share is relative to the time inside ranges whose name starts with RANGE.
Exits 1 if a kernel has no launch, or if two kernels that are not of a graph share a launch.
"""
import collections
import json
import sys


Trace = collections.namedtuple("Trace", "kernels launches ranges windows notes")


def read(path, name):
    kernels, launches, ranges, windows, notes = trace = Trace([], {}, [], [], [])
    for line in open(path):
        r = json.loads(line)
        if r["kind"] == "kernel":
            kernels.append(r)
        elif r["kind"] == "launch":
            launches[r["correlation"]] = r
        elif r["kind"] == "range" and r["name"].startswith(name):
            ranges.append((r["start_ns"], r["end_ns"]))
        elif r["kind"] == "meta" and r["key"] == "capture.window" and " " in r["value"]:
            windows.append(tuple(map(int, r["value"].split())))
        elif r["kind"] == "meta" and r["key"] in ("collector.counts", "problem"):
            notes.append(r["value"])
    return trace


def inside(windows, ranges):
    """Durations in ns of the parts of windows that are inside ranges."""
    return [min(b, d) - max(a, c) for a, b in windows for c, d in ranges if max(a, c) < min(b, d)]


def check(trace):
    """Prints the figures; returns False if a check fails."""
    kernels, launches, ranges, windows, notes = trace
    orphans = sum(k["correlation"] not in launches for k in kernels)
    per = collections.Counter(k["correlation"] for k in kernels if not k.get("graph_node"))
    shared = sum(n > 1 for n in per.values())
    early = sum(k["start_ns"] + 1000 < launches[k["correlation"]]["start_ns"] for k in kernels if k["correlation"] in launches)
    ms = sorted(n / 1e6 for n in inside(windows, ranges))
    total = sum(b - a for a, b in ranges) / 1e6
    if ms:
        print(f"{len(ms)} windows of {ms[0]:.1f} to {ms[-1]:.1f} ms, median {ms[len(ms) // 2]:.1f}: "
              f"{sum(ms) / 1e3:.2f} s of {total / 1e3:.2f} s, {100 * sum(ms) / total:.1f}%")
    print(f"{len(kernels)} kernels, {len(launches)} launches, {orphans} kernels without a launch, {shared} launches with several kernels, "
          f"{early} kernels before their launch")
    print(*notes, sep="\n")
    return bool(kernels and ms and not orphans and not shared)


if __name__ == "__main__":
    sys.exit(0 if check(read(*sys.argv[1:])) else 1)
