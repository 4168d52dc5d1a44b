"""What collecting costs: pairs of the same work without and with it, interleaved in one process.

    overhead.py range|torch NAME OUT.json [--pairs N] [--work eager,graph,prefill]

range  the collector is injected with INFERPROF_COLLECT_RANGE=capture*; an NVTX range of that name switches it on
torch  torch.profiler, CPU and CUDA, in a process without the collector
"""
import argparse
import json
import random
import statistics
import time

import torch

import workloads

ROUNDS = {"eager": 32, "graph": 200, "prefill": 24}


class Off:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Range(Off):
    def __enter__(self):
        start = time.perf_counter()
        torch.cuda.nvtx.range_push("capture")
        self.switch_s = time.perf_counter() - start

    def __exit__(self, *_):
        torch.cuda.nvtx.range_pop()


def torch_profiler():
    act = torch.profiler.ProfilerActivity
    return torch.profiler.profile(activities=[act.CPU, act.CUDA])


def bootstrap(ratios, n=2000):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(n))
    return medians[int(0.025 * n)], medians[int(0.975 * n)]


def measure(program, rounds, on, pairs):
    off_s, on_s = [], []
    for warm in range(2):
        with on() if warm else Off():
            workloads.timed(program, rounds)
    for i in range(pairs):
        for arm in ((0, 1), (1, 0))[i % 2]:
            with on() if arm else Off():
                (on_s if arm else off_s).append(workloads.timed(program, rounds))
    ratios = [b / a for a, b in zip(off_s, on_s)]
    low, high = bootstrap(ratios)
    return {"off_ms": statistics.median(off_s) * 1e3, "on_ms": statistics.median(on_s) * 1e3, "rounds": rounds,
            "pairs": pairs, "ratio": statistics.median(ratios), "low": low, "high": high,
            "off_all": off_s, "on_all": on_s}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("how", choices=["range", "torch"])
    p.add_argument("name")
    p.add_argument("out")
    p.add_argument("--pairs", type=int, default=20)
    p.add_argument("--work", default="eager,graph,prefill")
    p.add_argument("--scale", type=float, default=1, help="longer or shorter samples")
    o = p.parse_args()
    results = {}
    for work in o.work.split(","):
        program = workloads.PROGRAMS[work][0]()
        program.run(3)
        rounds = max(1, int(ROUNDS[work] * o.scale))
        r = measure(program, rounds, Range if o.how == "range" else torch_profiler, o.pairs)
        results[work] = r
        print(f"{o.name:<12} {work:<8} off {r['off_ms']:9.2f} ms  on {r['on_ms']:9.2f} ms  "
              f"{100 * (r['ratio'] - 1):+6.2f}%  [{100 * (r['low'] - 1):+.2f}, {100 * (r['high'] - 1):+.2f}]  "
              f"{r['pairs']} pairs", flush=True)
        del program
        torch.cuda.empty_cache()
    with open(o.out, "w") as f:
        json.dump({"name": o.name, "results": results}, f)


if __name__ == "__main__":
    main()
