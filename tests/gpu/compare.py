"""Holds a trace against torch.profiler's account of the same program, and against itself.

    compare.py NAME TRACE.jsonl TORCH.json

TRACE.jsonl is `inferprof trace dump --json`. Prints one line and exits 1 if anything does not hold.
"""
import collections
import json
import subprocess
import sys


def main():
    name, trace, torch_file = sys.argv[1:]
    kernels, launches = [], set()
    for line in open(trace):
        r = json.loads(line)
        kind = r.get("kind")
        if kind == "kernel":
            kernels.append(r)
        elif kind == "launch":
            launches.add(r["correlation"])
    want = json.load(open(torch_file))["kernels"]
    ours = collections.Counter(k["name"] for k in kernels)
    plain = subprocess.run(["c++filt"], input="\n".join(ours), capture_output=True, text=True).stdout.split("\n")
    by_plain = collections.Counter()
    for mangled, demangled in zip(ours, plain):
        by_plain[demangled] += ours[mangled]
    want_n = {k: v[0] for k, v in want.items()}
    differ = [(k, by_plain.get(k, 0), want_n.get(k, 0)) for k in set(by_plain) | set(want_n)
              if by_plain.get(k, 0) != want_n.get(k, 0)]
    ours_ns = sum(k["end_ns"] - k["start_ns"] for k in kernels)
    want_ns = sum(v[1] for v in want.values())
    orphans = sum(k["correlation"] not in launches for k in kernels)
    # Each nanosecond owned once: no two kernels of a stream overlap.
    overlaps, last = 0, {}
    for k in sorted(kernels, key=lambda k: k["start_ns"]):
        key = (k.get("device", 0), k.get("context", 0), k.get("stream", 0))
        overlaps += k["start_ns"] < last.get(key, 0)
        last[key] = max(last.get(key, 0), k["end_ns"])
    print(f"{name:<8} kernels {len(kernels)} / torch {sum(want_n.values())}  time {ours_ns / 1e6:.3f} / {want_ns / 1e6:.3f} ms"
          f"  names that differ {len(differ)}  without launch {orphans}  launches {len(launches)}  overlaps in a stream {overlaps}")
    for d in differ[:5]:
        print("    differs:", d)
    return 0 if not orphans and len(kernels) == sum(want_n.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
