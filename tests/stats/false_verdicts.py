#!/usr/bin/env python3
"""How often is `inferprof compare` wrong about equal sides, and how often does it see a known slowdown?

    false_verdicts.py INFERPROF                 simulated processes, fixed seeds (seconds; part of `make test`)
    false_verdicts.py INFERPROF --power         slowdowns seen by noise between processes and by drift, simulated (minutes)
    false_verdicts.py INFERPROF --real N        N trials with real processes of the embedded model (`make test-long`)
    false_verdicts.py INFERPROF --files FILE... metrics.json files of single processes, in the order in which they ran

A verdict counts as false if any row of the table says faster, slower, better or worse although both sides are the
same binary.
A trial of --real starts 10 processes with one thread each on its own core, one after the other, in the order ABBAABBAAB.
N trials compare equal sides. --slowed M (default: N / 4) more trials run before them. In these, side B is slowed: the
engine waits after every pass until it has taken 5% longer (INFERPROF_TEST_SLOWDOWN=1.05). No process is in two trials.
--jobs J runs J trials of equal sides at once on disjoint cores. A quarter of J slowed trials run at once, on cores that are
far apart, because the promise about them is for an idle machine: neighbouring cores of a virtual machine often share the
units of one core. --seconds ends early, with the trials that are complete. --save FILE keeps the times of all processes.
--repeats R: timed repeats per process (default 21); shorter processes are closer to each other in time. The results are
printed twice: as `compare` judges them, with blocks of neighbouring runs, and without the start times of the runs.
The slowdown of simulated processes and of --files is made by multiplying every time of side B (rates: dividing) by
1.05. --files assigns the processes to the sides in three ways: interleaved (ABAB...), in blocks (AAAAABBBBB, as two
calls of `profile processes=5` do), and drawn at random from all.
The last lines print each rate with its limit; the exit status is 1 if a limit is broken.
"""
import argparse
import json
import math
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CLAIMS = {"faster", "slower", "better", "worse"}
LIMIT = 0.05      # false verdicts per table
POWER = 0.80      # slowdowns of 5% that must be seen, if the machine is idle
SLOWDOWN = 1.05
DEVICE = "cpu"    # of --real: also on a machine with a GPU, which `device=auto` would take
REPEATS, NEW_TOKENS = 21, 32  # of a real process: about a second on an idle core; a GPU needs more tokens (--tokens)


class Bench:
    def __init__(self, program, work):
        self.program, self.work, self.runs = program, Path(work), 0

    def write(self, metrics):
        self.runs += 1
        path = self.work / f"m{self.runs}.json"
        path.write_text(json.dumps(metrics))
        return str(path)

    def verdicts(self, a, b):
        """Rows of the table of two lists of metrics files."""
        out = subprocess.run([self.program, "compare", "--json", "--runs", *a, "--", *b],
                             capture_output=True, text=True, check=True).stdout
        c = json.loads(out)
        return c["stages"] + c["figures"]


def claims(rows):
    return [r["name"] for r in rows if r["verdict"] in CLAIMS]


def slower(metrics, factor):
    m = json.loads(json.dumps(metrics))
    for s in m["stages"]:
        if s.get("repeats_ms"):
            s["repeats_ms"] = [x and x * factor for x in s["repeats_ms"]]
    for f in m["figures"]:
        scale = factor if f["unit"] == "ms" else 1 / factor if f["unit"] == "tok/s" else 1
        f["repeats"] = [x and x * scale for x in f["repeats"]]
    return m


def simulated(rng, spread, noise, bursts, machine=1.0, started=None):
    """One process: its own speed, noise over 5 repeats, and bursts of foreign load that slow single repeats.

    machine: factor of the machine's speed at that time; started: start of the run, in seconds.
    """
    speed = rng.gauss(1, spread) * machine
    rows = {}
    for name, ms in (("prefill", 40.0), ("sam", 16.0), ("decode", 600.0)):
        own = speed * rng.gauss(1, spread / 2)
        rows[name] = [ms * own * rng.gauss(1, noise) * (rng.uniform(1.2, 3) if rng.random() < bursts else 1)
                      for _ in range(5)]
    run = {"id": "simulated"} | ({} if started is None else {"started_unix_ns": int(1e18) + started * 10**9})
    return {"schema": "inferprof.metrics/2", "run": run,
            "stages": [{"name": n, "parent": "prefill" if n == "sam" else None, "repeats_ms": v} for n, v in rows.items()],
            "figures": [{"key": "decode_rate", "name": "Decode rate", "unit": "tok/s", "larger_is_better": True,
                         "repeats": [64e3 / x for x in rows["decode"]]},
                        {"key": "prefill_rate", "name": "Prefill rate", "unit": "tok/s", "larger_is_better": True,
                         "repeats": [256e3 / x for x in rows["prefill"]]},
                        {"key": "energy", "name": "Energy", "unit": "J", "larger_is_better": False,
                         "repeats": [x / 70 for x in rows["decode"]]}]}


def rate(label, hits, n, limit=None, least=None):
    share = hits / n
    ok = (limit is None or share <= limit) and (least is None or share >= least)
    bound = f", at most {limit:.0%}" if limit is not None else f", at least {least:.0%}" if least is not None else ""
    print(f"{'' if ok else 'BROKEN '}{label}: {hits} of {n} ({share:.1%}{bound})")
    return ok


ORDER = "ABBAABBAAB"


def alternating(rng, spread, noise, drift, memory, with_starts):
    """The processes of two sides in the order ABBAABBAAB on a machine whose speed drifts: an AR(1) series with the
    deviation `drift` and the correlation `memory` of neighbours. With start times, `compare` can find the blocks."""
    sides, speed = {"A": [], "B": []}, rng.gauss(0, drift)
    for i, side in enumerate(ORDER):
        sides[side].append(simulated(rng, spread, noise, 0.0, math.exp(speed), i if with_starts else None))
        speed = memory * speed + drift * math.sqrt(1 - memory**2) * rng.gauss(0, 1)
    return sides["A"], sides["B"]


def drift_trials(bench, trials, drift, memory, with_starts, factor):
    """Tables with a claim: in decode if there is a slowdown, else in any row."""
    rng, seen = random.Random(5), 0
    for _ in range(trials):
        a, b = alternating(rng, 0.0075, 0.01, drift, memory, with_starts)
        said = claims(bench.verdicts([bench.write(m) for m in a], [bench.write(slower(m, factor)) for m in b]))
        seen += "decode" in said if factor > 1 else bool(said)
    return seen


def simulate(bench, trials):
    ok = True
    ok &= rate("simulated, drift of 9%: false verdicts, 5 alternating processes per side",
               drift_trials(bench, trials, 0.09, 0.99, True, 1.0), trials, limit=LIMIT + 0.025)
    blocks = drift_trials(bench, trials, 0.09, 0.99, True, SLOWDOWN)
    ok &= rate("simulated, drift of 9%: slowdowns of 5% seen with blocks", blocks, trials, least=0.75)
    for label, spread, noise, bursts in (("quiet", 0.005, 0.01, 0.0), ("noisy", 0.02, 0.05, 0.1), ("loaded", 0.2, 0.1, 0.3)):
        rng = random.Random(7)
        made = lambda: simulated(rng, spread, noise, bursts)
        five = [bool(claims(bench.verdicts([bench.write(made()) for _ in range(5)], [bench.write(made()) for _ in range(5)])))
                for _ in range(trials)]
        ok &= rate(f"simulated, {label}: false verdicts, 5 processes per side", sum(five), trials, limit=LIMIT + 0.025)
        one = [bool(claims(bench.verdicts([bench.write(made())], [bench.write(made())]))) for _ in range(trials)]
        ok &= rate(f"simulated, {label}: false verdicts, 1 process per side", sum(one), trials, limit=LIMIT)
        if label != "quiet":
            continue
        seen = 0
        for _ in range(trials):
            a, b = ([bench.write(made()) for _ in range(5)], [bench.write(slower(made(), SLOWDOWN)) for _ in range(5)])
            seen += "decode" in claims(bench.verdicts(a, b))
        ok &= rate("simulated, quiet: slowdowns of 5% seen", seen, trials, least=POWER)
    return ok


PROMPT = ('{"id":"one","prompt":"The quick brown fox jumps over the lazy dog and runs away from it, over the hills and '
          'far into the woods."}\n')


def profile(program, work, name, slowdown, repeats):
    """One process of the embedded model on the core of this thread: the parts of its metrics that compare reads."""
    prompts = Path(work) / "prompts.jsonl"
    environment = {k: v for k, v in os.environ.items() if k != "INFERPROF_TEST_SLOWDOWN"}
    if slowdown > 1:
        environment["INFERPROF_TEST_SLOWDOWN"] = str(slowdown)
    subprocess.run([program, "profile", "-q", f"device={DEVICE}", "dataset=prompts", f"dataset.prompts={prompts}",
                    f"repeats={repeats}", f"infer.max_new_tokens={NEW_TOKENS}", "peak.tflops=0.1", "peak.gbps=10",
                    "profiling=min", "engine.threads=1", f"output.dir={work}/runs", f"output.run_id={name}",
                    "output.predictions=false"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment)
    run = Path(work) / "runs" / name
    m = json.loads((run / "metrics.json").read_text())
    shutil.rmtree(run)
    return {k: m[k] for k in ("schema", "run", "stages", "figures")}


def run_trial(program, work, label, slowdown, deadline, repeats):
    """Two lists of five processes, A and B. None: no time left."""
    sides = {"a": [], "b": []}
    for k in range(5):
        for side in "ab" if k % 2 == 0 else "ba":  # `compare` removes the drift between blocks of neighbouring runs
            if time.monotonic() > deadline:
                return None
            sides[side].append(profile(program, work, f"{label}{side}{k}", slowdown if side == "b" else 1, repeats))
    return sides


def usable_cores():
    """Usable hardware threads: first one per core, then their siblings, which share the units of a core."""
    usable, first, rest = sorted(os.sched_getaffinity(0)), [], []
    for cpu in usable:
        try:
            siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = str(cpu)
        (first if int(re.split("[,-]", siblings)[0]) == cpu else rest).append(cpu)
    return first + rest, len(first)


def spread(cores, n, width):
    """n groups of `width` neighbouring cores, as far apart as possible."""
    return [cores[i * len(cores) // n:i * len(cores) // n + width] for i in range(n)]


def run_trials(program, work, kind, trials, jobs, deadline, slowdown, repeats, width):
    """Runs trials on disjoint groups of `width` cores until all are done or the time is over."""
    (Path(work) / "prompts.jsonl").write_text(PROMPT)
    done, waiting, lock = [], iter(range(trials)), threading.Lock()

    def stream(group):
        os.sched_setaffinity(0, group)  # of this thread; its processes inherit it
        while True:
            with lock:
                trial = next(waiting, None)
            sides = None if trial is None else run_trial(program, work, f"{kind}{trial}", slowdown, deadline, repeats)
            if sides is None:
                return
            with lock:
                done.append(sides)
                if sys.stderr.isatty() or len(done) % 20 == 0:
                    print(f"{len(done)} of {trials} {kind} trials", file=sys.stderr)
    streams = [threading.Thread(target=stream, args=(group,)) for group in spread(usable_cores()[0], jobs, width)]
    for s in streams:
        s.start()
    for s in streams:
        s.join()
    return done


def stage_repeats(processes, name):
    rows = [s["repeats_ms"] for m in processes for s in m["stages"] if s["name"] == name]
    return [[x for x in r if x] for r in rows]


def cv(values):
    return statistics.stdev(values) / statistics.mean(values)


def neighbours(trial, stage):
    """Pairs of the logarithms of the medians of neighbouring processes, relative to the mean of their own side."""
    rows = []
    for side in "ab":
        logs = [math.log(statistics.median(r)) for r in stage_repeats(trial[side], stage)]
        rows += [(m["run"]["started_unix_ns"], x - statistics.mean(logs)) for m, x in zip(trial[side], logs)]
    series = [x for _, x in sorted(rows)]
    return list(zip(series, series[1:]))


def correlation(pairs):
    """Of values whose mean is 0."""
    x, y = zip(*pairs)
    return sum(a * b for a, b in pairs) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def print_noise(kind, done):
    """Noise within and between the processes of one side, and the ratio of the sides."""
    for stage in "prefill", "decode":
        sides = [[stage_repeats(t[side], stage) for side in "ab"] for t in done]
        medians = [[[statistics.median(r) for r in side] for side in t] for t in sides]
        within = statistics.median(cv(r) for t in sides for side in t for r in side)
        between = statistics.median(cv(side) for t in medians for side in t)
        ratio = statistics.median(statistics.median(b) / statistics.median(a) for a, b in medians)
        memory = correlation([p for t in done for p in neighbours(t, stage)])
        print(f"{kind}, {stage}: CV of the repeats of a process {within:.2%}, of the medians of the processes of a side "
              f"{between:.2%} (medians over the trials); correlation of neighbouring processes {memory:+.2f}; B takes "
              f"{ratio:.4f} times as long as A")


def save_times(path, results):
    times = {kind: [{side: {stage: stage_repeats(t[side], stage) for stage in ("prefill", "decode")} for side in "ab"}
                    for t in done] for kind, done in results.items()}
    Path(path).write_text(json.dumps(times))


def without_start(metrics):
    run = {k: v for k, v in metrics["run"].items() if k != "started_unix_ns"}
    return metrics | {"run": run}


def claims_of(bench, done, change=lambda m: m):
    """The rows with a claim, per trial. `change` is applied to the metrics of every process."""
    return [claims(bench.verdicts(*([bench.write(change(m)) for m in t[side]] for side in "ab"))) for t in done]


def real_trials(bench, trials, slowed, jobs, seconds, save, repeats, width):
    load, (cores, physical) = os.getloadavg()[0], usable_cores()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    print(f"{cpu}, {len(cores)} usable hardware threads of {physical} cores, load {load:.1f} before; {DEVICE}; processes with "
          f"{repeats} repeats of {NEW_TOKENS} new tokens, 5 per side")
    started, results = time.monotonic(), {}
    for kind, n, at_once, slowdown in (("slowed", slowed, max(1, jobs // 4), SLOWDOWN), ("equal", trials, jobs, 1.0)):
        begin = time.monotonic()
        results[kind] = run_trials(bench.program, bench.work, kind, n, at_once, started + seconds, slowdown, repeats, width)
        print(f"{kind}: {len(results[kind])} of {n} trials, {at_once} at once, {time.monotonic() - begin:.0f} s")
        if results[kind]:
            print_noise(kind, results[kind])
    if save:
        save_times(save, results)
    rows = {kind: claims_of(bench, done) for kind, done in results.items()}
    apart = {kind: claims_of(bench, done, without_start) for kind, done in results.items()}
    which = sorted(name for r in rows["equal"] for name in r)
    ok = True
    if trials:
        print("rows of the false verdicts:", {name: which.count(name) for name in which} or "none")
        ok = bool(rows["equal"]) and rate("real: false verdicts of equal sides", sum(map(bool, rows["equal"])), len(rows["equal"]),
                                          limit=LIMIT)
    if rows["equal"]:
        rate("real, without blocks: false verdicts of equal sides", sum(map(bool, apart["equal"])), len(apart["equal"]))
    if rows["slowed"]:
        rate("real, without blocks: slowdowns of 5% seen in decode", sum("decode" in r for r in apart["slowed"]),
             len(apart["slowed"]))
    if slowed:
        seen = sum("decode" in r for r in rows["slowed"])
        ok &= bool(rows["slowed"]) and rate("real: slowdowns of 5% seen in decode", seen, len(rows["slowed"]), least=POWER)
    return ok


def power_table(bench, trials):
    """Slowdowns of 5% seen in decode, by the CV of the medians of the processes and their number, and by the drift."""
    for drift, memory in (0.0, 0.0), (0.03, 0.9), (0.09, 0.999), (0.09, 0.99), (0.09, 0.97), (0.09, 0.9):
        without, blocks = (drift_trials(bench, trials, drift, memory, starts, SLOWDOWN) for starts in (False, True))
        false = drift_trials(bench, trials, drift, memory, True, 1.0)
        print(f"simulated, drift of {drift:.0%}, correlation of neighbours {memory}: slowdowns of 5% seen {without / trials:.1%} "
              f"without and {blocks / trials:.1%} with blocks; false verdicts with blocks {false / trials:.1%}")
    for processes in 5, 8, 10:
        for noise in 0.005, 0.01, 0.015, 0.02, 0.025, 0.03:
            rng = random.Random(3)
            # half of the variance is common to all rows of a process; repeats as noisy as the processes
            made = lambda: simulated(rng, noise * 0.75, noise, 0.0)
            sides = lambda factor: [bench.write(slower(made(), factor)) for _ in range(processes)]
            seen = sum("decode" in claims(bench.verdicts(sides(1), sides(SLOWDOWN))) for _ in range(trials))
            medians = [statistics.median(stage_repeats([made()], "decode")[0]) for _ in range(2000)]
            rate(f"simulated, {processes} processes per side, CV of their medians {cv(medians):.1%}: slowdowns of 5% seen",
                 seen, trials)
    return True


def from_files(bench, files, trials):
    load = [json.loads(Path(f).read_text()) for f in files]
    strip = [{k: m[k] for k in ("schema", "schema_version", "run", "stages", "figures") if k in m} for m in load]
    paths, slow = [bench.write(m) for m in strip], [bench.write(slower(m, SLOWDOWN)) for m in strip]
    medians = [statistics.median(x for x in m["stages"][0]["repeats_ms"] if x) for m in strip]
    print(f"{len(files)} processes; {strip[0]['stages'][0]['name']} varies by {cv(medians):.1%} (CV) between processes")
    n, rng, ok = len(files), random.Random(11), True
    starts = range(0, 10 * min(trials, n // 10), 10)  # no process is in two trials, except those at random
    orders = {"interleaved": [[s + k for k in range(10)] for s in starts],
              "in blocks": [[s + k for k in (0, 5, 1, 6, 2, 7, 3, 8, 4, 9)] for s in starts],
              "at random": [rng.sample(range(n), 10) for _ in range(trials)]}
    for order, sets in orders.items():
        false = seen = 0
        for chosen in sets:
            a, b = [paths[i] for i in chosen[0::2]], chosen[1::2]
            false += bool(claims(bench.verdicts(a, [paths[i] for i in b])))
            seen += bool(claims(bench.verdicts(a, [slow[i] for i in b])))
        # in blocks, the load of the machine can change between the sides: no test can separate that from a difference
        ok &= rate(f"files, {order}: false verdicts, 5 processes per side", false, len(sets),
                   limit=None if order == "in blocks" else LIMIT)
        rate(f"files, {order}: slowdowns of 5% seen", seen, len(sets))
    pairs = [(i, i + 1) for i in range(n - 1)]
    false = sum(bool(claims(bench.verdicts([paths[i]], [paths[j]]))) for i, j in pairs)
    return ok & rate("files, neighbours: false verdicts, 1 process per side", false, len(pairs), limit=LIMIT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inferprof")
    parser.add_argument("--real", type=int, metavar="N")
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--save", metavar="FILE", help="write the times of all processes of --real")
    parser.add_argument("--slowed", type=int, metavar="M", help="slowed trials (default: a quarter of N)")
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="R", help="timed repeats per process")
    parser.add_argument("--width", type=int, default=1, metavar="W", help="cores per trial; the engine uses one thread")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="trials at once, each on its own core")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no process after this time")
    parser.add_argument("--device", default=DEVICE, help="device of --real (default: %(default)s); a GPU runs one trial at a time")
    parser.add_argument("--files", nargs="+", metavar="FILE")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=NEW_TOKENS, help="new tokens per repeat of --real")
    o = parser.parse_args()
    globals().update(DEVICE=o.device, NEW_TOKENS=o.tokens)
    o.inferprof = os.path.abspath(o.inferprof)
    if not 1 <= o.jobs * o.width <= len(os.sched_getaffinity(0)):
        parser.error(f"--jobs {o.jobs} with --width {o.width}: at most the number of usable cores, {len(os.sched_getaffinity(0))}")
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(o.inferprof, work)
        if o.files:
            ok = from_files(bench, o.files, o.trials)
        elif o.real is not None:
            ok = real_trials(bench, o.real, (o.real + 3) // 4 if o.slowed is None else o.slowed, o.jobs, o.seconds, o.save,
                             o.repeats, o.width)
        elif o.power:
            ok = power_table(bench, o.trials)
        else:
            ok = simulate(bench, o.trials)
    sys.exit(0 if ok else 1)


main()
