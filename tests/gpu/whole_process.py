"""Compares whole processes with and without the collector, in the order off, on, on, off, for SECONDS.

    whole_process.py SECONDS COLLECTOR FOLDER

Each process runs the eager decode, the graph in both variants and the prefill of workloads.py, 1 to 3 s each. Prints the medians in
seconds of each program's measured part, of the whole process and of its CPU time, and the median ratio of the pairs with its 95%
interval.
"""
import json
import statistics
import sys
import time

import injected
from bootstrap import bootstrap

ROUNDS = {"eager": 320, "graph": 800, "reading": 600, "prefill": 150}


def run(collector, folder):
    start = time.time()
    printed = injected.run(collector, folder, [",".join(ROUNDS), "--rounds", ",".join(map(str, ROUNDS.values()))])
    took, docs = time.time() - start, [json.loads(line) for line in printed.splitlines()]
    return {**{d["program"]: d["seconds"] for d in docs}, "process": took, "CPU time": docs[-1]["cpu"]}


def main():
    end, collector, folder = time.time() + float(sys.argv[1]), sys.argv[2], sys.argv[3]
    off, on = [], []
    while not on or time.time() < end:
        for arm in (False, True) if len(on) % 2 == 0 else (True, False):
            (on if arm else off).append(run(collector if arm else None, folder))
        print("pair", len(on), *(f"{what} {off[-1][what]:.3f} {on[-1][what]:.3f} " for what in on[-1]), flush=True)
    for what in on[0]:
        ratio = bootstrap([100 * (b[what] / a[what] - 1) for a, b in zip(off, on)], statistics.median, 500)
        a, b = (statistics.median(x[what] for x in arm) for arm in (off, on))
        print("{:<8}  off {:.3f} s  on {:.3f} s  of a pair {:+.2f}% [{:+.2f}, {:+.2f}]  ({} pairs)".format(what, a, b, *ratio, len(on)))


if __name__ == "__main__":
    main()
