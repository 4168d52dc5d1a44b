"""Measures the overhead of continuous recording against the same process before its first recording, on the eager decode of workloads.py.

    continuous.py SECONDS COLLECTOR FOLDER

Runs one process at a time, alternating between the collector, the floor and nothing. Each process runs for some seconds with
an inactive collector (--delay), then with an active one. On a shared machine the speed changes within seconds, so the lower quartiles
of the rounds before and after are compared: slow seconds do not affect them.
"""
import statistics
import sys
import time

import injected

DELAY_S, END_S = 4, 14  # seconds after the first use of CUDA; seconds after the start of the process
ARMS = {"collector": {"DELAY_US": DELAY_S * 10**6}, "floor": {"DELAY_US": DELAY_S * 10**6, "WHAT": "kernels,empty"}, "nothing": {"DELAY_US": 10**9}}


def overhead_pct(ends):
    """Overhead in percent. Rounds around the switch, between 2.6 and 4.2 s, are left out."""
    rounds = [((b - ends[0]) / 1e9, b - a) for a, b in zip(ends[20:], ends[21:])]
    before, after = ([ns for s, ns in rounds if a < s < b] for a, b in ((0, 2.6), (4.2, END_S)))
    low = [statistics.quantiles(x, n=4)[0] for x in (before, after)]
    return 100 * (low[1] / low[0] - 1)


def main():
    end, collector, folder = time.time() + float(sys.argv[1]), sys.argv[2], sys.argv[3]
    seen = {arm: [] for arm in ARMS}
    while not seen["nothing"] or time.time() < end:
        for arm, settings in ARMS.items():
            ends = injected.round_ends(collector, f"{folder}/{arm}{len(seen[arm])}", "eager", END_S, settings)
            seen[arm].append(overhead_pct(ends))
    for arm, values in seen.items():
        print(f"{arm:<10} {statistics.median(values):+.1f}%  ({', '.join(f'{v:+.1f}' for v in values)})", flush=True)


if __name__ == "__main__":
    main()
