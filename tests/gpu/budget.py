"""Measures the overhead of a whole run under --budget, in consecutive processes for SECONDS.

    budget.py SECONDS COLLECTOR INFERPROF FOLDER PROGRAM PCT

Each process runs PROGRAM of workloads.py. During its first seconds the collector is loaded but inactive (--delay); then --budget PCT
opens and closes capture windows. Rounds far from any window give the program's own round time: CUPTI is detached between windows, so
nothing of it is in the process then. The machine's speed changes within seconds, so each window is compared only with the rounds
before and after it. Printed per process: the cost of a window in ms before it (CUPTI attaches), while it was open, and after it (drain
and detach). Printed over all processes: the sum of these in percent of the time from one window to the next, which is what the budget
limits, with its 95% interval over windows. Then windows.py checks what the windows hold.

A round that took more than CAP times the median counts as CAP times the median: stalls of the machine are longer than that, a switch
is not.
"""
import glob
import statistics
import subprocess
import sys

import injected
import windows
from bootstrap import bootstrap

QUIET_S, END_S = 4, 18  # seconds after the first use of CUDA; seconds after the start of the process (loading PyTorch takes about 4 s)
BEFORE_NS, AFTER_NS = 80_000_000, 200_000_000  # around a window: CUPTI attaches; kernels drain, CUPTI detaches
CAP = 8
RANGE = "measured"  # of workloads.py


def dump(inferprof, folder):
    """Dumps the trace of a folder as JSON lines into the folder; returns the path."""
    path = folder + "/dump.jsonl"
    with open(path, "w") as f:
        subprocess.run([inferprof, "trace", "dump", "--json", glob.glob(folder + "/*.ipt")[0]], stdout=f, check=True)
    return path


def cost(rounds, cap, plain, a, b):
    """By how many ms the rounds that ended in [a, b) took longer than rounds without CUPTI."""
    return sum(min(ns, cap) - plain for end, ns in rounds if a <= end < b) / 1e6


def figures(ends, spans):
    """For each window but the last: its three costs in ms, and the ms to the next window."""
    rounds = [(b, b - a) for a, b in zip(ends, ends[1:])]
    cap = CAP * statistics.median(ns for _, ns in rounds)
    near = [(a - BEFORE_NS, a, b, b + AFTER_NS) for a, b in spans]
    for i, (come, a, b, gone) in enumerate(near[:-1]):
        since = near[i - 1][3] if i else come - 500_000_000
        rest = [min(ns, cap) for end, ns in rounds if since < end - ns and end < come or gone < end - ns and end < near[i + 1][0]]
        if len(rest) < 20:
            continue
        plain = statistics.fmean(rest)
        yield (*(cost(rounds, cap, plain, *part) for part in ((come, a), (a, b), (b, gone))), (near[i + 1][1] - a) / 1e6)


def main():
    seconds, collector, inferprof, folder, program, pct = sys.argv[1:]
    seen, dumps = [], []
    for i in range(max(1, round(float(seconds) / (END_S + 2)))):
        ends = injected.round_ends(collector, f"{folder}/{i}", program, END_S, {"BUDGET_PPM": round(float(pct) * 10**4), "DELAY_US": round(QUIET_S * 10**6)})
        dumps.append(dump(inferprof, f"{folder}/{i}"))
        spans = windows.read(dumps[-1], RANGE).windows
        here = list(figures(ends, spans))
        seen += here
        means = [statistics.fmean(x) for x in zip(*here)] if here else []
        share = sum(b - a for a, b in spans) / (ends[-1] - spans[0][0])
        print(f"  {len(spans)} windows, {100 * share:.1f}% captured; cost per window {means[0]:.1f} ms before, {means[1]:.1f} ms in and {means[2]:.1f} ms after it, "
              f"one window per {means[3]:.0f} ms" if means else f"  {len(spans)} windows, too close together", flush=True)
    if seen:
        paid = bootstrap(seen, lambda those: 100 * sum(sum(x[:3]) for x in those) / sum(x[3] for x in those), 500)
        print("{} under --budget {}: {:+.2f}% [{:+.2f}, {:+.2f}]  ({} windows)".format(program, pct, *paid, len(seen)))
    windows.check(windows.read(dumps[0], RANGE))


if __name__ == "__main__":
    main()
