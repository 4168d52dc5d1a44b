"""Reads a trace that was captured in windows and says what they hold.

    windows.py TRACE.jsonl RANGE

TRACE.jsonl is `inferprof trace dump --json`; the share is of the time inside ranges whose name begins with RANGE. Exits 1 if a kernel has
no launch, or shares one that is not a graph's.
"""
import collections
import json
import sys


Trace = collections.namedtuple("Trace", "kernels launches ranges windows said")


def read(path, name):
    kernels, launches, ranges, windows, said = trace = Trace([], {}, [], [], [])
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
            said.append(r["value"])
    return trace


def inside(windows, ranges):
    """Lengths of the parts of windows that lie in ranges, in ns."""
    return [min(b, d) - max(a, c) for a, b in windows for c, d in ranges if max(a, c) < min(b, d)]


def tell(trace):
    """False: something is wrong with what they hold."""
    kernels, launches, ranges, windows, said = trace
    orphans = sum(k["correlation"] not in launches for k in kernels)
    per = collections.Counter(k["correlation"] for k in kernels if not k.get("graph_node"))
    shared = sum(n > 1 for n in per.values())
    early = sum(k["start_ns"] + 1000 < launches[k["correlation"]]["start_ns"] for k in kernels if k["correlation"] in launches)
    ms = sorted(n / 1e6 for n in inside(windows, ranges))
    total = sum(b - a for a, b in ranges) / 1e6
    if ms:
        print(f"{len(ms)} windows of {ms[0]:.1f} to {ms[-1]:.1f} ms, median {ms[len(ms) // 2]:.1f}: "
              f"{sum(ms) / 1e3:.2f} s of {total / 1e3:.2f} s, {100 * sum(ms) / total:.1f}%")
    print(f"{len(kernels)} kernels, {len(launches)} launches, without a launch {orphans}, launches of two kernels {shared}, "
          f"before their launch {early}")
    print(*said, sep="\n")
    return bool(kernels and ms and not orphans and not shared)


if __name__ == "__main__":
    sys.exit(0 if tell(read(*sys.argv[1:])) else 1)
