#!/usr/bin/env python3
"""Properties of the output that hold for every trace.

    trace_properties.py INFERPROF SCRATCH_DIR FILE_OR_FOLDER...

Of a folder, all *.json, *.json.gz, *.pt.trace.json.gz and *.sqlite files are read. Files that inferprof cannot import are
listed and left out. For each other file:
- stages, "between steps" and unrecorded time of a device add up to its timeline;
- no share is over 100%, and no saving is larger than the time of its stage;
- a stage that idles more than 15% has a finding, or the reason why there is none;
- the screen, report.md, stages.csv, metrics.json and `stats` show the same figures;
- an idle device, or a second rank, changes no figure of the first one (torch.profiler files)."""
import csv
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

IDLE_LIMIT = 0.15
problems = []


def complain(label, text):
    problems.append(f"{label}: {text}")


def command(*args):
    return subprocess.run(args, capture_output=True, text=True, errors="replace", check=False)


def near(a, b, tolerance=1e-9):
    return a is not None and b is not None and abs(a - b) <= tolerance * max(1, abs(a), abs(b))


def load(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f) if name.endswith(".json") else list(csv.DictReader(f)) if name.endswith(".csv") else f.read()


def shares_of(value, path=""):
    """(path, number) of every member whose name says that it is a share."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from shares_of(member, f"{path}.{key}")
    elif isinstance(value, list):
        for i, member in enumerate(value):
            yield from shares_of(member, f"{path}[{i}]")
    elif isinstance(value, (int, float)) and path.endswith("share"):
        yield path, value


def check_sums(label, metrics):
    for device in metrics["devices"]:
        if not device["timeline_ns"]:
            continue
        total = device["unrecorded_ns"] + sum(
            on["busy_ns"] + on["idle_ns"] for s in metrics["stages"] if not s["parent"]
            for on in s["trace"]["device_time"] if on["device"] == device["device"])
        unknown = any((s["time_source"] or "").startswith("none: ") for s in metrics["stages"])
        if not unknown and not near(total, device["timeline_ns"]):
            complain(label, f"device {device['index']}: parts {total} ns, timeline {device['timeline_ns']} ns")


def check_idle(label, metrics, findings, screen):
    times = {s["name"]: s["time_ms"] for s in metrics["stages"] if not s["parent"]}
    for f in findings:
        if f["saving_ms"] is not None and f["stage"] and f["saving_ms"] > times[f["stage"]] * (1 + 1e-9):
            complain(label, f"{f['rule']} saves {f['saving_ms']} of {times[f['stage']]} ms")
    for s in metrics["stages"]:
        busy = s["gpu_busy_share"]
        if s["parent"] or s["outside"] or busy is None or 1 - busy <= IDLE_LIMIT:
            continue
        refused = s["trace"]["idle"]["refused_because"]
        if not refused and not any(f["stage"] == s["name"] for f in findings):
            complain(label, f"{s['name']} idles {1 - busy:.0%} without an explanation")
        if refused and "idle time not classified" not in " ".join(screen.split()):
            complain(label, f"the screen does not say why {s['name']} has no analysis")


def significant(text):
    return float(text.replace(",", "")) if re.fullmatch(r"[\d,.]+", text) else None


def as_printed(value, text):
    """Whether `text` is `value` with the digits that were printed."""
    digits = len(text.partition(".")[2])
    return abs(value - significant(text)) <= 0.5000001 * 10**-digits + 5e-4 * abs(value)


def check_same(label, metrics, folder, screen):
    rows = {(r["stage"], r["parent"]): r for r in load(folder, "stages.csv")}
    markdown = load(folder, "report.md")
    for s in metrics["stages"]:
        row = rows[s["name"], s["parent"] or ""]
        for key, value in (("time_ms", s["time_ms"]), ("gpu_busy_ns", s["trace"]["gpu_busy_ns"]),
                           ("idle_ns", s["trace"]["idle_ns"])):
            if (row[key] == "") != (value is None) or (value is not None and not near(float(row[key]), value)):
                complain(label, f"{key} of {s['name']}: {row[key]} in stages.csv, {value} in metrics.json")
        if s["outside"] or s["time_ms"] is None or s["parent"]:
            continue
        for where, text, pattern in (("screen", screen, rf"^{re.escape(s['name'])} +([\d,.]+)"),
                                     ("report.md", markdown, rf"^\| {re.escape(s['name'])} \| ([\d,.]+)")):
            found = re.search(pattern, text, re.M)
            if not found or not as_printed(s["time_ms"], found[1]):
                complain(label, f"time of {s['name']}: {found and found[1]} in {where}, {s['time_ms']} in metrics.json")


def check_stats(label, inferprof, path, metrics):
    """Of whole traces: a report about recognised steps is about a part of the trace."""
    if metrics.get("recognition") and metrics["recognition"]["is_stages"]:
        return
    stats = json.loads(command(inferprof, "stats", "--json", path).stdout)
    rows = list(stats["gpu"].values())
    devices = [d for d in metrics["devices"] if d["timeline_ns"]]
    if len(rows) != len(devices):
        complain(label, f"{len(rows)} devices in stats, {len(devices)} in metrics.json")
    for device, row in zip(sorted(devices, key=lambda d: d["index"]), rows):
        for key, value in (("timeline_ms", device["timeline_ns"]), ("busy_ms", device["work_ns"]),
                           ("unrecorded_ms", device["unrecorded_ns"])):
            if not near(row[key], value / 1e6, 1e-6):
                complain(label, f"{key} of device {device['index']}: {row[key]} in stats, {value / 1e6} in metrics.json")
        if row["unrecorded_ms"] and not near(row["unrecorded_limit_ms"], device["unrecorded_limit_ns"] / 1e6):
            complain(label, f"limit of unrecorded time: {row['unrecorded_limit_ms']} ms in stats")


def figures_of(metrics, rank, index):
    """All figures of one device, and those of its stages."""
    device, = [d for d in metrics["devices"] if d["index"] == index and d["rank"] == rank and d["timeline_ns"]]
    stages = {}
    for s in metrics["stages"]:
        for on in s["trace"]["device_time"]:
            if on["device"] == device["device"] and on["time_ns"]:
                stages[s["parent"], s["name"]] = {k: v for k, v in on.items() if k != "device"}
    return {k: v for k, v in device.items() if k != "device"}, stages


def write_trace(text, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def as_rank(text, rank):
    """The trace as a rank of two. Numbers keep their digits, so the text is changed, not the document."""
    found = re.search(r'"distributedInfo"\s*:\s*', text)
    if found:
        end = found.end() + json.JSONDecoder().raw_decode(text[found.end():found.end() + 1000000])[1]
        text = text[:found.start()] + '"replaced": ' + text[found.end():end] + text[end:]
    return text.replace("{", '{"distributedInfo": {"rank": %d, "world_size": 2},' % rank, 1)


def import_metrics(inferprof, folder, *files):
    shutil.rmtree(folder, ignore_errors=True)
    done = command(inferprof, "import", "-q", "-o", folder, *files)
    return load(folder, "metrics.json") if done.returncode == 0 else None


def check_additions(label, inferprof, scratch, path, metrics):
    devices = [d for d in metrics["devices"] if d["timeline_ns"]]
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="replace") as f:
        text = f.read()
    document = json.loads(text, parse_float=str)
    if not isinstance(document, dict) or len(devices) != 1:
        return
    rank, index = devices[0]["rank"], devices[0]["index"]
    before, folder = figures_of(metrics, rank, index), os.path.join(scratch, "properties-more")
    busy = [e for e in document["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]
    if busy:
        middle = busy[len(busy) // 2]
        extra = {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 77, "tid": 7, "ts": middle["ts"], "dur": 1,
                 "args": {"device": 77, "stream": 7, "correlation": 2000000001, "bytes": 4}}
        start = re.search(r'"traceEvents"\s*:\s*\[', text).end()
        event = json.dumps(extra).replace(json.dumps(middle["ts"]), str(middle["ts"]), 1)
        one = write_trace(text[:start] + event + "," + text[start:], os.path.join(scratch, "idle.json"))
        more = import_metrics(inferprof, folder, one)
        if not more or figures_of(more, rank, index) != before:
            complain(label, "an idle device changes the figures of the first")
    first = write_trace(as_rank(text, 0), os.path.join(scratch, "rank0.json"))
    second = write_trace(as_rank(text, 1), os.path.join(scratch, "rank1.json"))
    alone, both = import_metrics(inferprof, folder, first), import_metrics(inferprof, folder, first, second)
    if not alone or not both or figures_of(alone, 0, index) != figures_of(both, 0, index):
        complain(label, "a second rank changes the figures of the first")


def check_file(inferprof, scratch, path):
    label, folder = os.path.basename(path), os.path.join(scratch, "properties")
    metrics = import_metrics(inferprof, folder, path)
    if not metrics:
        return f"{label}: not imported"
    screen = command(inferprof, "report", "-o", folder, folder).stdout
    findings = load(folder, "findings.json")["findings"]
    check_sums(label, metrics)
    for where, share in shares_of(metrics):
        if share > 1 + 1e-9:
            complain(label, f"{where} is {share}")
    check_idle(label, metrics, findings, screen)
    check_same(label, metrics, folder, screen)
    check_stats(label, inferprof, path, metrics)
    if not path.endswith(".sqlite"):
        check_additions(label, inferprof, scratch, path, metrics)
    return f"{label}: {len(metrics['stages'])} stages, {len(findings)} findings"


def main():
    inferprof, scratch, *operands = sys.argv[1:]
    files = []
    for o in operands:
        files += sorted(glob.glob(f"{o}/*.json") + glob.glob(f"{o}/*.json.gz") + glob.glob(f"{o}/*.sqlite")) if os.path.isdir(o) else [o]
    for path in files:
        print(check_file(inferprof, scratch, path), flush=True)
    print("\n".join(problems))
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
