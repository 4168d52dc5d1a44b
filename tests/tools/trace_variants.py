#!/usr/bin/env python3
"""trace_variants.py INFERPROF TRACE.json.gz VARIANT FOLDER: imports a torch.profiler trace and a variant of it, and compares
the figures. Exit status 1 names those that differ. Variants:

later         a second later
renumbered    other correlation and external ids
threads       other thread numbers
two_gpus      another thread does the same at the same time on another GPU: the same stage times
two_processes like two_gpus, in another process
twice         all of it happens a second time afterwards: the same stage times, twice as many steps"""
import copy
import gzip
import json
import os
import subprocess
import sys

HOST = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function"}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
ALL, STEP = "all", "step"  # what must be equal: all figures, or the figures of a step


def moved(events, us=0, ids=0, threads=0, processes=0, devices=0):
    out = copy.deepcopy(events)
    for e in out:
        args = e.get("args") or {}
        if e.get("ph") != "M" and isinstance(e.get("ts"), (int, float)):
            e["ts"] += us
        for key in ("correlation", "External id"):
            if isinstance(args.get(key), int) and args[key] > 0:
                args[key] += ids
        if e.get("ph") in ("s", "f") and isinstance(e.get("id"), int) and e["id"] > 0:
            e["id"] += ids
        if e.get("cat") in HOST and isinstance(e.get("tid"), int):
            e["tid"] += threads
            e["pid"] += processes
        if e.get("cat") in DEVICE and isinstance(args.get("device"), int):
            args["device"] += devices
            e["pid"] += devices
    return out


def length_us(events):
    timed = [e for e in events if e.get("ph") == "X"]
    return max(e["ts"] + e.get("dur", 0) for e in timed) - min(e["ts"] for e in timed)


VARIANTS = {
    "later": (ALL, lambda e: moved(e, us=1000000)),
    "renumbered": (ALL, lambda e: moved(e, ids=1000000007)),
    "threads": (ALL, lambda e: moved(e, threads=5000)),
    "two_gpus": (STEP, lambda e: e + moved(e, ids=1000000007, threads=5000, devices=1)),
    "two_processes": (STEP, lambda e: e + moved(e, ids=1000000007, processes=100000, devices=1)),
    "twice": (STEP, lambda e: e + moved(e, us=1.02 * length_us(e), ids=1000000007)),
}


def import_trace(program, trace, folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "trace.json"), "w", encoding="utf-8") as f:
        json.dump(trace, f)
    subprocess.run([os.path.abspath(program), "import", "-q", "-o", "run", "trace.json"], cwd=folder, check=True)
    with open(os.path.join(folder, "run", "metrics.json"), encoding="utf-8") as f:
        return json.load(f)


def figures(value, path=""):
    if isinstance(value, dict):
        for key, v in value.items():
            if key != "started_unix_ns":
                yield from figures(v, f"{path}.{key}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from figures(v, f"{path}[{i}]")
    else:
        yield path, value


def steps(metrics):
    return {s["name"]: {"time_ms": s["time_ms"], "gpu_busy_share": s["gpu_busy_share"], "flops": s["flops"],
                        "tokens_per_s": s["tokens_per_s"], "kernels": s["trace"]["kernels"] / s["trace"]["occurrences"]}
            for s in metrics["stages"] if not s["outside"]}


def same(a, b):
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b))
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b)) if numbers else a == b


def main():
    program, path, variant, folder = sys.argv[1:]
    with gzip.open(path, "rt", encoding="utf-8") as f:
        trace = json.load(f)
    what, change = VARIANTS[variant]
    changed = dict(trace, traceEvents=change(trace["traceEvents"]))
    one, other = (import_trace(program, t, os.path.join(folder, n)) for t, n in ((trace, "one"), (changed, "other")))
    a, b = (dict(figures(m if what == ALL else steps(m))) for m in (one, other))
    wrong = [f"{key}: {a.get(key)}, {variant}: {b.get(key)}" for key in {**a, **b} if not same(a.get(key), b.get(key))]
    if not a:
        wrong.append("no figures")
    if what == STEP and other["stages"][0]["trace"]["occurrences"] != 2 * one["stages"][0]["trace"]["occurrences"]:
        wrong.append("not twice as many steps")
    for line in wrong[:20]:
        print(line)
    sys.exit(1 if wrong else 0)


main()
