"""hf_overhead.py MODEL_DIR OUT.json [--image PAGE] [--tokens N] [--seconds S] [--new N]: overhead of recording in the Hugging Face engine.

Two engines run at once: one without the collector, and one with it. Requests go to them in turn, so that slow periods of the machine
affect both. Ways to record, from none to the default preset:
    loaded      the collector is loaded, but records nothing
    stages      kernels, launches and stage ranges
    operators   also ranges of modules and of a sample of operators
    counters    also hardware counters, sampled by another process: the default preset
Reported: prefill and decode over those of the same round without the collector, median with its 95% bootstrap interval. The first
recorded request of a process is reported separately, because `profile` records only one.
Environment: COLLECTOR, COUNTERS (paths of the library and of inferprof-counters), HF_ENGINE (folder of worker.py), DEVICE (cuda:0),
KEEP_TRACE (path for the trace of the recorded engine).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from bootstrap import bootstrap  # noqa: E402

ARMS = {"loaded": "none", "stages": "stages", "operators": "operators", "counters": "operators"}


class Process:
    """A program that reads lines and answers each with a line."""

    def __init__(self, argv, **env):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"{self.process.args[0]} ended")
        return text

    def ask(self, **request):
        self.send(json.dumps(request))
        return self.answer()

    def answer(self):
        reply = json.loads(self.line())
        if "error" in reply:
            raise SystemExit(reply["error"])
        return reply


def times(reply):
    return {"prefill": reply["token_ms"][0], "decode": sum(reply["token_ms"][1:])}


def summary(values):
    value, low, high = bootstrap(values, statistics.median, 2000)
    return {"percent": value, "low": low, "high": high, "rounds": len(values)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--image")
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--new", type=int, default=64)
    p.add_argument("--seconds", type=float, default=25)
    p.add_argument("--arms", default=",".join(ARMS))
    a = p.parse_args()
    arms = a.arms.split(",")
    worker = os.path.join(os.environ.get("HF_ENGINE") or os.path.join(HERE, "..", "..", "engines", "hf"), "worker.py")
    collector, traces = os.environ["COLLECTOR"], tempfile.mkdtemp()
    plain = Process([sys.executable, worker])
    recorded = Process([sys.executable, worker], CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector,
                       INFERPROF_COLLECT_DIR=traces, INFERPROF_COLLECT_RANGE="inferprof request")
    load = {"op": "load", "model": a.model, "weights": "synthetic:0", "device": os.environ.get("DEVICE", "cuda:0")}
    for engine in (plain, recorded):
        engine.send(json.dumps(load))
    for engine in (plain, recorded):
        engine.answer()
    request = {"op": "infer", "max_new_tokens": a.new, "ignore_eos": True, "detail": "none"}
    request.update({"prompt": "<image>\nFree OCR.", "inputs": [a.image]} if a.image else {"prompt_ids": [5 + i % 100 for i in range(a.tokens)]})
    for engine in (plain, recorded):
        engine.ask(**request)
    counters = None
    if "counters" in arms:
        counters = Process([os.environ["COUNTERS"], os.path.join(traces, "counters.ipt"), "100000"])
        print("counters:", counters.line()[:60].strip(), flush=True)
        counters.send("pause")
        counters.line()

    def one(arm):
        if arm == "plain":
            return times(plain.ask(**request))
        if arm == "counters":
            counters.send("resume")
            counters.line()
        t = times(recorded.ask(**{**request, "detail": ARMS[arm]}))
        if arm == "counters":
            counters.send("pause")
            counters.line()
        return t

    first = {"plain": one("plain"), "recorded": one(arms[-1])}
    rounds, end = [], time.monotonic() + a.seconds
    while time.monotonic() < end or len(rounds) < 3:
        order = ["plain", *arms]
        turn = len(rounds) % len(order)
        rounds.append({arm: one(arm) for arm in order[turn:] + order[:turn]})
    result = {"model": os.path.basename(a.model), "rounds": rounds, "first": first, "overhead": {}}
    for stage in ("prefill", "decode"):
        ms = statistics.median(r["plain"][stage] for r in rounds)
        first_percent = 100 * (first["recorded"][stage] / ms - 1)
        print(f"{result['model']} {stage}: plain {ms:.2f} ms; first recorded request {first_percent:+.1f}%")
        for arm in arms:
            s = summary([100 * (r[arm][stage] / r["plain"][stage] - 1) for r in rounds])
            result["overhead"].setdefault(stage, {})[arm] = s
            print(f"  {arm:10} {s['percent']:+6.1f}% ({s['low']:+.1f} to {s['high']:+.1f}), {s['rounds']} rounds")
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(result, f)
    for engine in (plain, recorded):
        engine.ask(op="bye")
        engine.process.wait()
    if counters:
        counters.process.stdin.close()
        counters.process.wait()
    largest = max((os.path.join(traces, f) for f in os.listdir(traces) if "counters" not in f), key=os.path.getsize)
    print("trace:", largest, os.path.getsize(largest), "bytes")
    if os.environ.get("KEEP_TRACE"):
        os.replace(largest, os.environ["KEEP_TRACE"])


main()
