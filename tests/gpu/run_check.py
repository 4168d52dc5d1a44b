"""Checks the results of run_cmd.sh.

    run_check.py INFERPROF RUNS OUT
"""
import collections
import glob
import json
import os
import shutil
import subprocess
import sys

INFERPROF, RUNS, OUT = sys.argv[1:]
failed = 0


def result(name, check, good, seen=""):
    global failed
    failed += not good
    print(f"{'ok  ' if good else 'FAIL'} {name:<12} {check}{'   ' + str(seen) if seen != '' else ''}", flush=True)


def text(name, suffix):
    try:
        with open(f"{RUNS}/{name}.{suffix}") as f:
            return f.read()
    except OSError:
        return ""


class Run:
    def __init__(self, name):
        self.name = name
        self.status = int(text(name, "status") or -1)
        self.out, self.err = text(name, "out"), text(name, "err")
        self.files = [f for f in glob.glob(f"{RUNS}/{name}/trace/*-*.ipt")]
        self.by_file = {f: self.records(f) for f in self.files}
        self.all = [r for rs in self.by_file.values() for r in rs]
        self.meta = [(r["key"], r["value"]) for r in self.all if r["kind"] == "meta"]
        try:
            with open(f"{RUNS}/{name}/metrics.json") as f:
                self.metrics = json.load(f)
        except OSError:
            self.metrics = None

    @staticmethod
    def records(path):
        done = subprocess.run([INFERPROF, "trace", "dump", "--json", path], capture_output=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kind(self, kind):
        return [r for r in self.all if r["kind"] == kind]

    def key(self, key):
        return [v for k, v in self.meta if k == key]

    def orphans(self):
        launches = {(f, r["correlation"]) for f, rs in self.by_file.items() for r in rs if r["kind"] == "launch"}
        return sum((f, r["correlation"]) not in launches for f, rs in self.by_file.items() for r in rs if r["kind"] == "kernel")

    def conservation(self):
        """Tables and stages each add up to the GPU busy time: every nanosecond is attributed once."""
        c = self.metrics["trace"]["conservation"]
        rest = max(abs(c[k]) for k in c if k.endswith("_residual_ns"))
        return rest <= 1e-6 * c["gpu_busy_ns"] + 1, {k: round(v, 3) for k, v in c.items()}

    def check(self, check, good, seen=""):
        result(self.name, check, good, seen)

    def basics(self, status, kernels):
        n = len(self.kind("kernel"))
        self.check(f"status {status}, {kernels}+ kernels", self.status == status and n >= kernels, f"status {self.status}, {n} kernels")
        self.check("every kernel has a launch", self.orphans() == 0, self.orphans())
        self.check("the report exists", self.metrics is not None and os.path.exists(f"{RUNS}/{self.name}/report.html"))
        if self.metrics:
            self.check("GPU time is attributed once", *self.conservation())
        print("     lost:", collections.Counter((r.get("lost_kind"), r.get("reason")) for r in self.kind("lost")) or "nothing",
              " problems:", self.key("problem") or "none", " counts:", self.key("collector.counts"), " stop ms:", self.key("collector.stop_ms"))


def check_range(r):
    r.basics(0, 16000)
    ranges = [x for x in r.kind("range") if x["name"] == "measured"]
    inside = sum(ranges[0]["start_ns"] <= x["start_ns"] for x in r.kind("launch"))
    r.check("only kernels of the range", len(r.kind("kernel")) < 16500 and inside == len(r.kind("launch")))
    print("     notes:", r.metrics["notes"])


def check_stage(r):
    r.basics(0, 17000)
    stages = {s["name"] for s in r.metrics["stages"]}
    r.check("the rule creates a stage", "decode" in stages, stages)


def check_time(r):
    r.basics(0, 100)
    windows = [tuple(map(int, v.split())) for v in r.key("capture.window") if " " in v]
    started = json.loads(r.out)["start"]
    begin, seconds = windows[0][0] / 1e9 - started, (windows[0][1] - windows[0][0]) / 1e9
    r.check("one window of 0.3 s, 20 s after the program's start", len(windows) == 1 and abs(begin - 20) < 0.5 and abs(seconds - 0.3) < 0.1,
            (begin, seconds))
    r.check("only launches of the window", all(windows[0][0] <= x["start_ns"] <= windows[0][1] for x in r.kind("launch")))
    print("     notes:", r.metrics["notes"])


def check_size(r):
    r.check("exit status 0", r.status == 0, r.status)
    sizes = [os.path.getsize(f) for f in r.files]
    r.check("the file size limit is kept", bool(sizes) and max(sizes) <= 60000, sizes)
    r.check("lost records are counted", bool(r.kind("lost")), [str(x) for x in r.kind("lost")][:3])


def check_gemm(r):
    r.basics(0, 17000)
    r.check("GEMM shapes are recorded", len(r.kind("gemm")) >= 85 * 32, f"{len(r.kind('gemm'))}, one: {r.kind('gemm')[:1]}")
    r.check("the program's output is unchanged", len(r.out.splitlines()) == 1)


def detach_count(r):
    return int(r.key("collector.counts")[0].split("left ")[1].split()[0])


def check_budget(r):
    r.basics(0, 3000)
    n, calls = len(r.kind("kernel")) + len(r.kind("copy")), len(r.kind("launch"))
    r.check("every launch of a window has a kernel", n >= 0.99 * calls, (n, calls))
    r.check("several windows, and their share is reported",
            len(r.key("capture.window")) >= 4 and any("are not scaled up" in x["text"] for x in r.metrics["notes"]))
    r.check("CUPTI is detached between windows", detach_count(r) > 0, detach_count(r))
    print("     windows:", len(r.key("capture.window")), " notes:", r.metrics["notes"])


def check_budget_stays(r):
    r.basics(0, 500)
    r.check("CUPTI is not detached", detach_count(r) == 0, detach_count(r))
    print("     windows:", len(r.key("capture.window")))


def check_workers(r):
    r.check("exit status 0", r.status == 0 and '"exits": [0, 0, 0, 0]' in r.out, (r.status, r.out.strip()))
    per = sorted(sum(x["kind"] == "kernel" for x in rs) for rs in r.by_file.values())
    r.check("one trace per process, kernels in three", len([n for n in per if n > 400]) == 3 and len(per) >= 5, per)
    r.check("every kernel has a launch", r.orphans() == 0)


def check_profiler(r):
    r.check("the program's exit status is 0", r.status == 0, (r.status, r.out.strip()))
    r.check("NVTX is recorded throughout", len([x for x in r.kind("range") if x["name"] in ("before", "inside", "after")]) == 4)
    print("     kernels", len(r.kind("kernel")), "launches", len(r.kind("launch")), "problems", r.key("problem"))


def check_first(r):
    r.check("the program's exit status is 0", r.status == 0, (r.status, r.out.strip()))
    r.check("NVTX is recorded throughout", len([x for x in r.kind("range") if x["name"] in ("inside", "after")]) == 3)
    whole = len(r.kind("kernel")) >= 300 and r.orphans() == 0
    r.check("every kernel is recorded, or the other user of CUPTI is reported", whole or bool(r.key("problem")), (len(r.kind("kernel")), r.key("problem")))


def check_holder(r):
    doc = json.loads(r.out)
    r.check("the program's own callbacks work", r.status == 0 and doc["codes"] == [0, 0, 0] and doc["callbacks"] >= 200, (r.status, doc))
    r.check("CUPTI being in use is reported", any("CUPTI allows one subscriber per process" in p for p in r.key("problem")), r.key("problem"))
    r.check("NVTX is recorded", [x["name"] for x in r.kind("range")].count("held") == 1)


def check_visible(r):
    r.basics(0, 10)
    uuid = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()[0]
    r.check("the UUID is recorded", uuid in r.key("device.0.uuid"), (uuid, r.key("device.0.uuid")))


def check_hidden(r):
    r.check("no GPU: an error and status 1", r.status == 1 and "nothing was recorded" in r.err, r.err.strip()[-300:])


CHECKS = {
    "eager": lambda r: r.basics(0, 17000), "graph": lambda r: r.basics(0, 17000), "stage": check_stage, "range": check_range,
    "time": check_time, "size": check_size, "gemm": check_gemm, "budget": check_budget,
    "budget-graph": check_budget_stays, "budget-multi": check_budget_stays, "workers": check_workers,
    "profiler": check_profiler, "first": check_first, "holder": check_holder, "status": lambda r: r.basics(3, 2000), "kill": lambda r: r.basics(137, 2000),
    "segv": lambda r: r.basics(139, 2000), "interrupt": lambda r: r.basics(130, 2000), "visible": check_visible, "hidden": check_hidden,
}


def copy_results():
    """Copies reports and messages to OUT, to be read afterwards."""
    for d in glob.glob(f"{RUNS}/*/"):
        name = os.path.basename(d.rstrip("/"))
        for f in ("metrics.json", "report.md"):
            if os.path.exists(d + f):
                shutil.copy(d + f, f"{OUT}/{name}.{f}")
    for f in glob.glob(f"{RUNS}/*.err"):
        shutil.copy(f, OUT)


def main():
    for name, check in CHECKS.items():
        try:
            check(Run(name))
        except Exception as e:  # continue with the other runs
            result(name, "can be checked", False, f"{type(e).__name__}: {e}; stderr: {text(name, 'err')[-300:]}")
    copy_results()
    print(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
