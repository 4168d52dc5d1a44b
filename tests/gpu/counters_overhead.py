"""What sampling counters costs: the programs of overhead.py without it and with it, in turns of some ten milliseconds in one process.

    counters_overhead.py INFERPROF_COUNTERS OUT.json [--intervals 100,20] [--seconds eager=30,graph=10,prefill=10]

The sampler is there all the time and is told to rest or to sample. It keeps to half of the machine's cores, the program's thread to one
of the others. The program never stops for a switch: it runs on until the sampler has answered and for a moment longer, so that GPU
and core are as warm, and the power limit as near, in both kinds of blocks. A repeat is rest and sampling in an order and in its reverse; a
drift cancels. Of every block two figures are kept, the median of its rounds and their mean; of these, and of the CPU time of the
program's thread, the ratio is taken repeat by repeat. Told are the median of the ratios and its 95% bootstrap interval.
"""
import argparse
import gc
import json
import os
import select
import statistics
import subprocess
import tempfile
import time

import torch

import overhead
import workloads

ROUNDS = {"eager": 5, "graph": 20, "prefill": 5}  # a block: about 30 ms
WARM_S = 0.012
FIGURES = ("median round", "mean round", "CPU")


class Sampler:
    def __init__(self, program, interval_us, cores):
        self.path = tempfile.mktemp(suffix=".ipt")
        self.process = subprocess.Popen([program, self.path, str(1000 * interval_us), "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.expect(b"ready")
        self.state = "sampling"

    def expect(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            raise SystemExit(f"the sampler said {line!r} for {word!r}")

    def become(self, state, meanwhile):
        """resting or sampling; `meanwhile` is called until it is."""
        if state == self.state:
            return
        command, answer = (b"pause\n", b"paused") if state == "resting" else (b"resume\n", b"ready")
        self.process.stdin.write(command)
        self.process.stdin.flush()
        while not select.select([self.process.stdout], [], [], 0)[0]:
            meanwhile()
        self.expect(answer)
        self.state = state

    def close(self, inferprof):
        self.process.stdin.close()
        self.process.wait()
        if inferprof:
            meta = subprocess.run([inferprof, "trace", "dump", "--kind", "meta", self.path], capture_output=True, text=True).stdout
            print("  ", *(line for line in meta.split("\n") if "counters.0" in line), flush=True)
        os.unlink(self.path)


def one(program):
    program.run(1)
    torch.cuda.synchronize()


def block(program, rounds):
    times, cpu = [], time.thread_time()
    for _ in range(rounds):
        start = time.perf_counter()
        one(program)
        times.append(time.perf_counter() - start)
    return statistics.median(times), statistics.fmean(times), (time.thread_time() - cpu) / rounds


def turn(program, rounds, sampler, state):
    sampler.become(state, lambda: one(program))
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        one(program)
    return block(program, rounds)


def measure(program, rounds, sampler, seconds):
    """For every repeat the means of its two blocks: {state: [figures...]}"""
    repeats, end = [], time.perf_counter() + seconds
    gc.disable()
    for order in overhead.orders(["resting", "sampling"]):
        seen = {}
        for state in order:
            seen.setdefault(state, []).append(turn(program, rounds, sampler, state))
        repeats.append({state: [statistics.fmean(x) for x in zip(*two)] for state, two in seen.items()})
        if time.perf_counter() > end:
            break
    gc.enable()
    return repeats


def show(name, us, repeats):
    rest = 1e3 * statistics.median(r["resting"][0] for r in repeats)
    cells = []
    for i in range(len(FIGURES)):
        m, low, high = overhead.interval([r["sampling"][i] / r["resting"][i] for r in repeats], statistics.median)
        cells.append(f"{m:+.2f}% ({low:+.2f} to {high:+.2f})")
    print(f"| {name} | {us} us | {rest:.2f} | {' | '.join(cells)} | {len(repeats)} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("out")
    p.add_argument("--intervals", default="100,20")
    p.add_argument("--seconds", default="eager=30,graph=10,prefill=10", help="for each interval")
    p.add_argument("--inferprof", help="to say what the samplers did")
    o = p.parse_args()
    cores, results = sorted(os.sched_getaffinity(0)), {}
    seconds = {name: float(s) for name, s in (word.split("=") for word in o.seconds.split(","))}
    programs = {name: workloads.PROGRAMS[name][0]() for name in seconds}
    for program in programs.values():
        program.run(5)
    torch.cuda.synchronize()
    print(f"| program | every | ms a round, resting | {' | '.join(FIGURES)} | repeats |\n|---|---|---|---|---|---|---|")
    for us in [int(i) for i in o.intervals.split(",")]:
        sampler = Sampler(o.program, us, cores[:len(cores) // 2])
        os.sched_setaffinity(0, {cores[-1]})
        for name, program in programs.items():
            repeats = results[f"{name} {us}"] = measure(program, ROUNDS[name], sampler, seconds[name])
            show(name, us, repeats)
            with open(o.out, "w") as f:
                json.dump(results, f)
        os.sched_setaffinity(0, cores)
        sampler.close(o.inferprof)


if __name__ == "__main__":
    main()
