"""real_trend.py ROOT: profiles the embedded model 24 times, the last 10 times with slower kernels, and asks the server for
the change points of decode. Takes about a minute on an idle machine. With TREND_RUNS=DIR the runs of that folder are used."""
import json
import os
import subprocess
import sys

from lib import PROGRAM, Server, check, finish

RUNS, SLOW_FROM = 24, 14
root = os.environ.get("TREND_RUNS") or sys.argv[1]
if not os.path.isdir(root):
    prompts = root + ".jsonl"
    with open(prompts, "w", encoding="utf-8") as f:
        f.write(json.dumps({"prompt": "What is a profiler?", "id": "question"}) + "\n")
    for i in range(RUNS):
        env = dict(os.environ, INFERPROF_ISA="portable") if i >= SLOW_FROM else None
        subprocess.run([PROGRAM, "profile", "-q", "output.dir=" + root, f"output.run_id=run-{i:02}", "device=cpu", "profiling=min", "dataset=prompts",
                        "dataset.prompts=" + prompts, "repeats=5", "processes=5", "infer.max_new_tokens=64"],
                       env=env, stdout=subprocess.DEVNULL, check=True, timeout=300)
s = Server(root)
series = s.get("/api/v1/series")[2]["series"]
while not series: # the server indexes the folder
    series = s.get("/api/v1/series")[2]["series"]
series = series[0]
d = s.get("/api/v1/trends", stage="decode", metric="time_per_token", **{k: series[k] or "" for k in ("model", "device", "engine")})[2]
for p in d["points"]:
    print(f"# {p['run']}: {p['value']:.3f} ms per token")
for c in d["change_points"]:
    print(f"# change at {c['first_after']}: {c['change']:+.1%}")
check("the slowdown of real runs is found where it began", [(c["first_after"], c["worse"]) for c in d["change_points"]] == [(f"run-{SLOW_FROM:02}", True)])
s.stop()
finish()
