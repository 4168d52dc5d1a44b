"""What a whole run under --budget costs, in processes one after the other for so many seconds.

    budget.py SECONDS COLLECTOR INFERPROF FOLDER PROGRAM PCT

Each process runs PROGRAM of workloads.py. For its first seconds the collector is there and nothing was ever on (--delay); then capturing goes
on and off as --budget PCT has it. Told, in percent and with 95% intervals over the processes:

  all      a round of the budgeted time, windows, switching and what lies between, over one before it: what the budget promises
  between  a round far from any window over one before the first: what stays behind in the process

A round that took over CAP times the median counts as CAP times: the machine's own hiccups are longer, a switch is not. Then what the windows
hold, by windows.py.
"""
import glob
import json
import os
import statistics
import subprocess
import sys

from bootstrap import bootstrap

QUIET_S, END_S = 4, 18  # after the first use of CUDA, and after the start of the process, which loads PyTorch for some 4 s
BEFORE_NS, AFTER_NS = 60_000_000, 250_000_000  # around a window: CUPTI comes, kernels drain, it leaves
CAP = 8
HERE = os.path.dirname(os.path.abspath(__file__))


def run(collector, folder, program, pct):
    os.makedirs(folder, exist_ok=True)
    env = dict(os.environ, CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector, INFERPROF_COLLECT_DIR=folder,
               INFERPROF_COLLECT_BUDGET=pct, INFERPROF_COLLECT_DELAY=str(QUIET_S))
    subprocess.run([sys.executable, HERE + "/workloads.py", program, "--until", str(END_S), "--times", folder + "/times.json"], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    with open(folder + "/times.json") as f:
        return json.load(f)


def windows_of(inferprof, folder):
    """The windows, and all the trace as JSON lines in a file."""
    path = folder + "/dump.jsonl"
    with open(path, "w") as f:
        subprocess.run([inferprof, "trace", "dump", "--json", glob.glob(folder + "/*.ipt")[0]], stdout=f, check=True)
    with open(path) as f:
        metas = [r for r in map(json.loads, f) if r["kind"] == "meta" and r.get("key") == "capture.window"]
    return [tuple(map(int, m["value"].split())) for m in metas if " " in m["value"]], path


def figures(ends, windows):
    rounds = [(b, b - a) for a, b in zip(ends[20:], ends[21:])]
    cap = CAP * statistics.median(ns for _, ns in rounds)
    near = [(a - BEFORE_NS, b + AFTER_NS) for a, b in windows]
    begin = near[0][0]
    mean = lambda those: statistics.fmean(min(ns, cap) for ns in those)
    before = [ns for end, ns in rounds if end < begin]
    after = [ns for end, ns in rounds if end >= begin]
    between = [ns for end, ns in rounds if end >= begin and not any(a <= end and end - ns <= b for a, b in near)]
    share = sum(b - a for a, b in windows) / (ends[-1] - windows[0][0])
    return mean(before), mean(after), mean(between), share, len(between)


def main():
    seconds, collector, inferprof, folder, program, pct = sys.argv[1:]
    all_, between, path = [], [], None
    for i in range(max(1, int(float(seconds) / (END_S + 2)))):
        ends = run(collector, f"{folder}/{i}", program, pct)
        windows, path = windows_of(inferprof, f"{folder}/{i}")
        before, after, rest, share, n = figures(ends, windows)
        all_.append(100 * (after / before - 1))
        between.append(100 * (rest / before - 1))
        print(f"  before {before / 1e6:.3f} ms a round, under the budget {after / 1e6:.3f}, between windows {rest / 1e6:.3f} ({n} rounds); "
              f"{len(windows)} windows, {100 * share:.1f}% captured", flush=True)
    for name, values in (("all", all_), ("between", between)):
        print("{} {}: --budget {} {:<8} {:+.2f}% [{:+.2f}, {:+.2f}]  ({} processes)".format(
            program, name, pct, "", *bootstrap(values, statistics.fmean, 500), len(values)))
    subprocess.run([sys.executable, HERE + "/windows.py", path, "measured"])


if __name__ == "__main__":
    main()
