#!/usr/bin/env python3
"""step_sweep.py MAKE_RANKS INFERPROF [CLUSTERS [FIRST_SEED]]: simulates clusters whose clocks are skewed, drift and are stepped
at random moments (tests/programs/make_ranks.c), and compares what `merge` and `report` compute with what was simulated. Prints the
largest errors; ends with status 1 if a time of a rank, an offset of a clock or a step is wrong by more than 5 us, or if the report
does not name the clock."""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_NS = 5000


def settings(seed):
    r = random.Random(seed)
    nodes = r.choice([2, 2, 3, 4])
    height = r.choice([-1, 1]) * 10 ** r.uniform(1.4, 4.5)  # 25 us to 30 ms
    steps = r.randint(20, 40)
    return {"ranks": 2 * nodes, "per_node": 2, "steps": steps, "layers": 3, "kernels": 4, "seed": seed, "hide": r.choice([0, 0.3]),
            "noise": r.choice([0, 0.02, 0.1]), "jitter_ns": r.choice([200, 500]), "offset_ms": 10 ** r.uniform(0, 3),
            "drift_ppm": r.uniform(0, 100), "step_us": round(height, 3), "step_node": r.randrange(nodes),
            # a step of the program takes about 0.39 ms; the clock is set 5 of them or more from both ends
            "step_ms": round(r.uniform(5, steps - 5) * 0.39, 6)}


def check(make, inferprof, values, folder):
    """Returns the largest errors in ns, and the problems."""
    job = folder / "job"
    subprocess.run([make, folder / "traces", *(f"{k}={v}" for k, v in values.items())], check=True)
    subprocess.run([inferprof, "merge", "-q", folder / "traces", "-o", job], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    subprocess.run([inferprof, "report", "-q", job], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    truth = {t["rank"]: t for t in json.loads((folder / "traces/truth.json").read_text())}
    report = json.loads((job / "ranks.json").read_text())
    error = {"compute": 0, "exposed": 0, "wait": 0, "step": 0}
    bad = []
    for rank in report["ranks"]:
        for what in ("compute", "exposed", "wait"):
            wrong = abs(rank[what + "_ns"] - truth[rank["rank"]][what + "_ns"])
            if what == "wait":  # the error of the clocks is part of every collective
                wrong /= values["steps"]
            error[what] = max(error[what], wrong)
    stepped = {c["node"]: c["steps"] for c in report["clocks"] if c["steps"]}
    node = values["step_node"]
    if list(stepped) != [node] or len(stepped[node]) != 1:
        bad.append(f"stepped clocks: {stepped}, expected node {node}")
    else:
        error["step"] = abs(stepped[node][0]["step_ns"] - values["step_us"] * 1e3)
    bad += [f"{what} is wrong by {ns:.0f} ns" for what, ns in error.items() if ns > LIMIT_NS]
    return error, bad


def main():
    make, inferprof = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    largest, wrong = {}, 0
    for seed in range(first, first + count):
        values = settings(seed)
        with tempfile.TemporaryDirectory() as name:
            error, bad = check(make, inferprof, values, Path(name))
        for what, ns in error.items():
            largest[what] = max(largest.get(what, 0), ns)
        wrong += bool(bad)
        if bad:
            print(f"seed {seed}: {'; '.join(bad)}\n    {' '.join(f'{k}={v}' for k, v in values.items())}")
    print(f"{count} clusters, {wrong} wrong; largest errors: " + ", ".join(f"{k} {v / 1e3:.2f} us" for k, v in largest.items()))
    sys.exit(1 if wrong else 0)


main()
