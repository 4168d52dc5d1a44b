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
import json
import os
import statistics
import subprocess
import sys

from bootstrap import bootstrap

QUIET_S, END_S = 4, 18  # after the first use of CUDA, and after the start of the process, which loads PyTorch for some 4 s
BEFORE_NS, AFTER_NS = 80_000_000, 200_000_000  # around a window: CUPTI comes, kernels drain, it leaves
CAP = 8
HERE = os.path.dirname(os.path.abspath(__file__))


def run(collector, folder, program, pct):
    os.makedirs(folder, exist_ok=True)
    env = dict(os.environ, CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector, INFERPROF_COLLECT_DIR=folder,
               INFERPROF_COLLECT_BUDGET=pct, INFERPROF_COLLECT_DELAY=str(QUIET_S))
    command = [sys.executable, HERE + "/workloads.py", program, "--until", str(END_S), "--times", folder + "/times.json"]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/times.json") as f:
        return json.load(f)


def windows_of(inferprof, folder):
    """The windows; all the trace is left as JSON lines beside it."""
    with open(folder + "/dump.jsonl", "w") as f:
        subprocess.run([inferprof, "trace", "dump", "--json", glob.glob(folder + "/*.ipt")[0]], stdout=f, check=True)
    with open(folder + "/dump.jsonl") as f:
        metas = [r for r in map(json.loads, f) if r["kind"] == "meta" and r.get("key") == "capture.window"]
    return [tuple(map(int, m["value"].split())) for m in metas if " " in m["value"]]


def cost(rounds, cap, plain, a, b):
    """ms that the rounds which ended from a to b took longer than plain ones."""
    return sum(min(ns, cap) - plain for end, ns in rounds if a <= end < b) / 1e6


def figures(ends, windows):
    """Of each window but the last: its three costs in ms, and the ms to the next."""
    rounds = [(b, b - a) for a, b in zip(ends, ends[1:])]
    cap = CAP * statistics.median(ns for _, ns in rounds)
    near = [(a - BEFORE_NS, a, b, b + AFTER_NS) for a, b in windows]
    for i, (come, a, b, gone) in enumerate(near[:-1]):
        since = near[i - 1][3] if i else come - 500_000_000
        rest = [min(ns, cap) for end, ns in rounds if since < end - ns and end < come or gone < end - ns and end < near[i + 1][0]]
        if len(rest) < 20:
            continue
        plain = statistics.fmean(rest)
        yield (*(cost(rounds, cap, plain, *part) for part in ((come, a), (a, b), (b, gone))), (near[i + 1][1] - a) / 1e6)


def main():
    seconds, collector, inferprof, folder, program, pct = sys.argv[1:]
    seen = []
    for i in range(max(1, round(float(seconds) / (END_S + 2)))):
        ends = run(collector, f"{folder}/{i}", program, pct)
        windows = windows_of(inferprof, f"{folder}/{i}")
        here = list(figures(ends, windows))
        seen += here
        means = [statistics.fmean(x) for x in zip(*here)] if here else []
        share = sum(b - a for a, b in windows) / (ends[-1] - windows[0][0])
        print(f"  {len(windows)} windows, {100 * share:.1f}% captured; a window cost {means[0]:.1f} ms before, {means[1]:.1f} in and {means[2]:.1f} after it, "
              f"every {means[3]:.0f} ms" if means else f"  {len(windows)} windows, too near to each other", flush=True)
    if seen:
        paid = bootstrap(seen, lambda those: 100 * sum(sum(x[:3]) for x in those) / sum(x[3] for x in those), 500)
        print("{} under --budget {}: {:+.2f}% [{:+.2f}, {:+.2f}]  ({} windows)".format(program, pct, *paid, len(seen)))
    subprocess.run([sys.executable, HERE + "/windows.py", f"{folder}/0/dump.jsonl", "measured"])


if __name__ == "__main__":
    main()
