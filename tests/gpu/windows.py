"""Reads a trace that was captured in windows and says what they hold.

    windows.py TRACE.jsonl [RANGE]

TRACE.jsonl is `inferprof trace dump --json`; the share is of the time inside ranges whose name begins with RANGE, else of the whole.
Exits 1 if a kernel has no launch or shares one that launches one kernel only.
"""
import collections
import json
import sys


def main():
    kernels, launches, ranges, windows, counts = [], {}, [], [], ""
    for line in open(sys.argv[1]):
        r = json.loads(line)
        if r["kind"] == "kernel":
            kernels.append(r)
        elif r["kind"] == "launch":
            launches[r["correlation"]] = r
        elif r["kind"] == "range" and len(sys.argv) > 2 and r["name"].startswith(sys.argv[2]):
            ranges.append(r["end_ns"] - r["start_ns"])
        elif r["kind"] == "meta" and r["key"] == "capture.window" and " " in r["value"]:
            begin, end = map(int, r["value"].split())
            windows.append(end - begin)
        elif r["kind"] == "meta" and r["key"] == "capture.from":
            ranges.append(-int(r["value"])) if len(sys.argv) == 2 else None
        elif r["kind"] == "meta" and r["key"] == "capture.to":
            ranges.append(int(r["value"])) if len(sys.argv) == 2 else None
        elif r["kind"] == "meta" and r["key"] in ("collector.counts", "problem"):
            counts += r["value"] + "\n"
    orphans = sum(k["correlation"] not in launches for k in kernels)
    per = collections.Counter(k["correlation"] for k in kernels if not k.get("graph_node"))
    shared = sum(n > 1 for n in per.values())
    early = sum(k["start_ns"] + 1000 < launches[k["correlation"]]["start_ns"] for k in kernels if k["correlation"] in launches)
    ms = sorted(w / 1e6 for w in windows)
    print(f"{len(ms)} windows of {ms[0]:.1f} to {ms[-1]:.1f} ms, median {ms[len(ms) // 2]:.1f}: {sum(ms) / 1e3:.2f} s of {sum(ranges) / 1e9:.2f} s, "
          f"{100 * sum(windows) / sum(ranges):.1f}%" if ms else "no windows")
    print(f"{len(kernels)} kernels, without a launch {orphans}, launches of two kernels {shared}, before their launch {early}")
    print(counts, end="")
    return 1 if orphans or shared or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
