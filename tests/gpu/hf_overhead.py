"""hf_overhead.py OUT_DIR SECONDS [N*][=]MODEL_DIR[:PAGE]...: overhead of recording in the Hugging Face engine.

Engines run per model: one without the collector, and N (1) with it. Short requests go to them in turn, in a new random order per
round, so that slow periods of the machine affect all ways to record; each round uses the next engine with the collector. "=" before a
model: no engine without the collector, for models that fit only once; its requests without recording are the baseline.
Ways to record, from none to the default preset:
    loaded      the collector is loaded, but records nothing
    stages      kernels, launches and stage ranges
    operators   also ranges of modules and of a sample of operators
    counters    also hardware counters, sampled by another process: the default preset
A way with settings of the collector, such as counters+BUFFER=4194304+FLUSH_MS=0, uses an engine of its own.
Reported: prefill, decode and the mean of the later decode steps (the first one records more) over those of the same round without the
collector: median of the ratios with its 95% bootstrap interval. The ratio of the lower quartiles is printed as well: the machine's slow
periods are in neither of them. `profile` records only the first request after the warm-up, so the first three recorded requests of each
process are reported too, each over the mean of the unrecorded requests of that process before and after it. SECONDS are per model, after
the warm-up; all engines load at once. Each model gets half of its seconds. The others go, round by round, to the model whose interval of the
last way to record is the widest, whatever its value. Environment: COLLECTOR, COUNTERS (paths of the library and of inferprof-counters),
HF_ENGINE (folder of worker.py), DEVICE (cuda:0), NEW (8 tokens), ARMS, WAIT_FOR (a file: the measurement starts when it exists).
"""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from bootstrap import bootstrap  # noqa: E402

DETAIL = {"loaded": "none", "stages": "stages", "operators": "operators", "counters": "operators"}
ARMS = (os.environ.get("ARMS") or ",".join(DETAIL)).split(",")
STAGES = ("prefill", "decode", "step")
ENOUGH = 6  # rounds before an interval says something
FIRST = 3  # recorded requests of a new process that are reported one by one
WORKER = os.path.join(os.environ.get("HF_ENGINE") or os.path.join(HERE, "..", "..", "engines", "hf"), "worker.py")


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

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Counters:
    """The sampler, paused between requests."""

    def __init__(self, folder):
        self.process = Process([os.environ["COUNTERS"], os.path.join(folder, "counters.ipt"), "100000"])
        print("counters:", self.process.line()[:40].strip(), flush=True)
        self.switch("pause")

    def switch(self, how):
        self.process.send(how)
        self.process.line()


class Case:
    """One model with its engines."""

    def __init__(self, text, traces):
        count, _, rest = text.rpartition("*")
        self.single = rest.startswith("=")
        folder, _, page = rest.lstrip("=").partition(":")
        self.name = os.path.basename(folder)
        self.request = {"op": "infer", "max_new_tokens": int(os.environ.get("NEW") or 8), "ignore_eos": True, "detail": "none"}
        self.request.update({"prompt": "<image>\nFree OCR.", "inputs": [page]} if page else {"prompt_ids": [5 + i % 100 for i in range(500)]})
        self.recorded = [self.start_recorded(traces) for _ in range(int(count or 1))]
        self.plain = self.recorded[0] if self.single else Process([sys.executable, WORKER])
        self.arms = [a for a in ARMS if not (self.single and ("+" in a or a == "loaded"))]
        self.changed = {a: self.start_recorded(traces, *a.split("+")[1:]) for a in self.arms if "+" in a}
        self.engines = [*([] if self.single else [self.plain]), *self.recorded, *self.changed.values()]
        self.judged = [a for a in self.arms if a in DETAIL][-1]
        self.first, self.rounds, self.rng = [], [], random.Random(0)
        load = {"op": "load", "model": folder, "weights": "synthetic:0", "device": os.environ.get("DEVICE", "cuda:0")}
        for e in self.engines:
            e.send(json.dumps(load))

    @staticmethod
    def start_recorded(traces, *settings):
        collector = os.environ["COLLECTOR"]
        changes = {"INFERPROF_COLLECT_" + name: value for name, _, value in (s.partition("=") for s in settings)}
        return Process([sys.executable, WORKER], CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector,
                       INFERPROF_COLLECT_DIR=traces, INFERPROF_COLLECT_RANGE="inferprof request",
                       INFERPROF_COLLECT_WARMUP_RANGE="inferprof warm-up", **changes)

    def one(self, engine, arm, counters):
        way = arm.split("+")[0]
        if way == "counters":
            counters.switch("resume")
        reply = engine.ask(**{**self.request, "detail": DETAIL.get(way, "none")})
        if way == "counters":
            counters.switch("pause")
        ms = reply["token_ms"]
        return {"prefill": ms[0], "decode": sum(ms[1:]), "step": statistics.mean(ms[2:]), "token_ms": [round(t, 3) for t in ms]}

    def warm_up(self, engine):
        engine.ask(**{**self.request, "op": "warmup", "rounds": 1})

    def first_requests(self, engine, counters):
        """Recorded requests of a new process, each over the unrecorded ones around it: [{stage: ratio}]."""
        self.warm_up(engine)
        times = [self.one(engine, self.judged if i % 2 else "loaded", counters) for i in range(2 * FIRST + 1)]
        return [{stage: 2 * now[stage] / (before[stage] + after[stage]) for stage in STAGES}
                for before, now, after in zip(times[:-2:2], times[1::2], times[2::2])]

    def prepare(self, counters):
        for engine in [*([] if self.single else [self.plain]), *self.changed.values()]:
            self.warm_up(engine)
        self.first = [self.first_requests(engine, counters) for engine in self.recorded]

    def measure_round(self, counters):
        order = ["plain", *self.arms]
        self.rng.shuffle(order)
        recorded = self.recorded[len(self.rounds) % len(self.recorded)]
        engines = {"plain": recorded if self.single else self.plain, **self.changed}
        self.rounds.append({arm: self.one(engines.get(arm, recorded), arm, counters) for arm in order})

    def percents(self, base, arm, stage):
        return [100 * (r[arm][stage] / r[base][stage] - 1) for r in self.rounds]

    def width(self):
        """Of the widest interval that the goal is about."""
        pairs = [p for p in self.pairs() if p[1] == self.judged]
        if len(self.rounds) < ENOUGH:
            return float("inf")
        ends = [bootstrap(self.percents(*pair, stage), statistics.median, 200)[1:] for pair in pairs for stage in ("prefill", "decode")]
        return max(high - low for low, high in ends)

    def pairs(self):
        """Each way to record over none; and over "loaded", the same process without recording, because processes differ too."""
        return [("plain", a) for a in self.arms] + [("loaded", a) for a in self.arms if "loaded" in self.arms and a != "loaded"]

    def quartile(self, arm, stage):
        return statistics.quantiles((r[arm][stage] for r in self.rounds), n=4)[0] if len(self.rounds) > 1 else self.rounds[0][arm][stage]

    def print_results(self):
        overhead = {}
        for stage in STAGES:
            ms = statistics.median(r["plain"][stage] for r in self.rounds)
            spread = [round(r["plain"][stage], 1) for r in self.rounds]
            print(f"{self.name} {stage}: plain {ms:.2f} ms, of {min(spread)} to {max(spread)}")
            for engine in self.first:
                print("  first recorded requests of a process: " + ", ".join(f"{100 * (r[stage] - 1):+.1f}%" for r in engine))
            for base, arm in self.pairs():
                value, low, high = bootstrap(self.percents(base, arm, stage), statistics.median, 2000)
                quartiles = 100 * (self.quartile(arm, stage) / self.quartile(base, stage) - 1)
                name = arm if base == "plain" else f"{arm} over {base}"
                overhead.setdefault(stage, {})[name] = {"percent": value, "low": low, "high": high, "quartiles": quartiles,
                                                        "rounds": len(self.rounds)}
                print(f"  {name:21} {value:+6.1f}% ({low:+.1f} to {high:+.1f}), {len(self.rounds)} rounds; quartiles {quartiles:+.1f}%",
                      flush=True)
        return {"model": self.name, "rounds": self.rounds, "first": self.first, "overhead": overhead}


def measure(cases, seconds, counters):
    for case in cases:
        case.prepare(counters)
        end = time.monotonic() + seconds / 2
        while not case.rounds or time.monotonic() < end:
            case.measure_round(counters)
    end = time.monotonic() + seconds / 2 * len(cases)
    while time.monotonic() < end:
        max(cases, key=Case.width).measure_round(counters)


def main():
    out, seconds, began = sys.argv[1], float(sys.argv[2]), time.monotonic()
    traces = tempfile.mkdtemp()
    cases = [Case(text, traces) for text in sys.argv[3:]]
    for case in cases:
        for e in case.engines:
            e.answer()
        print(f"{case.name}: loaded after {time.monotonic() - began:.0f} s", flush=True)
    while os.environ.get("WAIT_FOR") and not os.path.exists(os.environ["WAIT_FOR"]):
        time.sleep(0.1)
    counters = Counters(traces) if "counters" in ARMS else None  # not earlier: it keeps other tools from the GPU's counters
    try:
        measure(cases, seconds, counters)
    finally:  # an engine that fails must not cost the rounds before it
        for case in (c for c in cases if c.rounds):
            with open(os.path.join(out, f"over-{case.name}.json"), "w", encoding="utf-8") as f:
                json.dump(case.print_results(), f)
    for process in [e for case in cases for e in case.engines] + ([counters.process] if counters else []):
        process.end()


main()
