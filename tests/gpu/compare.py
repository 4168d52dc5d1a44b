"""Compares a trace with torch.profiler's record of the same programs, and checks its consistency.

    compare.py TRACE.jsonl TORCH.json

TRACE.jsonl is `inferprof trace dump --json` of `workloads.py PROGRAMS`, TORCH.json is the output of the same programs run with
--torch-profile. Prints one line per program; exits 1 on any difference.
"""
import collections
import json
import subprocess
import sys


def read(path):
    kernels, launches, ranges = [], {}, []
    for line in open(path):
        r = json.loads(line)
        if r["kind"] == "kernel":
            kernels.append(r)
        elif r["kind"] == "launch":
            launches[r["correlation"]] = r
        elif r["kind"] == "range" and r["name"] == "measured":
            ranges.append((r["start_ns"], r["end_ns"]))
    return kernels, launches, sorted(ranges)


def by_plain_name(kernels):
    ours = collections.Counter(k["name"] for k in kernels)
    plain = subprocess.run(["c++filt"], input="\n".join(ours), capture_output=True, text=True).stdout.split("\n")
    result = collections.Counter()
    for mangled, demangled in zip(ours, plain):
        result[demangled] += ours[mangled]
    return result


def overlaps(kernels):
    """Number of kernels that started before the previous kernel of their stream had ended."""
    n, last = 0, {}
    for k in sorted(kernels, key=lambda k: k["start_ns"]):
        key = (k.get("device", 0), k.get("context", 0), k.get("stream", 0))
        n += k["start_ns"] < last.get(key, 0)
        last[key] = max(last.get(key, 0), k["end_ns"])
    return n


def compare(name, kernels, want):
    ours, theirs = by_plain_name(kernels), {k: v[0] for k, v in want.items()}
    differ = [(k, ours.get(k, 0), theirs.get(k, 0)) for k in set(ours) | set(theirs) if ours.get(k, 0) != theirs.get(k, 0)]
    ours_ns, theirs_ns = sum(k["end_ns"] - k["start_ns"] for k in kernels), sum(v[1] for v in want.values())
    print(f"{name:<8} kernels {len(kernels)} / torch {sum(theirs.values())}  time {ours_ns / 1e6:.3f} / {theirs_ns / 1e6:.3f} ms"
          f"  names that differ {len(differ)}  overlaps in a stream {overlaps(kernels)}")
    for d in differ[:5]:
        print("    differs:", d)
    return not differ


def main():
    kernels, launches, ranges = read(sys.argv[1])
    torch = json.load(open(sys.argv[2]))
    orphans = sum(k["correlation"] not in launches for k in kernels)
    print(f"{len(kernels)} kernels, {len(launches)} launches, kernels without a launch {orphans}")
    good = orphans == 0 and len(ranges) == len(torch)
    for (begin, end), (name, want) in zip(ranges, torch.items()):
        mine = [k for k in kernels if k["correlation"] in launches and begin <= launches[k["correlation"]]["start_ns"] <= end]
        good &= compare(name, mine, want["kernels"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
