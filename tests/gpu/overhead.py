"""What collecting costs: short blocks of the same work under several arms, interleaved in one process.

    overhead.py range|torch OUT.json [--arms floor,collector] [--work eager,graph,prefill] [--seconds S] [--repeats N]
                                                   [--settle round|tenth] [--once]

range   the collector is injected with INFERPROF_COLLECT_RANGE='capture*' and INFERPROF_COLLECT_ARMS=1: an NVTX range "capture WORDS"
        switches on what the words of the arm say, and nothing is on outside of it
torch   torch.profiler, CPU and CUDA, in a process without the collector

Kernels that were recorded once make every later launch of the process dearer (CUPTI 13.0.1), also of "off". --once has them on before
anything is timed, for arms that do not switch them on themselves.

A repeat holds every arm and a block without anything ("off") twice, in an order and in its reverse, so that a drift of the machine
cancels. Switching, and a round of work after it, lie outside of what is timed; a tenth of a round seems to be too little: the
calls come out dearer. For every repeat an arm's time is divided by that of "off" (and of
the floor); told are the median of these ratios and their mean without the outer tenth, each with its 95% bootstrap interval: the median is
not moved by the machine's hiccups, the mean does not hide what an arm does only now and then. "cpu" is the same for the CPU time of
the program's thread, "process" for that of all threads, switching included: what is encoded and handed over elsewhere.
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

ROUNDS = {"eager": 2, "graph": 60, "reading": 60, "prefill": 12}  # a block: 12 ms; 80 ms, where the first rounds after a switch cost more than later ones
TORCH_ROUNDS = {"eager": 4, "graph": 25, "reading": 25, "prefill": 3}  # its profiler takes long to switch
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
    """Seconds a round: the clock, the thread's CPU time, and all threads' over the whole of it."""
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
    """An order and its reverse, for ever."""
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
    for arm in arms:  # threads of CUPTI's own come into being here, before the program's is tied to a core
        end = time.time() + 0.5
        while time.time() < end:
            block(program, 1, arm, switch, settle)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    gc.disable()
    blocks = {arm: [] for arm in ["off", *arms]}  # of a repeat: the mean of its two blocks
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
    """Percent of a over b, with its interval, by each of the three times."""
    result = {}
    for i, name in enumerate(("wall", "cpu", "process")):
        ratios = [x[i] / y[i] for x, y in zip(a, b)]
        result[name] = {"median": interval(ratios, statistics.median), "mean": interval(ratios, trimmed_mean)}
    return result


def told(figures):
    return "   ".join(f"{name} {m:+.2f} [{lo:+.2f}, {hi:+.2f}] mean {mean:+.2f} [{mlo:+.2f}, {mhi:+.2f}]"
                      for name, f in figures.items() for (m, lo, hi), (mean, mlo, mhi) in [(f["median"], f["mean"])])


def show(work, blocks, rounds):
    off_ms = [1e3 * statistics.median(x[i] for x in blocks["off"]) for i in range(3)]
    result = {"rounds": rounds, "repeats": len(blocks["off"]), "off_ms": off_ms, "arms": {},
              "blocks": {arm: [[round(1e6 * x, 1) for x in b] for b in bs] for arm, bs in blocks.items()}}
    print(f"{work}: a round takes {off_ms[0]:.3f} ms, {off_ms[1]:.3f} ms of CPU; {result['repeats']} repeats", flush=True)
    for arm in blocks:
        if arm == "off":
            continue
        r = result["arms"][arm] = {"over_off": compare(blocks[arm], blocks["off"])}
        print(f"  {arm:<10}           {told(r['over_off'])}", flush=True)
        if "floor" in blocks and arm != "floor":
            r["over_floor"] = compare(blocks[arm], blocks["floor"])
            print(f"  {arm:<10} over floor {told(r['over_floor'])}", flush=True)
    return result


def main():
    p = argparse.ArgumentParser()
    p.add_argument("how", choices=["range", "torch"])
    p.add_argument("out")
    p.add_argument("--arms", default="floor,collector")
    p.add_argument("--work", default="eager,graph,prefill")
    p.add_argument("--seconds", type=float, default=20, help="for each work")
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
