"""What sampling counters costs: the programs of overhead.py without it and with it, in turns of some ten milliseconds in one process.

    counters_overhead.py INFERPROF_COUNTERS OUT.json [--intervals 100,20] [--work eager,graph,prefill] [--seconds S] [--held S]

The sampler is there all the time and is told to rest ("off") or to sample; it keeps to half of the machine's cores and the program's thread
to one of the others. Blocks, their order and the figures are those of overhead.py: a repeat is off and sampled in an order and in its
reverse, the ratio of their times is taken repeat by repeat. Around every switch the program runs for a moment, so that both kinds of
blocks find the core as warm. --held: also what a sampler costs that holds the counters and rests, against none at all; it must be
started for every block, which takes most of a second.
"""
import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time

import torch

import overhead
import workloads

ROUNDS = {"eager": 5, "graph": 30, "prefill": 5}  # a block: about 30 ms
WARM_S = 0.012


class Sampler:
    def __init__(self, program, interval_us, cores):
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

    def close(self, inferprof=None):
        self.process.stdin.close()
        self.process.wait()
        if inferprof:
            meta = subprocess.run([inferprof, "trace", "dump", "--kind", "meta", self.path], capture_output=True, text=True).stdout
            print("  ", *(line for line in meta.split("\n") if "counters.0" in line))
        os.unlink(self.path)


def warm(program):
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        program.run(1)
        torch.cuda.synchronize()


def switching(program, on, off):
    @contextlib.contextmanager
    def switch(_):
        state = on()
        warm(program)
        yield
        off(state)
        warm(program)
    return switch


def measure(name, program, arm, switch, seconds):
    blocks = overhead.measure(program, ROUNDS[name], [arm], switch, seconds, 2)
    return overhead.show(name, blocks, ROUNDS[name])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("out")
    p.add_argument("--intervals", default="100,20")
    p.add_argument("--work", default="eager,graph,prefill")
    p.add_argument("--seconds", type=float, default=30, help="for each program and interval")
    p.add_argument("--held", type=float, default=0, help="seconds for each program")
    p.add_argument("--inferprof", help="to say what the samplers did")
    o = p.parse_args()
    cores, results = sorted(os.sched_getaffinity(0)), {}
    some = cores[:len(cores) // 2]
    programs = {name: workloads.PROGRAMS[name][0]() for name in o.work.split(",")}
    for program in programs.values():
        program.run(5)
    for us in [int(i) for i in o.intervals.split(",")]:
        sampler = Sampler(o.program, us, some)
        for name, program in programs.items():
            switch = switching(program, lambda: sampler.tell("resume", "ready"), lambda _: sampler.tell("pause", "paused"))
            results[f"{name} {us}"] = measure(name, program, f"{us} us", switch, o.seconds)
            with open(o.out, "w") as f:
                json.dump(results, f)
        sampler.close(o.inferprof)
    for name, program in programs.items() if o.held else ():
        switch = switching(program, lambda: Sampler(o.program, 100, some), lambda s: s.close())
        results[f"{name} held"] = measure(name, program, "held", switch, o.held)
        with open(o.out, "w") as f:
            json.dump(results, f)


if __name__ == "__main__":
    main()
