#!/usr/bin/env python3
"""The time of stages, computed a second time from the source files and compared with what inferprof prints.

    stage_time.py INFERPROF SCRATCH_DIR FILE [FILE...]      one comparison per file
    stage_time.py INFERPROF SCRATCH_DIR --ranks FILE FILE   the files are the ranks of one job

Reads torch.profiler JSON and Nsight Systems SQLite. Shares no code with inferprof: definitions in
docs/analysis.md. Compared: metrics.json (per device, stage and step), stages.csv, `stats --json`, device numbers in report.md
and kernels.csv. If inferprof recognises steps, these are the stages of a second comparison: their borders are those of
steps.csv, and their times are computed here."""
import bisect
import collections
import csv
import gzip
import json
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys

COMMON = [(r"prefill.*", "prefill"), (r"decode.*", "decode"), (r"Prefill.*", "prefill"), (r"Decode.*", "decode"),
          (r"ProfilerStep#.*", "step")]
MODES = {"DECODE": "decode", "EXTEND": "prefill", "MIXED": "mixed", "TARGET_VERIFY": "verify", "DRAFT_EXTEND": "draft",
         "SPLIT_PREFILL": "prefill", "IDLE": "idle"}
NESTED = [(r"encode_image.*", "vision"), (r"vision.*", "vision"), (r"visual", "vision"), (r"sam", "sam"), (r"clip", "clip"),
          (r"projector", "projector"), (r"lm_head", "lm_head")]
KERNEL = {"kernel", "Kernel"}
COPY = {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}
LAUNCH = re.compile(r"Launch\w*Kernel|GraphLaunch")
NOT_THE_PROGRAM = {"Trace", "overhead", "gpu_user_annotation"}


def stage_of(name):
    m = re.match(r"execute_.*context_(\d+).*generation_(\d+)", name)
    if m:
        context, generation = int(m[1]), int(m[2])
        return "prefill" if generation == 0 else "decode" if context == 0 else "mixed"
    m = re.match(r"step\[(\w+)[ \]]", name)
    if m:
        return MODES.get(m[1])
    for pattern, stage in COMMON:
        if re.fullmatch(pattern, name):
            return stage
    return None


Work = collections.namedtuple("Work", "start end is_kernel order device correlation lane")
Call = collections.namedtuple("Call", "start end thread")
MISSING_LAUNCHES = 0.05  # a larger share of launches without kernels: the busy time of a stage is unknown


class Trace:
    """One process: device work, launch calls by correlation, stage ranges (start, end, thread, name)."""

    def __init__(self):
        self.works, self.calls, self.ranges = [], collections.defaultdict(list), []
        self.start, self.end = None, 0
        self.launches = set()  # correlations of calls that launch a kernel
        self.captures = []  # (time, thread, begins) of calls that begin and end a stream capture

    def drop_captured(self):
        """Launches in a stream capture of their thread do not run."""
        self.captures.sort()
        for correlation in list(self.launches):
            for call in self.calls[correlation]:
                before = [begins for time, thread, begins in self.captures if thread == call.thread and time <= call.start]
                if before and before[-1] and not any(w.correlation == correlation for w in self.works):
                    self.launches.discard(correlation)

    def first_queued(self):
        """The first launch whose kernel was not recorded, after the last one of its thread whose kernel was."""
        seen = {w.correlation for w in self.works}
        by_thread = collections.defaultdict(list)
        for correlation in self.launches:
            for call in self.calls[correlation]:
                by_thread[call.thread].append((call.start, correlation in seen, call))
        found = []
        for calls in by_thread.values():
            calls.sort()
            met = [i for i, (_, has_kernel, _) in enumerate(calls) if has_kernel]
            if met and met[-1] + 1 < len(calls):
                found.append(calls[met[-1] + 1][2])
        return min(found) if found else None

    def lacks_kernels(self):
        seen = {w.correlation for w in self.works}
        return sum(c not in seen for c in self.launches) > MISSING_LAUNCHES * len(self.launches)

    def cut(self, start, end):
        """The works and calls that start in a period, which becomes the timeline."""
        t = Trace()
        t.works = [w for w in self.works if start <= w.start < end]
        for correlation, calls in self.calls.items():
            t.calls[correlation] = [c for c in calls if start <= c.start < end]
        t.start, t.end = start, end
        return t

    def cover(self, start, end):
        self.start = start if self.start is None else min(self.start, start)
        self.end = max(self.end, end)


def ns(microseconds):
    whole, _, part = str(microseconds).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3]) if "e" not in part else int(round(float(microseconds) * 1000))


def load_kineto(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as f:
        document = json.load(f, parse_float=str)
    events = document["traceEvents"] if isinstance(document, dict) else document
    t = Trace()
    for order, e in enumerate(events):
        if e.get("ph") != "X" or e.get("cat") in NOT_THE_PROGRAM or e.get("cat") is None:
            continue
        start = ns(e["ts"])
        end = start + ns(e.get("dur", 0))
        category, args = e["cat"], e.get("args", {})
        if category in KERNEL or category in COPY:
            device = args.get("device", e.get("pid"))
            t.works.append(Work(start, end, category in KERNEL, order, int(device), args.get("correlation"),
                                args.get("stream")))
        elif "runtime" in category.lower() or "driver" in category.lower():
            if args.get("correlation") is not None:
                t.calls[args["correlation"]].append(Call(start, end, e["tid"]))
                if LAUNCH.search(e["name"]):
                    t.launches.add(args["correlation"])
            if re.search("Stream(Begin|End)Capture", e["name"]):
                t.captures.append((start, e["tid"], "Begin" in e["name"]))
        elif category == "user_annotation":
            t.ranges.append((start, end, e["tid"], e["name"]))
        t.cover(start, end)
    if t.captures:
        t.drop_captured()
    return t


def load_nsys(path):
    """The processes of the file with kernels, in the order of their devices; one if only one makes calls or has work."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {r[0] for r in db.execute("select name from sqlite_master where type='table'")}
    strings = dict(db.execute("select id, value from StringIds")) if "StringIds" in tables else {}
    by_pid, active = collections.defaultdict(Trace), set()

    def pid_of(global_id):
        return (global_id or 0) >> 24 & 0xFFFFFF

    def columns(table):
        return {r[1] for r in db.execute(f"pragma table_info({table})")}

    for table, is_kernel in (("CUPTI_ACTIVITY_KIND_KERNEL", True), ("CUPTI_ACTIVITY_KIND_MEMCPY", False),
                             ("CUPTI_ACTIVITY_KIND_MEMSET", False)):
        if table not in tables:
            continue
        pid = "globalPid" if "globalPid" in columns(table) else "0"
        for order, (s, e, device, stream, corr, p) in enumerate(
                db.execute(f"select start, end, deviceId, streamId, correlationId, {pid} from {table}")):
            if s < 0:  # import reports and drops such events
                continue
            active.add(pid_of(p))
            by_pid[pid_of(p)].works.append(Work(s, e, is_kernel, order, device, (pid_of(p), corr), stream))
            by_pid[pid_of(p)].cover(s, e)
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
        for s, e, thread, corr, name in db.execute(
                "select start, end, globalTid, correlationId, nameId from CUPTI_ACTIVITY_KIND_RUNTIME where start >= 0"):
            correlation = pid_of(thread), corr
            t = by_pid[pid_of(thread)]
            active.add(pid_of(thread))
            t.calls[correlation].append(Call(s, e, thread))
            if LAUNCH.search(strings.get(name, "")):
                t.launches.add(correlation)
            t.cover(s, e)
    if "NVTX_EVENTS" in tables:
        for s, e, thread, text, text_id in db.execute(
                "select start, end, globalTid, text, textId from NVTX_EVENTS where eventType in (59, 60)"):
            if e is None:
                continue
            name = text if text is not None else strings.get(text_id, "")
            by_pid[pid_of(thread)].ranges.append((s, e, thread, name or ""))
            by_pid[pid_of(thread)].cover(s, e)
    if "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in tables:
        for s, e, p in db.execute("select start, end, globalPid from CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
            by_pid[pid_of(p)].cover(s, e)
    if len(active) < 2:
        return [joined(by_pid.values())]
    traces = [t for t in by_pid.values() if any(w.is_kernel for w in t.works)]
    return sorted(traces, key=lambda t: min(w.device for w in t.works))


def joined(traces):
    """One process of several."""
    t = Trace()
    for part in traces:
        t.works += part.works
        t.calls.update(part.calls)
        t.ranges += part.ranges
        t.launches |= part.launches
        t.cover(part.start, part.end)
    return t


def find_occurrences(ranges):
    """[start, end, thread, stage path], outermost first; a stage inside itself is one."""
    found, open_by_thread = [], collections.defaultdict(list)
    for start, end, thread, name in sorted(ranges, key=lambda r: (r[0], -r[1])):
        stack = open_by_thread[thread]
        while stack and found[stack[-1]][1] <= start:
            stack.pop()
        around = found[stack[-1]][3] if stack else None
        stage = stage_of(name)
        if stage is None and around:
            stage = next((s for pattern, s in NESTED if re.fullmatch(pattern, name)), None)
        if stage is None or (around and stage in around.split("/")):
            continue
        found.append((start, end, thread, f"{around}/{stage}" if around else stage))
        stack.append(len(found) - 1)
    return found


def drop_empty(trace, occurrences):
    """Without the first and the last step of a thread if nothing was launched in it, as after torch.profiler's last
    step."""
    marking = {o[2] for o in occurrences}
    wanted = trace.launches | {w.correlation for w in trace.works}
    calls = [c for correlation in wanted for c in trace.calls.get(correlation, [])]

    def is_empty(o):
        return not any(o[0] <= c.start < o[1] and (c.thread == o[2] or c.thread not in marking) for c in calls)

    dropped = []
    for key in {(o[2], o[3]) for o in occurrences if "/" not in o[3]}:
        steps = [o for o in occurrences if (o[2], o[3]) == key]
        if trace.launches and not all(map(is_empty, steps)):
            dropped += [o for o in (steps[0], steps[-1]) if is_empty(o)]
    return [o for o in occurrences if not any(d[2] == o[2] and d[0] <= o[0] and o[1] <= d[1] for d in dropped)]


class Partition:
    """The timeline of one device of a process: ns per stage path; None is "between steps"."""

    def __init__(self, trace, device, implicit):
        self.t, self.implicit = trace, implicit
        self.occurrences = [] if implicit else trace.occurrences
        self.top = [o for o in self.occurrences if "/" not in o[3]]
        self.marking = {o[2] for o in self.occurrences}
        self.bounds = sorted({x for o in self.occurrences for x in o[:2]})
        self.busy, self.idle, self.unrecorded = collections.Counter(), collections.Counter(), 0
        self.works = sorted(w for w in trace.works if w.device == device)
        self.elsewhere = [w for w in trace.works if w.device != device]
        self.works.sort(key=lambda w: (w.start, not w.is_kernel))
        self.launches = [self.launch_of(w) for w in self.works]
        self.split_idle()
        self.split_busy()
        self.timeline = trace.end - trace.start

    def launch_of(self, w):
        calls = self.t.calls.get(w.correlation, [])
        before = [c for c in calls if c.start <= w.start] or calls
        return max(before) if before else None

    def open_at(self, thread, time):
        if self.implicit:
            return "whole trace"
        if thread in self.marking:
            held = [o for o in self.occurrences if o[2] == thread and o[0] <= time < o[1]]
            return held[-1][3] if held else None
        held = [o for o in self.top if o[0] <= time < o[1]]
        return held[0][3] if len(held) == 1 else None

    def busy_since(self, launch, launched, frontier, is_first):
        """The start of the step of a launch that waits for unrecorded work, if that is the first work of the step."""
        marks = launch.thread in self.marking
        held = [o for o in self.top if o[0] <= launch.start < o[1] and (o[2] == launch.thread or not marks)]
        start = held[0][0] if len(held) == 1 and not self.implicit else 0
        return min(launched, max(start, frontier)) if is_first or start >= frontier else launched

    def give_idle(self, start, end, thread):
        i = bisect.bisect_right(self.bounds, start)
        while start < end:
            until = min(end, self.bounds[i]) if i < len(self.bounds) else end
            self.idle[self.open_at(thread, start)] += until - start
            start, i = until, i + 1

    def quiet(self, time):
        """The time since work ran on another device."""
        return min((max(0, time - w.end) for w in self.elsewhere if w.start < time), default=float("inf"))

    def split_idle(self):
        frontier, delays = None, []
        for w, launch in zip(self.works, self.launches):
            if w.is_kernel and launch and frontier is not None and launch.start >= frontier:
                delays.append(max(0, w.start - launch.end))
            frontier = max(frontier or 0, w.end)
        self.limit = max(10 * statistics.median(delays) if delays else 0, 50000)
        frontier = self.t.start
        for w, launch in zip(self.works, self.launches):
            if w.start > frontier:
                end = w.start
                launched = max(launch.start, frontier) if launch else end
                launched = min(launched, end)
                if launch and end - max(launch.end, frontier) > self.limit and self.quiet(end) > self.limit:
                    recorded_to = self.busy_since(launch, launched, frontier, w is self.works[0])
                    self.unrecorded += end - recorded_to
                    end = launched = recorded_to
                if not launch and self.t.calls and w is not self.works[0] and not self.implicit:
                    self.idle[None] += end - frontier  # launched before recording began: like its busy time
                else:
                    self.give_idle(frontier, launched, launch.thread if launch else None)
                if launch:
                    self.idle[self.open_at(launch.thread, launch.start)] += end - launched
            frontier = max(frontier, w.end)
        last, end, queued = self.launches[-1], max(frontier, self.t.end), self.t.first_queued()
        if queued and end - max(queued.end, frontier) > self.limit:  # recording ended before it ran
            self.unrecorded += end - max(queued.start, frontier)
            end = max(queued.start, frontier)
        self.give_idle(frontier, end, last.thread if last else None)

    def split_busy(self):
        owner = [self.open_at(l.thread, l.start) if l else "whole trace" if self.implicit else None
                 for l in self.launches]
        points = sorted((t, up, i) for i, w in enumerate(self.works) if w.end > w.start
                        for t, up in ((w.start, 1), (w.end, 0)))
        running, before = set(), 0
        for time, up, i in points:
            for j in running:
                self.busy[owner[j]] += (time - before) / len(running)
            (running.add if up else running.discard)(i)
            before = time


def with_parents(counter):
    total = collections.Counter()
    for path, value in counter.items():
        parts = path.split("/") if path else [None]
        for n in range(len(parts)):
            total["/".join(parts[:n + 1]) if path else None] += value
    return total


def fail(path, what, ours, theirs):
    raise SystemExit(f"{path}: {what}: {theirs} printed, {ours} computed here")


def near(a, b, tolerance=2.0):
    return abs(a - b) <= tolerance + 1e-9 * max(abs(a), abs(b))


def stage_path(metrics, stage):
    return f"{stage['parent']}/{stage['name']}" if stage["parent"] else stage["name"]


def compare(label, traces, metrics, rows):
    implicit = not any(t.occurrences for t in traces)
    devices = sorted((d for d in metrics["devices"] if d["timeline_ns"]), key=lambda d: (d["rank"] or 0, d["index"]))
    mine = [(t, dev, Partition(t, dev, implicit)) for t in traces for dev in sorted({w.device for w in t.works})]
    if len(devices) != len(mine):
        fail(label, "devices with work", len(mine), len(devices))
    stages = {stage_path(metrics, s): s for s in metrics["stages"]}
    for device, (t, _, p) in zip(devices, mine):
        name = f"{label} device {device['device']}"
        if not near(p.timeline, device["timeline_ns"]):
            fail(name, "timeline", p.timeline, device["timeline_ns"])
        if not near(p.unrecorded, device["unrecorded_ns"]):
            fail(name, "unrecorded", p.unrecorded, device["unrecorded_ns"])
        total = device["unrecorded_ns"]
        busy, idle = with_parents(p.busy), with_parents(p.idle)
        for path, s in stages.items():
            key = None if s["outside"] else path
            on = next((x for x in s["trace"]["device_time"] if x["device"] == device["device"]), None)
            on = on or {"busy_ns": 0, "idle_ns": 0, "steps": None}
            total += 0 if s["parent"] else on["busy_ns"] + on["idle_ns"]
            for what, here in (("busy_ns", busy[key]), ("idle_ns", idle[key])):
                if not near(here, on[what]):
                    fail(name, f"{what} of {path}", here, on[what])
            steps = sum(o[3] == path for o in t.occurrences)
            if on["steps"] is not None and not s["outside"] and not implicit and on["steps"] != steps:
                fail(name, f"steps of {path}", steps, on["steps"])
        if not near(total, device["timeline_ns"]):
            fail(name, "the sum of stages, between steps and unrecorded", device["timeline_ns"], total)
    for path, s in stages.items():
        check_stage(label, path, s, traces, rows)


def check_stage(label, path, s, traces, rows):
    if s["outside"]:
        return
    on = s["trace"]["device_time"]
    runs = [x for x in on if x["kernels"]] or [x for x in on if x["copies"]]
    if not runs:
        return
    steps = sum(x["steps"] for x in runs)
    time_ms = sum(x["time_ns"] for x in runs) / steps / 1e6
    share = sum(x["busy_ns"] for x in runs) / sum(x["time_ns"] for x in runs)
    if not near(time_ms, s["time_ms"], 1e-6):
        fail(label, f"time_ms of {path}", time_ms, s["time_ms"])
    if s["gpu_busy_share"] is None:
        if not any(t.lacks_kernels() for t in traces) or not s["trace"]["idle"]["refused_because"]:
            fail(label, f"gpu_busy_share of {path}", share, None)
    elif not near(share, s["gpu_busy_share"], 1e-9) or share > 1 + 1e-9:
        fail(label, f"gpu_busy_share of {path}", share, s["gpu_busy_share"])
    row = next(r for r in rows if r["stage"] == s["name"] and r["parent"] == (s["parent"] or ""))
    for key, value in (("time_ms", s["time_ms"]), ("gpu_busy_ns", s["trace"]["gpu_busy_ns"]),
                       ("idle_ns", s["trace"]["idle_ns"]), ("wall_total_ns", s["trace"]["wall_ns"])):
        if not near(float(row[key]), value, 1e-6):
            fail(label, f"{key} of {path} in stages.csv", value, row[key])
    causes = sum(s["trace"]["idle"]["by_cause_ns"].values()) if s["trace"]["idle"]["known"] else s["trace"]["idle_ns"]
    if not near(causes, s["trace"]["idle_ns"]):
        fail(label, f"causes of idle time of {path}", s["trace"]["idle_ns"], causes)


def check_findings(label, metrics, findings):
    times = {s["name"]: s["time_ms"] for s in metrics["stages"] if not s["parent"]}
    for f in findings:
        if f["saving_ms"] is not None and f["stage"] and f["saving_ms"] > times[f["stage"]] * (1 + 1e-9):
            fail(label, f"saving of {f['rule']}", times[f["stage"]], f["saving_ms"])
    for s in metrics["stages"]:
        idle = 1 - s["gpu_busy_share"] if s["gpu_busy_share"] is not None else 0
        explained = any(f["stage"] == s["name"] for f in findings) or not s["trace"]["idle"]["known"]
        if idle > 0.15 and not s["parent"] and not s["outside"] and not explained:
            fail(label, f"explanation of the idle time of {s['name']}", f"{idle:.0%} idle", "none")


def check_stats(label, inferprof, files, traces):
    """`stats` shows the same partition of each device's timeline as the report."""
    out = subprocess.run([inferprof, "stats", "--json", *files], capture_output=True, text=True, check=True).stdout
    rows = json.loads(out)["gpu"]
    implicit = not any(t.occurrences for t in traces)
    mine = [Partition(t, device, implicit) for t in traces for device in sorted({w.device for w in t.works})]
    for (name, row), p in zip(rows.items(), mine):
        computed = {"timeline_ms": p.timeline, "busy_ms": sum(p.busy.values()), "idle_ms": sum(p.idle.values()),
                    "unrecorded_ms": p.unrecorded}
        if not implicit:
            computed["between_steps_ms"] = p.busy[None] + p.idle[None]
        for key, ns in computed.items():
            if row[key] is None or not near(ns / 1e6, row[key], 1e-5):
                fail(label, f"{key} of device {name} in stats", ns / 1e6, row[key])


def printed_number(text):
    return float(text.replace(",", "")) if text not in ("", "–") else 0.0


def check_printed_devices(label, folder, traces):
    """report.md and kernels.csv name each device by its number in the trace."""
    implicit = not any(t.occurrences for t in traces)
    mine = [(t, device) for t in traces for device in sorted({w.device for w in t.works if w.is_kernel})]
    with open(os.path.join(folder, "report.md"), encoding="utf-8") as f:
        section = f.read().partition("## Timeline of each device")[2].partition("\n## ")[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    busy = collections.defaultdict(float)
    for row in cells[2:]:
        busy[row[0]] += printed_number(row[cells[0].index("busy ms")])
    with open(os.path.join(folder, "kernels.csv"), encoding="utf-8") as f:
        kernels = collections.Counter()
        for row in csv.DictReader(f):
            kernels[row.get("device")] += int(row["calls"])
    if len(busy) != len(mine):
        fail(label, "devices in the timeline of report.md", len(mine), len(busy))
    numbers = [device for t in traces for device in {w.device for w in t.works}]
    for (t, device), (name, busy_ms) in zip(mine, busy.items()):
        if name.split(":")[-1] != str(device) or (":" in name) != (numbers.count(device) > 1):
            fail(label, "number of a device in report.md", device, name)
        here = sum(Partition(t, device, implicit).busy.values()) / 1e6
        if not near(here, busy_ms, 0.02 + 2e-3 * here):
            fail(label, f"busy ms of device {name} in report.md", here, busy_ms)
        calls = sum(w.is_kernel and w.device == device for w in t.works)
        if len(mine) > 1 and kernels[name] != calls:
            fail(label, f"calls on device {name} in kernels.csv", calls, kernels[name])


def read_folder(folder):
    """metrics.json, rows of stages.csv, findings."""
    with open(os.path.join(folder, "metrics.json"), encoding="utf-8") as f:
        metrics = json.load(f)
    with open(os.path.join(folder, "stages.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    with open(os.path.join(folder, "findings.json"), encoding="utf-8") as f:
        return metrics, rows, json.load(f)["findings"]


def compare_labelled(label, metrics, steps):
    """A labelled stage and the step that was recognised in it have the same time."""
    seen = 0
    for s in metrics["stages"]:
        times = [float(x["time_ms"]) for x in steps if x["label"] == s["name"]]
        if s["parent"] or len(times) != s["trace"]["occurrences"] or not times:
            continue
        seen += len(times)
        if not near(sum(times) / len(times), s["time_ms"], 1e-6):
            fail(label, f"time_ms of {s['name']} in steps.csv", s["time_ms"], sum(times) / len(times))
    return f"{seen} labelled steps recognised" if seen else None


def compare_recognised(label, folder, trace):
    """Stages that were read from kernels. The borders of the steps are those of steps.csv."""
    metrics, rows, findings = read_folder(folder)
    if not metrics.get("recognition"):
        return None
    with open(os.path.join(folder, "steps.csv"), encoding="utf-8") as f:
        steps = [s for s in csv.DictReader(f) if s["kind"] != "warm-up"]
    if not metrics["recognition"]["is_stages"]:
        return compare_labelled(label, metrics, steps)
    phases = metrics["recognition"]["phases"]
    begin = trace.start + phases["start_up_ns"] + phases["load_ns"] + phases["warm_up_ns"]
    part = trace.cut(begin, begin + phases["steady_ns"])
    part.occurrences = []
    for s in steps:
        start = begin + round(float(s["start_ms"]) * 1e6)
        part.occurrences.append((start, start + round(float(s["span_ms"]) * 1e6), None, s["kind"]))
    compare(f"{label}, recognised", [part], metrics, rows)
    check_findings(f"{label}, recognised", metrics, findings)
    for s in metrics["stages"]:
        times = [float(x["time_ms"]) for x in steps if x["kind"] == s["name"]]
        if times and not s["outside"] and not near(sum(times) / len(times), s["time_ms"], 1e-6):
            fail(label, f"time_ms of {s['name']} in steps.csv", s["time_ms"], sum(times) / len(times))
    return f"{len(steps)} recognised steps"


def run(inferprof, scratch, files):
    label = " + ".join(os.path.basename(f) for f in files)
    traces = []
    for f in files:
        traces += load_nsys(f) if f.endswith(".sqlite") else [load_kineto(f)]
    for t in traces:
        t.occurrences = drop_empty(t, find_occurrences(t.ranges))
    if not all(any(w.is_kernel for w in t.works) for t in traces):
        return f"{label}: no kernels"
    folder = os.path.join(scratch, "stage_time")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([inferprof, "import", "-q", "-o", folder, *files], check=True, stdout=subprocess.DEVNULL)
    recognised = compare_recognised(label, folder, traces[0]) if len(traces) == 1 else None
    # this oracle reads stages from ranges only
    subprocess.run([inferprof, "report", "-q", "--whole-trace", "-o", folder, folder], check=True, stdout=subprocess.DEVNULL)
    metrics, rows, findings = read_folder(folder)
    compare(label, traces, metrics, rows)
    check_findings(label, metrics, findings)
    check_stats(label, inferprof, files, traces)
    check_printed_devices(label, folder, traces)
    parts = [recognised] if recognised else []
    for s in metrics["stages"]:
        if not s["parent"] and not s["outside"] and s["time_ms"] is not None:
            parts.append(f"{s['name']} {s['time_ms']:.3f} ms, busy {100 * (s['gpu_busy_share'] or 0):.1f}%")
    return f"{label}: " + "; ".join(parts)


def main():
    inferprof, scratch, *files = sys.argv[1:]
    if files[0] == "--ranks":
        print(run(inferprof, scratch, files[1:]))
        return
    for f in files:
        print(run(inferprof, scratch, [f]), flush=True)


main()
