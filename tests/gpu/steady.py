"""What recording without a pause costs a process in which nothing was ever on before, the eager decode of workloads.py.

    steady.py SECONDS COLLECTOR FOLDER

Processes one after the other, in turns with the collector, with the floor and with nothing. Each runs for some seconds beside a collector that
is not on yet (--delay), then with it. A machine with neighbours changes its speed within seconds: of the rounds before and after the
lower quartiles are compared, which the slow seconds do not reach.
"""
import statistics
import sys
import time

import injected

DELAY_S, END_S = 4, 14  # after the first use of CUDA, and after the start of the process
ARMS = {"collector": {"DELAY": DELAY_S}, "floor": {"DELAY": DELAY_S, "WHAT": "kernels,empty"}, "nothing": {"DELAY": 1000}}


def added(ends):
    """Percent; a second around the switch, which lies between 2.6 and 4.2 s, is left out."""
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
            seen[arm].append(added(ends))
    for arm, values in seen.items():
        print(f"{arm:<10} {statistics.median(values):+.1f}%  ({', '.join(f'{v:+.1f}' for v in values)})", flush=True)


if __name__ == "__main__":
    main()
