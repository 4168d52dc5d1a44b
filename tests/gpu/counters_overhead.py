"""What sampling counters costs: the programs of overhead.py without it and with it, interleaved in one process.

    counters_overhead.py INFERPROF_COUNTERS OUT.json [--rounds N] [--intervals 100,20] [--limit S]

The sampler is a process of its own, started for each block; a round is one block without it and one for each interval,
in rotating order. Ratios are between blocks of one round.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import overhead
import workloads


PIECES = 8  # of a block; the median of them: a launch-bound program has hiccups of its own


class Sampler:
    def __init__(self, program, interval_us):
        self.program, self.interval_us = program, interval_us

    def __enter__(self):
        if not self.interval_us:
            return self
        self.path = tempfile.mktemp(suffix=".ipt")
        self.process = subprocess.Popen([self.program, self.path, str(1000 * self.interval_us), "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            raise SystemExit(f"the sampler does not start: {line}")
        return self

    def __exit__(self, *_):
        if self.interval_us:
            self.process.stdin.close()
            self.process.wait()
            os.unlink(self.path)
        return False


def block(programs, program, interval_us):
    with Sampler(program, interval_us):
        time.sleep(0.05)
        return {name: statistics.median(workloads.timed(p, overhead.ROUNDS[name]) for _ in range(PIECES))
                for name, p in programs.items()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("out")
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--intervals", default="100,20")
    p.add_argument("--limit", type=float, default=1e9, help="begin no round after so many seconds")
    o = p.parse_args()
    arms = [0] + [int(i) for i in o.intervals.split(",")]
    programs = {name: workloads.PROGRAMS[name][0]() for name in overhead.ROUNDS}
    for name, work in programs.items():
        workloads.timed(work, overhead.ROUNDS[name])
    seen, start = {arm: [] for arm in arms}, time.perf_counter()
    for i in range(o.rounds):
        if time.perf_counter() - start > o.limit:
            break
        for k in range(len(arms)):
            arm = arms[(i + k) % len(arms)]
            seen[arm].append(block(programs, o.program, arm))
        with open(o.out, "w") as f:
            json.dump(seen, f)
    print("| program | without, ms | sampled every | cost | 95% | pairs |\n|---|---|---|---|---|---|")
    for name in programs:
        off = [b[name] for b in seen[0]]
        for arm in arms[1:]:
            ratios = [b[name] / a for a, b in zip(off, seen[arm])]
            _, low, high = overhead.interval(ratios)
            print(f"| {name} | {statistics.median(off) * 1e3:.1f} | {arm} us | {100 * (statistics.median(ratios) - 1):+.2f}% | "
                  f"{100 * (low - 1):+.2f} to {100 * (high - 1):+.2f}% | {len(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
