#!/usr/bin/env python3
"""The totals of one trace of our own, counted from its records without the timeline and the analysis.

    inferprof trace dump --json TRACE >DUMP; inferprof stats --json TRACE >STATS
    trace_stats.py STATS DUMP           compares the two

Kernel names are left out: records have them mangled. The rows by name are compared by calls and time.
"""
import json
import sys
from collections import defaultdict

from kineto_stats import enclosing, first_open, union

OP, STAGE, USER = 3, 1, 0  # enum trace_range_category
MARK, FREE = 1, 2  # enum trace_range_flags
MEMSET = 6  # enum trace_copy_kind
COPY_KINDS = ["unknown", "HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "memset"]


def is_annotation(r):
    by_people = r["domain"] not in ("python_function", "overhead", "Trace", "gpu_user_annotation")
    return r["category"] == STAGE or (r["category"] == USER and not r["flags"] & FREE and by_people)


def without_step(name):
    head, _, number = name.rpartition("#")
    return head if head and number.isdigit() else name


def range_rows(ranges, launched):
    """name -> [calls, total, self, device, self device] in ns. `launched`: thread -> [(time of the call, ns of its work)]."""
    rows, threads = defaultdict(lambda: [0, 0, 0, 0, 0]), defaultdict(list)
    for order, (name, r) in enumerate(ranges):
        threads[r["thread"]].append((r["start_ns"], -r["end_ns"], order, name))
    for thread, mine in threads.items():
        mine.sort()
        stack, first = [], first_open(mine)
        for start, minus_end, _, name in mine:
            while stack and stack[-1][0] <= start:
                stack.pop()
            row, duration = rows[name], -minus_end - start
            row[0], row[1], row[2] = row[0] + 1, row[1] + duration, row[2] + duration
            if stack:
                rows[stack[-1][1]][2] -= min(-minus_end, stack[-1][0]) - start
            stack.append((-minus_end, name))
        for at, ns in launched[thread]:
            around = enclosing(mine, first, at)
            for name in {o[3] for o in around}:
                rows[name][3] += ns
            if around:
                rows[around[-1][3]][4] += ns
    return rows


def compare(ours, records):
    bad, by_kind = [], defaultdict(list)
    for r in records:
        by_kind[r["kind"]].append(r)

    def same(what, got, wanted):
        if got != wanted:
            bad.append(f"{what}: {got}, expected {wanted}")

    def ns(ms):
        return round(ms * 1e6)

    kernels, copies = by_kind["kernel"], by_kind["copy"]
    work = kernels + copies
    calls = {}
    for call in by_kind["launch"]:
        calls.setdefault(call["correlation"], call)
    launched = defaultdict(list)
    for w in work:
        call = calls.get(w["correlation"]) if w["correlation"] else None
        if call:
            launched[call["thread"]].append((call["start_ns"], w["end_ns"] - w["start_ns"]))
    same("no_launch", ours["problems"].get("no_launch", 0), len(work) - sum(len(v) for v in launched.values()))

    by_name = defaultdict(lambda: [0, 0])
    for k in kernels:
        by_name[k["name"]][0] += 1
        by_name[k["name"]][1] += k["end_ns"] - k["start_ns"]
    same("kernels", sorted([r["calls"], ns(r["total_ms"])] for r in ours["kernels"]["by_name"]), sorted(by_name.values()))
    for kind, name in enumerate(COPY_KINDS):
        mine = [c for c in copies if c["copy_kind"] == kind]
        row = next((r for r in ours["copies"]["by_kind"] if r["kind"] == name), {"count": 0, "bytes": 0, "total_ms": 0})
        same(f"copies {name}", (row["count"], row["bytes"], ns(row["total_ms"])),
             (len(mine), sum(c["bytes"] for c in mine), sum(c["end_ns"] - c["start_ns"] for c in mine)))

    def intervals(of):
        return [(w["start_ns"], w["end_ns"]) for w in of]

    for device in {w["device"] for w in work}:
        mine = [w for w in work if w["device"] == device]
        row = ours["gpu"][str(device)]
        same(f"device {device}", (ns(row["busy_ms"]), ns(row["kernel_busy_ms"]), ns(row["span_ms"])),
             (union(intervals(mine)), union(intervals([k for k in kernels if k["device"] == device])),
              max(w["end_ns"] for w in mine) - min(w["start_ns"] for w in mine)))
    for row in ours["streams"]:
        mine = [w for w in work if (w["device"], w["stream"]) == (row["device"], row["stream"])]
        same(f"stream {row['stream']}", (row["kernels"] + row["copies"], ns(row["busy_ms"])), (len(mine), union(intervals(mine))))

    ranges = [r for r in by_kind["range"] if not r["flags"] & MARK]
    for key, mine in (("ops", [(r["name"], r) for r in ranges if r["category"] == OP]),
                      ("stages", [(without_step(r["name"]), r) for r in ranges if is_annotation(r)])):
        got = {r["name"]: [r["calls"]] + [ns(r[k]) for k in ("total_ms", "self_ms", "device_ms", "self_device_ms")]
               for r in ours[key]["by_name"]}
        same(key, got, dict(range_rows(mine, launched)))
        same(f"events of {key}", ours["events"].get("cpu_op" if key == "ops" else "user_annotation", 0), len(mine))
    for kind, event in (("kernel", "kernel"), ("launch", "runtime"), ("sync", "sync"), ("token", "token")):
        same(f"events {event}", ours["events"].get(event, 0), len(by_kind[kind]))
    same("memsets", ours["events"].get("memset", 0), sum(c["copy_kind"] == MEMSET for c in copies))
    return bad


def main():
    stats, dump = sys.argv[1:]
    with open(stats, encoding="utf-8") as f, open(dump, encoding="utf-8") as lines:
        bad = compare(json.load(f), [json.loads(line) for line in lines])
    for line in bad[:20]:
        print(line[:2000])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
