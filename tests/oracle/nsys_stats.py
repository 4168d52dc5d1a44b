#!/usr/bin/env python3
"""The totals of an Nsight Systems SQLite export, computed with Python's sqlite3 module and no code of inferprof.

    nsys_stats.py STATS EXPORT[.gz]     compares with what `inferprof stats --json EXPORT` printed
"""
import gzip
import json
import sqlite3
import sys
import tempfile
from collections import defaultdict


def rows(db, sql):
    try:
        return db.execute(sql).fetchall()
    except sqlite3.OperationalError as e:
        if "no such table" in str(e):
            return []
        raise


def union(intervals):
    total, until = 0, None
    for start, end in sorted(intervals):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def compare(ours, db):
    bad = []

    def same(what, got, wanted):
        if got != wanted:
            bad.append(f"{what}: {got}, expected {wanted}")

    def near(what, got, wanted_ns):
        if abs(got - wanted_ns / 1e6) > 1e-6:
            bad.append(f"{what}: {got} ms, expected {wanted_ns / 1e6}")

    kernels = rows(db, "select k.start, k.end, k.deviceId, s.value from CUPTI_ACTIVITY_KIND_KERNEL k "
                       "join StringIds s on s.id = k.demangledName")
    memcpys = rows(db, "select start, end, deviceId, bytes from CUPTI_ACTIVITY_KIND_MEMCPY")
    memsets = rows(db, "select start, end, deviceId, bytes from CUPTI_ACTIVITY_KIND_MEMSET")
    calls = rows(db, "select distinct globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME")
    ranges = rows(db, "select count(*) from NVTX_EVENTS where eventType in (59, 60)")
    by_name = defaultdict(lambda: [0, 0])
    for start, end, _, name in kernels:
        by_name[name][0] += 1
        by_name[name][1] += end - start
    events = ours["events"]
    same("kernels", events.get("kernel", 0), len(kernels))
    same("memcpy", events.get("memcpy", 0), len(memcpys))
    same("memset", events.get("memset", 0), len(memsets))
    same("calls", events.get("runtime", 0) + events.get("driver", 0), len(calls))
    same("ranges", events.get("nvtx", 0) + events.get("cpu_op", 0), ranges[0][0] if ranges else 0)
    same("bytes", ours["copies"]["bytes"], sum(r[3] for r in memcpys + memsets))
    got = {r["name"]: r for r in ours["kernels"]["by_name"]}
    same("names", set(got) ^ set(by_name), set())
    for name, (n, total) in by_name.items():
        if name in got:
            same(f"calls of {name[:50]}", got[name]["calls"], n)
            near(f"time of {name[:50]}", got[name]["total_ms"], total)
    for device in {k[2] for k in kernels}:
        every = [(r[0], r[1]) for r in kernels + memcpys + memsets if r[2] == device]
        near(f"busy of {device}", ours["gpu"][str(device)]["busy_ms"], union(every))
        near(f"kernel busy of {device}", ours["gpu"][str(device)]["kernel_busy_ms"],
             union([(r[0], r[1]) for r in kernels if r[2] == device]))
        near(f"span of {device}", ours["gpu"][str(device)]["span_ms"], max(e[1] for e in every) - min(e[0] for e in every))
    return bad


def main():
    stats, path = sys.argv[1:]
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as plain:
        if path.endswith(".gz"):
            plain.write(gzip.open(path).read())
            plain.flush()
            path = plain.name
        bad = compare(json.load(open(stats)), sqlite3.connect(f"file:{path}?mode=ro", uri=True))
    for line in bad[:20]:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
