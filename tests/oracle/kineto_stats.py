#!/usr/bin/env python3
"""The totals of a torch.profiler trace, computed with Python's json module and no code of inferprof.

    kineto_stats.py TRACE...                    prints them as JSON
    kineto_stats.py --compare STATS TRACE       compares with what `inferprof stats --json TRACE` printed
    kineto_stats.py --compare STATS TRACE...    the same for the ranks of one job: communication, skew, slowest rank

Counts must be equal. Times may differ by 1 us per thousand events (at least 1 us).
"""
import bisect
import gzip
import json
import sys
from collections import defaultdict
from decimal import Decimal

KERNEL, MEMCPY, MEMSET = ("kernel", "Kernel"), ("gpu_memcpy", "Memcpy"), ("gpu_memset", "Memset")
CALL = ("cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime", "hip_runtime", "xpu_runtime")
OP = ("cpu_op", "Operator")
KINDS = {  # kind of an X event, by category; any other category is "other"
    **{c: "kernel" for c in KERNEL}, **{c: "memcpy" for c in MEMCPY}, **{c: "memset" for c in MEMSET}, **{c: "cpu_op" for c in OP},
    "cuda_runtime": "runtime", "Runtime": "runtime", "mtia_runtime": "runtime", "hip_runtime": "runtime", "xpu_runtime": "runtime",
    "cuda_driver": "driver", "user_annotation": "user_annotation", "gpu_user_annotation": "gpu_user_annotation",
    "python_function": "python_function", "Python": "python_function", "overhead": "overhead", "Overhead": "overhead",
    "cuda_sync": "sync", "Sync": "sync",
}
PHASES = {"s": "flow", "t": "flow", "f": "flow", "M": "metadata", "C": "counter", "i": "instant", "I": "instant", "R": "instant", "n": "instant"}


def ns(value):
    return int((Decimal(str(value)) * 1000).to_integral_value())


def load(path):
    opener = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opener(path, "rb") as f:
        data = json.load(f, parse_float=Decimal)
    return data["traceEvents"] if isinstance(data, dict) else data


def union(intervals):
    total, until = 0, None
    for start, end in sorted(intervals):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def last_number(value):
    """7 of 7, "7" and "stream 7"."""
    return int(str(value).split(" ")[-1])


def count_kinds(events):
    kinds = defaultdict(int)
    for e in events:
        phase = e.get("ph")
        if phase == "X" and "dur" in e:
            kinds[KINDS.get(e.get("cat"), "other")] += 1
        elif phase in PHASES:
            kinds[PHASES[phase]] += 1
    return kinds


def stats(path):
    everything = load(path)
    events = [e for e in everything if e.get("ph") == "X" and "dur" in e]
    work = []  # (device, start, end, correlation, name or None, category, stream, bytes)
    calls, ops = {}, defaultdict(list)  # calls: correlation -> the first call with that id
    for order, e in enumerate(events):
        cat, args = e.get("cat"), e.get("args", {})
        start = ns(e["ts"])
        end = start + ns(e["dur"])
        thread = (str(e.get("pid")), str(e.get("tid")))
        if cat in KERNEL + MEMCPY + MEMSET:
            device = args.get("device", e.get("pid"))
            work.append((int(device), start, end, args.get("correlation"), e["name"] if cat in KERNEL else None, cat,
                         last_number(args.get("stream", e.get("tid"))), int(args.get("bytes", 0))))
        elif cat in CALL and args.get("correlation") is not None:
            calls.setdefault(args["correlation"], (start, thread))
        elif cat in OP:
            ops[thread].append((start, -end, order, e["name"]))

    out = {"kernels": {}, "gpu": {}, "ops": {}, "counts": defaultdict(int)}
    for device, start, end, _, name, cat, _, _ in work:
        if name is not None:
            row = out["kernels"].setdefault(name, [0, 0])
            row[0], row[1] = row[0] + 1, row[1] + end - start
        out["counts"]["kernel" if cat in KERNEL else "memcpy" if cat in MEMCPY else "memset"] += 1
    out["counts"]["cpu_op"] = sum(len(v) for v in ops.values())
    out["kinds"] = count_kinds(everything)
    out["events"] = len(events)
    copies = [w for w in work if w[4] is None]
    out["copies"] = (len(copies), sum(w[7] for w in copies), sum(w[2] - w[1] for w in copies))
    out["streams"] = {}
    for key in {(w[0], w[6]) for w in work}:
        mine = [w for w in work if (w[0], w[6]) == key]
        out["streams"][key] = (sum(w[4] is not None for w in mine), sum(w[4] is None for w in mine), union([w[1:3] for w in mine]))
    out["comm"] = [w[1:3] for w in work if w[4] and "nccl" in w[4].lower()]
    out["compute"] = [w[1:3] for w in work if w[4] and "nccl" not in w[4].lower()]
    for device in {w[0] for w in work}:
        mine = [w for w in work if w[0] == device]
        span = max(w[2] for w in mine) - min(w[1] for w in mine)
        busy = union([(w[1], w[2]) for w in mine])
        kernel_busy = union([(w[1], w[2]) for w in mine if w[4] is not None])
        out["gpu"][str(device)] = {"busy": busy, "span": span, "kernel_busy": kernel_busy}

    # Operators nest on their thread. Device work belongs to the operators open when it was launched.
    rows = defaultdict(lambda: [0, 0, 0, 0, 0])  # calls, total, self, device, self_device
    launched = defaultdict(list)
    for device, start, end, correlation, name, cat, _, _ in work:
        if correlation and correlation in calls:
            at, thread = calls[correlation]
            launched[thread].append((at, end - start))
    for thread, mine in ops.items():
        mine.sort()
        stack, first = [], first_open(mine)
        for start, minus_end, _, name in mine:
            end = -minus_end
            while stack and stack[-1][1] <= start:
                stack.pop()
            row = rows[name]
            row[0], row[1], row[2] = row[0] + 1, row[1] + end - start, row[2] + end - start
            if stack:
                rows[stack[-1][2]][2] -= min(end, stack[-1][1]) - start
            stack.append((start, end, name))
        for at, duration in launched[thread]:
            around = enclosing(mine, first, at)
            for name in {o[3] for o in around}:
                rows[name][3] += duration
            if around:
                rows[around[-1][3]][4] += duration
    out["ops"] = dict(rows)
    return out


def first_open(sorted_ops):
    """For each operator, the index of the first one that can still be open when it starts."""
    result, top, until = [], 0, None
    for i, (start, minus_end, _, _) in enumerate(sorted_ops):
        if until is None or start >= until:
            top, until = i, -minus_end
        until = max(until, -minus_end)
        result.append(top)
    return result


def enclosing(sorted_ops, first, at):
    """Operators open at a moment, outermost first. `first` is first_open(sorted_ops): where the search begins."""
    i = bisect.bisect_right(sorted_ops, (at, 1))  # ends are negative, so all that start at `at` come before
    return [op for op in sorted_ops[first[i - 1]:i] if -op[1] > at] if i else []


def compare(ours, path):
    want = stats(path)
    slack = max(1.0, want["events"] / 1000.0) / 1000.0  # ms
    bad = []

    def near(what, got, wanted_ns):
        if abs(got - wanted_ns / 1e6) > slack:
            bad.append(f"{what}: {got} ms, expected {wanted_ns / 1e6}")

    def same(what, got, wanted):
        if got != wanted:
            bad.append(f"{what}: {got}, expected {wanted}")

    for kind in set(KINDS.values()) | set(PHASES.values()) | {"other"}:
        same(f"events.{kind}", ours["events"].get(kind, 0), want["kinds"][kind])
    rows = {r["name"]: r for r in ours["kernels"]["by_name"]}
    same("kernel names", set(rows) ^ set(want["kernels"]), set())
    same("kernels.count", ours["kernels"]["count"], want["counts"]["kernel"])
    near("kernels.total_ms", ours["kernels"]["total_ms"], sum(r[1] for r in want["kernels"].values()))
    for name, (calls, total) in want["kernels"].items():
        if name in rows:
            same(f"calls of {name[:60]}", rows[name]["calls"], calls)
            near(f"time of {name[:60]}", rows[name]["total_ms"], total)
            near(f"mean of {name[:60]}", rows[name]["mean_us"] / 1e3, total / calls)
    same("copies", ours["copies"]["count"], want["copies"][0])
    same("copied bytes", ours["copies"]["bytes"], want["copies"][1])
    near("copies.total_ms", ours["copies"]["total_ms"], want["copies"][2])
    streams = {(r["device"], r["stream"]): r for r in ours["streams"]}
    same("streams", set(streams) ^ set(want["streams"]), set())
    for key, (kernels, copies, busy) in want["streams"].items():
        if key in streams:
            same(f"work of stream {key}", (streams[key]["kernels"], streams[key]["copies"]), (kernels, copies))
            near(f"busy of stream {key}", streams[key]["busy_ms"], busy)
    same("devices", set(ours["gpu"]), set(want["gpu"]))
    for device, w in want["gpu"].items():
        for key in ("busy", "span", "kernel_busy"):
            near(f"gpu {device} {key}", ours["gpu"].get(device, {}).get(key + "_ms", -1), w[key])
    rows = {r["name"]: r for r in ours["ops"]["by_name"]}
    same("op names", set(rows) ^ set(want["ops"]), set())
    for name, w in want["ops"].items():
        if name not in rows:
            continue
        same(f"calls of {name}", rows[name]["calls"], w[0])
        for i, key in enumerate(("total_ms", "self_ms", "device_ms", "self_device_ms")):
            near(f"{key} of {name}", rows[name][key], w[i + 1])
    return bad


def compare_ranks(ours, paths):
    """Communication: union of NCCL's kernels. Compute: union of all others. Hidden: the time both have in common."""
    ranks, bad = [stats(p) for p in paths], []
    slack = max(1.0, sum(r["events"] for r in ranks) / 1000.0) / 1000.0

    def near(what, got, wanted, within=slack):
        if got is None or abs(got - wanted) > within:
            bad.append(f"{what}: {got}, expected {wanted}")

    comm = [union(r["comm"]) for r in ranks]
    compute = [union(r["compute"]) for r in ranks]
    busy = [sum(d["busy"] for d in r["gpu"].values()) for r in ranks]
    hidden = [c + o - union(r["comm"] + r["compute"]) for r, c, o in zip(ranks, comm, compute)]
    for i, row in enumerate(ours["ranks"]):
        near(f"communication_ms of {i}", row["communication_ms"], comm[i] / 1e6)
        near(f"compute_ms of {i}", row["compute_ms"], compute[i] / 1e6)
        near(f"communication_share of {i}", row["communication_share"], comm[i] / busy[i], 1e-6)
        near(f"communication_overlap of {i}", row["communication_overlap"], hidden[i] / comm[i], 1e-6)
    both = ours["together"]
    near("share together", both["communication_share"], sum(comm) / sum(busy), 1e-6)
    near("overlap together", both["communication_overlap"], sum(hidden) / sum(comm), 1e-6)
    near("slowest", both["slowest_rank"], compute.index(max(compute)), 0)
    return bad


def main():
    if len(sys.argv) > 4 and sys.argv[1] == "--compare":
        bad = compare_ranks(json.load(open(sys.argv[2])), sys.argv[3:])
        print("\n".join(bad[:20]))
        return 1 if bad else 0
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        bad = compare(json.load(open(sys.argv[2])), sys.argv[3])
        for line in bad[:20]:
            print(line)
        return 1 if bad else 0
    for path in sys.argv[1:]:
        s = stats(path)
        print(json.dumps({"file": path, "counts": s["counts"], "gpu": s["gpu"], "kernels": s["kernels"], "ops": s["ops"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
