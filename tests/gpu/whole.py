"""Whole processes with and without the collector, one after the other in the order off, on, on, off, for so many seconds.

    whole.py SECONDS COLLECTOR FOLDER

Each runs the eager decode of workloads.py. Tells the medians of the measured part, of the process from start to end and of
its CPU time (in seconds), and the median of the pairs' ratios.
"""
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 60


def run(collector, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ)
    if collector:
        env.update(CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector, INFERPROF_COLLECT_DIR=folder)
    start = time.time()
    done = subprocess.run([sys.executable, here + "/workloads.py", "eager", "--rounds", str(ROUNDS)], env=env, capture_output=True, text=True)
    took, doc = time.time() - start, json.loads(done.stdout)
    return doc["seconds"], took, doc["cpu"]


def main():
    end, collector, folder = time.time() + float(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    off, on = [], []
    while not on or time.time() < end:
        for arm in (False, True) if len(on) % 2 == 0 else (True, False):
            (on if arm else off).append(run(collector if arm else None, folder))
        print("pair", len(on), "off", *(f"{x:.3f}" for x in off[-1]), "on", *(f"{x:.3f}" for x in on[-1]), flush=True)
    for i, what in enumerate(("measured", "process", "CPU time")):
        ratio = statistics.median(b[i] / a[i] for a, b in zip(off, on))
        a, b = (statistics.median(x[i] for x in arm) for arm in (off, on))
        print(f"{what:<10} off {a:.3f} s  on {b:.3f} s  ratio of a pair {100 * (ratio - 1):+.2f}%  ({len(on)} pairs)")


if __name__ == "__main__":
    main()
