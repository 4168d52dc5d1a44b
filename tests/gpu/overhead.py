"""What collecting costs: blocks of the same work under several arms, in random order, interleaved in one process.

    overhead.py range|budget|torch OUT.json [--arms floor,collector] [--repeats N] [--work eager,graph,prefill]

range   the collector is injected with INFERPROF_COLLECT_RANGE='capture*' and INFERPROF_COLLECT_ARMS=1: an NVTX range "capture WORDS"
        switches on what the words of the arm say, and nothing is on outside of it
budget  likewise with INFERPROF_COLLECT_BUDGET and without the arms; blocks are long enough for several windows
torch   torch.profiler, CPU and CUDA, in a process without the collector

Every repeat holds a block of each arm and two without anything; the figure is the median over the repeats of a block's time over
the mean of the two, with its 95% bootstrap interval.
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

ROUNDS = {"eager": 8, "graph": 50, "prefill": 6}
BUDGET_ROUNDS = 60  # of eager: half a second, in which a budget of 2% opens two or three windows
ALL = "kernels,copies,launches,syncs"
ARMS = {"floor": "kernels,empty", "collector": ALL, "kernels": "kernels,copies",
        "graphs": ALL + ",whole-graphs", "gemms": ALL + ",gemms", "budget": ALL}


@contextlib.contextmanager
def capture(arm):
    torch.cuda.nvtx.range_push(f"capture {ARMS[arm]}")
    yield
    torch.cuda.nvtx.range_pop()


def torch_profiler(_):
    act = torch.profiler.ProfilerActivity
    return torch.profiler.profile(activities=[act.CPU, act.CUDA])


def block(program, rounds, arm, switch):
    with switch(arm) if arm != "off" else contextlib.nullcontext():
        program.run(1)
        return workloads.timed(program, rounds)


def interval(values, n=2000):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(n))
    return statistics.median(values), medians[int(0.025 * n)], medians[int(0.975 * n)]


def measure(program, rounds, arms, switch, repeats):
    rng = random.Random(2)
    for arm in arms:  # threads of CUPTI's own come into being here, before the program's is tied to a core
        end = time.time() + 0.5
        while time.time() < end:
            block(program, 1, arm, switch)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    gc.disable()
    times = {arm: [] for arm in ["off", *arms]}
    for _ in range(repeats):
        order = ["off", "off", *arms]
        rng.shuffle(order)
        seen = {}
        for arm in order:
            seen.setdefault(arm, []).append(block(program, rounds, arm, switch))
        for arm, t in seen.items():
            times[arm].append(statistics.mean(t))
    gc.enable()
    os.sched_setaffinity(0, cores)
    return times


def points(a, b):
    m, low, high = interval([x / y for x, y in zip(a, b)])
    return {"percent": 100 * (m - 1), "low": 100 * (low - 1), "high": 100 * (high - 1)}


def show(work, times, rounds):
    result = {"rounds": rounds, "repeats": len(times["off"]), "off_ms": 1e3 * statistics.median(times["off"]), "times": times, "arms": {}}
    for arm in times:
        if arm == "off":
            continue
        r = result["arms"][arm] = points(times[arm], times["off"])
        text = f"{work:<8} {arm:<10} {r['percent']:+6.2f}%  [{r['low']:+.2f}, {r['high']:+.2f}]"
        if "floor" in times and arm != "floor":
            f = r["over_floor"] = points(times[arm], times["floor"])
            text += f"   over the floor {f['percent']:+6.2f}  [{f['low']:+.2f}, {f['high']:+.2f}]"
        print(f"{text}   off {result['off_ms']:.2f} ms, {result['repeats']} repeats", flush=True)
    return result


def main():
    p = argparse.ArgumentParser()
    p.add_argument("how", choices=["range", "budget", "torch"])
    p.add_argument("out")
    p.add_argument("--arms", default="floor,collector")
    p.add_argument("--repeats", type=int, default=40)
    p.add_argument("--work", default="eager,graph,prefill")
    o = p.parse_args()
    arms = o.arms.split(",") if o.how == "range" else [o.how]
    results = {}
    for work in o.work.split(","):
        program = workloads.PROGRAMS[work][0]()
        program.run(3)
        rounds = BUDGET_ROUNDS if o.how == "budget" else ROUNDS[work]
        times = measure(program, rounds, arms, torch_profiler if o.how == "torch" else capture, o.repeats)
        results[work] = show(work, times, rounds)
        del program
        torch.cuda.empty_cache()
    with open(o.out, "w") as f:
        json.dump(results, f)


if __name__ == "__main__":
    main()
