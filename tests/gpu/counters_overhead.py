"""What sampling counters costs: the programs of overhead.py without it and with it, in turns of some ten milliseconds in one process.

    counters_overhead.py INFERPROF_COUNTERS OUT.json [--intervals 100,20] [--seconds S] [--work eager,graph,prefill]

A sampler for each interval is there all the time and told to pause, which lets go of the counters; at most one of them samples.
The program's thread keeps to one core and the samplers to others. A turn is: switch, wait a moment, one round that is not
counted, then a block. Turns come in palindromes (off 100 20 20 100 off, the intervals in random order); a palindrome gives one
ratio for each interval, of its two blocks over its two blocks without: drift over a palindrome cancels. The figure is the
median of the ratios with its 95% bootstrap interval. Beside wall time: CPU time of the launching thread until all is launched.
"""
import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

import torch

import overhead
import workloads

BLOCK = {"eager": 3, "graph": 60, "prefill": 4}  # rounds: 20 to 50 ms each
SETTLE_S = 0.005


class Sampler:
    def __init__(self, program, interval_us, cores):
        self.interval_us = interval_us
        self.path = tempfile.mktemp(suffix=".ipt")
        self.process = subprocess.Popen([program, self.path, str(1000 * interval_us), "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.expect("ready")
        self.tell("pause", "paused")

    def expect(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            raise SystemExit(f"the sampler said {line!r} for {word!r}")

    def tell(self, what, answer):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self.expect(answer)

    def close(self, inferprof):
        self.process.stdin.close()
        self.process.wait()
        if inferprof:
            meta = subprocess.run([inferprof, "trace", "dump", "--kind", "meta", self.path], capture_output=True, text=True).stdout
            print(self.interval_us, "us:", *(line for line in meta.split("\n") if "counters.0" in line))
        os.unlink(self.path)


def block(program, rounds):
    program.run(1)
    torch.cuda.synchronize()
    wall, cpu = time.perf_counter(), time.thread_time()
    program.run(rounds)
    cpu = time.thread_time() - cpu
    torch.cuda.synchronize()
    return time.perf_counter() - wall, cpu


def turn(program, rounds, sampler):
    start = time.perf_counter()
    if sampler:
        sampler.tell("resume", "ready")
    time.sleep(SETTLE_S)
    switched = time.perf_counter() - start
    seen = block(program, rounds)
    if sampler:
        sampler.tell("pause", "paused")
    return (*seen, switched)


def measure(program, rounds, samplers, seconds):
    rng, rows, end = random.Random(3), [], time.perf_counter() + seconds
    gc.disable()
    while time.perf_counter() < end:
        order = list(samplers)
        rng.shuffle(order)
        order = [None, *order, *reversed(order), None]
        if len(rows) % 2:  # without is at the ends and in the middle equally often
            order = order[len(order) // 2:] + order[:len(order) // 2]
        seen = {}
        for s in order:
            seen.setdefault(s.interval_us if s else 0, []).append(turn(program, rounds, s))
        rows.append(seen)
    gc.enable()
    return rows


def ratios(rows, interval_us, what):
    return [sum(t[what] for t in r[interval_us]) / sum(t[what] for t in r[0]) for r in rows]


def show(name, rounds, rows, intervals):
    off = statistics.median(t[0] for r in rows for t in r[0])
    for us in intervals:
        cells = []
        for what in (0, 1):
            m, low, high = (100 * (v - 1) for v in overhead.interval(ratios(rows, us, what)))
            cells.append(f"{m:+.2f}% | {low:+.2f} to {high:+.2f}%")
        switched = 1e3 * statistics.median(t[2] for r in rows for t in r[us])
        print(f"| {name} | {1e3 * off / rounds:.2f} | {us} us | {' | '.join(cells)} | {len(rows)} |   (switched in {switched:.0f} ms)", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("out")
    p.add_argument("--intervals", default="100,20")
    p.add_argument("--seconds", type=float, default=30, help="for each program")
    p.add_argument("--work", default="eager,graph,prefill")
    p.add_argument("--inferprof", help="to say what the samplers did")
    o = p.parse_args()
    intervals, cores = [int(i) for i in o.intervals.split(",")], sorted(os.sched_getaffinity(0))
    samplers = [Sampler(o.program, us, cores[:len(cores) // 2]) for us in intervals]
    results = {}
    print("| program | ms a round without | sampled every | wall time | 95% | CPU time | 95% | palindromes |\n|---|---|---|---|---|---|---|---|")
    for name in o.work.split(","):
        program = workloads.PROGRAMS[name][0]()
        program.run(5)
        torch.cuda.synchronize()
        os.sched_setaffinity(0, {cores[-1]})
        results[name] = measure(program, BLOCK[name], samplers, o.seconds)
        os.sched_setaffinity(0, cores)
        show(name, BLOCK[name], results[name], intervals)
        with open(o.out, "w") as f:
            json.dump(results, f)
        del program
        torch.cuda.empty_cache()
    for s in samplers:
        s.close(o.inferprof)


if __name__ == "__main__":
    main()
