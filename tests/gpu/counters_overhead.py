"""Measures the overhead of counter sampling: runs the programs of overhead.py with the sampler paused and sampling, in short alternating
blocks within one process.

    counters_overhead.py INFERPROF_COUNTERS OUT.json [--intervals 100,20] [--seconds eager=30,graph=10,prefill=10]

The sampler process exists all the time and is paused or resumed. It is limited to half of the machine's cores; the program's thread is
pinned to one of the others. The program never stops for a switch: it runs until the sampler has answered and for WARM_S longer, so that
GPU temperature, clocks and power are the same in both kinds of blocks. A repeat is "paused" and "sampling" in one order and in reverse,
which cancels drift. Each block has two times, the median and the mean of its rounds; for these, and for the CPU time of the program's
thread, the ratio is computed per repeat. Printed are the median ratio and its 95% bootstrap interval.
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

ROUNDS = {"eager": 5, "graph": 20, "prefill": 5}  # per block: about 30 ms
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
            raise SystemExit(f"expected {word!r} from the sampler, got {line!r}")

    def switch_to(self, state, meanwhile):
        """Switches to "resting" or "sampling"; calls `meanwhile` until the sampler has answered."""
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


def run_round(program):
    program.run(1)
    torch.cuda.synchronize()


def block(program, rounds):
    times, cpu = [], time.thread_time()
    for _ in range(rounds):
        start = time.perf_counter()
        run_round(program)
        times.append(time.perf_counter() - start)
    return statistics.median(times), statistics.fmean(times), (time.thread_time() - cpu) / rounds


def timed_block(program, rounds, sampler, state):
    sampler.switch_to(state, lambda: run_round(program))
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        run_round(program)
    return block(program, rounds)


def measure(program, rounds, sampler, seconds):
    """Per repeat the means of its two blocks: {state: [figures...]}"""
    repeats, end = [], time.perf_counter() + seconds
    gc.disable()
    for order in overhead.orders(["resting", "sampling"]):
        seen = {}
        for state in order:
            seen.setdefault(state, []).append(timed_block(program, rounds, sampler, state))
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
    p.add_argument("--seconds", default="eager=30,graph=10,prefill=10", help="per interval")
    p.add_argument("--inferprof", help="inferprof program, to print the sampler's statistics")
    o = p.parse_args()
    cores, results = sorted(os.sched_getaffinity(0)), {}
    seconds = {name: float(s) for name, s in (word.split("=") for word in o.seconds.split(","))}
    programs = {name: workloads.PROGRAMS[name][0]() for name in seconds}
    for program in programs.values():
        program.run(5)
    torch.cuda.synchronize()
    print(f"| program | interval | ms per round, paused | {' | '.join(FIGURES)} | repeats |\n|---|---|---|---|---|---|---|")
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
