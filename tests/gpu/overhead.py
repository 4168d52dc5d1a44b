"""Measures the collector's overhead: short blocks of the same work under several arms (kinds of collection), interleaved in one process.

    overhead.py range|torch OUT.json [--arms floor,collector] [--work eager,graph,prefill] [--seconds S] [--repeats N]
                                                   [--settle round|tenth] [--once]

range   the collector is injected with INFERPROF_COLLECT_RANGE='capture*' and INFERPROF_COLLECT_ARMS=1: an NVTX range "capture WORDS"
        enables what the words of the arm list; outside of such ranges everything is off
torch   torch.profiler, CPU and CUDA, in a process without the collector

Once kernels have been recorded, CUPTI 13.0.1 slows down every later launch of the process, also those of "off". --once records some
kernels before anything is timed, for arms that do not record kernels themselves.

A repeat holds every arm and a block with nothing enabled ("off") twice, in an order and in its reverse, so that drift of the machine
cancels. Switching, and a round of work after it, are not timed (a tenth of a round seems to be too little: calls then appear slower).
Per repeat, an arm's time is divided by that of "off" and by that of the floor. Printed are the median of these ratios and their mean
without the outer tenth, each with its 95% bootstrap interval: the median is robust against stalls of the machine, the mean includes
what an arm does only now and then. "cpu" is the same for the CPU time of the program's thread, "process" for that of all threads,
switching included, which covers encoding and writing on other threads.
"""
import argparse
import contextlib
import gc
import json
import os
import random
import statistics
import time

import torch

import workloads
from bootstrap import bootstrap

ROUNDS = {"eager": 2, "graph": 60, "reading": 60, "prefill": 12}  # per block: 12 ms; 80 ms where the first rounds after a switch are slower than later ones
TORCH_ROUNDS = {"eager": 4, "graph": 25, "reading": 25, "prefill": 3}  # torch.profiler takes long to start and stop
ALL = "kernels,copies,launches,syncs"
ARMS = {"floor": "kernels,empty", "collector": ALL, "kernels": "kernels,copies",
        "watched": ALL + ",passing", "between": "launches,syncs,passing",
        "graphs": ALL + ",whole-graphs", "gemms": ALL + ",gemms"}


@contextlib.contextmanager
def capture(arm):
    torch.cuda.nvtx.range_push(f"capture {ARMS[arm]}")
    yield
    torch.cuda.nvtx.range_pop()


def torch_profiler(_):
    act = torch.profiler.ProfilerActivity
    return torch.profiler.profile(activities=[act.CPU, act.CUDA])


def block(program, rounds, arm, switch, settle):
    """Seconds per round: wall time, CPU time of the thread, and CPU time of all threads over the whole block."""
    process = time.process_time()
    with switch(arm) if arm != "off" else contextlib.nullcontext():
        settle(program)
        torch.cuda.synchronize()
        cpu, start = time.thread_time(), time.perf_counter()
        program.run(rounds)
        torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - start, time.thread_time() - cpu
    return wall / rounds, cpu / rounds, (time.process_time() - process) / rounds


SETTLE = {"round": lambda program: program.run(1), "tenth": lambda program: program.settle()}


def orders(arms, seed=2):
    """Yields random orders, each followed by its reverse."""
    rng = random.Random(seed)
    while True:
        order = list(arms)
        rng.shuffle(order)
        yield order + order[::-1]


def record_kernels_once(program):
    with capture("floor"):
        program.run(3)
        torch.cuda.synchronize()


def measure(program, rounds, arms, switch, settle, seconds, repeats):
    for arm in arms:  # CUPTI creates its threads here, before the program's thread is pinned to a core
        end = time.time() + 0.5
        while time.time() < end:
            block(program, 1, arm, switch, settle)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    gc.disable()
    blocks = {arm: [] for arm in ["off", *arms]}  # per repeat: the mean of its two blocks
    end = time.time() + seconds
    for order in orders(blocks):
        seen = {}
        for arm in order:
            seen.setdefault(arm, []).append(block(program, rounds, arm, switch, settle))
        for arm, two in seen.items():
            blocks[arm].append([statistics.mean(x) for x in zip(*two)])
        if time.time() > end and len(blocks["off"]) >= repeats:
            break
    gc.enable()
    os.sched_setaffinity(0, cores)
    return blocks


def trimmed_mean(values):
    cut = len(values) // 20
    return statistics.fmean(sorted(values)[cut:len(values) - cut])


def interval(values, figure, n=500):
    return [100 * (x - 1) for x in bootstrap(values, figure, n, seed=1)]


def compare(a, b):
    """By how many percent a exceeds b, with its interval, for each of the three times."""
    result = {}
    for i, name in enumerate(("wall", "cpu", "process")):
        ratios = [x[i] / y[i] for x, y in zip(a, b)]
        result[name] = {"median": interval(ratios, statistics.median), "mean": interval(ratios, trimmed_mean)}
    return result


def format_figures(figures):
    return "   ".join(f"{name} {m:+.2f} [{lo:+.2f}, {hi:+.2f}] mean {mean:+.2f} [{mlo:+.2f}, {mhi:+.2f}]"
                      for name, f in figures.items() for (m, lo, hi), (mean, mlo, mhi) in [(f["median"], f["mean"])])


def show(work, blocks, rounds):
    off_ms = [1e3 * statistics.median(x[i] for x in blocks["off"]) for i in range(3)]
    result = {"rounds": rounds, "repeats": len(blocks["off"]), "off_ms": off_ms, "arms": {},
              "blocks": {arm: [[round(1e6 * x, 1) for x in b] for b in bs] for arm, bs in blocks.items()}}
    print(f"{work}: {off_ms[0]:.3f} ms per round, {off_ms[1]:.3f} ms of CPU; {result['repeats']} repeats", flush=True)
    for arm in blocks:
        if arm == "off":
            continue
        r = result["arms"][arm] = {"over_off": compare(blocks[arm], blocks["off"])}
        print(f"  {arm:<10}           {format_figures(r['over_off'])}", flush=True)
        if "floor" in blocks and arm != "floor":
            r["over_floor"] = compare(blocks[arm], blocks["floor"])
            print(f"  {arm:<10} over floor {format_figures(r['over_floor'])}", flush=True)
    return result


def main():
    p = argparse.ArgumentParser()
    p.add_argument("how", choices=["range", "torch"])
    p.add_argument("out")
    p.add_argument("--arms", default="floor,collector")
    p.add_argument("--work", default="eager,graph,prefill")
    p.add_argument("--seconds", type=float, default=20, help="per work")
    p.add_argument("--repeats", type=int, default=20, help="at least")
    p.add_argument("--settle", choices=SETTLE, default="round")
    p.add_argument("--once", action="store_true")
    o = p.parse_args()
    arms = o.arms.split(",") if o.how == "range" else [o.how]
    rounds = {"range": ROUNDS, "torch": TORCH_ROUNDS}[o.how]
    results = {}
    for work in o.work.split(","):
        program = workloads.PROGRAMS[work][0]()
        program.run(3)
        if o.once:
            record_kernels_once(program)
        blocks = measure(program, rounds[work], arms, torch_profiler if o.how == "torch" else capture,
                         SETTLE[o.settle], o.seconds, o.repeats)
        results[work] = show(work, blocks, rounds[work])
        with open(o.out, "w") as f:
            json.dump(results, f)
        del program
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
