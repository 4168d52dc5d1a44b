"""What a whole run under --budget costs, in processes one after the other for so many seconds.

    budget.py SECONDS COLLECTOR INFERPROF FOLDER PROGRAM PCT

Each process runs PROGRAM of workloads.py. For its first seconds the collector is there and nothing was ever on (--delay); then capturing goes
on and off as --budget PCT has it. A round's time, far from any window, is what the program takes by itself: where CUPTI leaves between windows,
nothing of it is in the process then. What the machine does by itself changes within seconds, so a window is compared with the rounds before
and after it alone. Told of each process: what a window cost in ms, while CUPTI came, while it was open, and after it; over all processes: that
in percent of the time from a window to the next, which is what the budget promises, with its 95% interval over windows. Then what the windows
hold, by windows.py.

A round that took over CAP times the median counts as that: the machine's own hiccups are longer, a switch is not.
"""
import glob
import statistics
import subprocess
import sys

import injected
import windows
from bootstrap import bootstrap

QUIET_S, END_S = 4, 18  # after the first use of CUDA, and after the start of the process, which loads PyTorch for some 4 s
BEFORE_NS, AFTER_NS = 80_000_000, 200_000_000  # around a window: CUPTI comes, kernels drain, it leaves
CAP = 8
RANGE = "measured"  # of workloads.py


def dump(inferprof, folder):
    """The trace as JSON lines beside it."""
    path = folder + "/dump.jsonl"
    with open(path, "w") as f:
        subprocess.run([inferprof, "trace", "dump", "--json", glob.glob(folder + "/*.ipt")[0]], stdout=f, check=True)
    return path


def cost(rounds, cap, plain, a, b):
    """ms that the rounds which ended from a to b took longer than plain ones."""
    return sum(min(ns, cap) - plain for end, ns in rounds if a <= end < b) / 1e6


def figures(ends, spans):
    """Of each window but the last: its three costs in ms, and the ms to the next."""
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
        ends = injected.round_ends(collector, f"{folder}/{i}", program, END_S, {"BUDGET": pct, "DELAY": QUIET_S})
        dumps.append(dump(inferprof, f"{folder}/{i}"))
        spans = windows.read(dumps[-1], RANGE).windows
        here = list(figures(ends, spans))
        seen += here
        means = [statistics.fmean(x) for x in zip(*here)] if here else []
        share = sum(b - a for a, b in spans) / (ends[-1] - spans[0][0])
        print(f"  {len(spans)} windows, {100 * share:.1f}% captured; a window cost {means[0]:.1f} ms before, {means[1]:.1f} in and {means[2]:.1f} after it, "
              f"every {means[3]:.0f} ms" if means else f"  {len(spans)} windows, too near to each other", flush=True)
    if seen:
        paid = bootstrap(seen, lambda those: 100 * sum(sum(x[:3]) for x in those) / sum(x[3] for x in those), 500)
        print("{} under --budget {}: {:+.2f}% [{:+.2f}, {:+.2f}]  ({} windows)".format(program, pct, *paid, len(seen)))
    windows.tell(windows.read(dumps[0], RANGE))


if __name__ == "__main__":
    main()
