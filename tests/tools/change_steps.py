"""Makes other traces of a server's steps out of recorded ones, without their labels.

    change_steps.py OUT.json PART...

PART is TRACE[:CHANGE...]; the steps of the parts follow each other. Changes:

batch=OLD,NEW       another number of requests: in the sizes of copies and in the grids
copies=OLD,NEW      the same, in the sizes of copies alone, so that they contradict the grids
start=S, end=S      only the work on the GPU after, or before, the share S (0 to 1) of its time, with the calls since then
on=N                on another device, launched by another thread
device=N            on another device, launched by another thread, at the same time as the part before
"""
import copy
import gzip
import json
import sys

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
PAUSE_US = 200


def read(path):
    trace = json.load((gzip.open if path.endswith(".gz") else open)(path))
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in GPU + ("cuda_runtime", "cuda_driver")]
    return trace


def change_batch(events, old, new, grids):
    for a in (e["args"] for e in events):
        if a.get("bytes") in (old, old * 4, old * 8):
            a["bytes"] = a["bytes"] // old * new
        if grids and "grid" in a:
            a["grid"] = [new if n == old else n for n in a["grid"]]


def cut(events, keep_after, share):
    times = [e["ts"] for e in events if e["cat"] in GPU]
    at = min(times) + (max(times) - min(times)) * share
    return [e for e in events if (e["ts"] >= at) == keep_after]


def move(events, device):
    for e in events:
        if e["cat"] in GPU:
            e["args"]["device"] = e["pid"] = device
        else:
            e["tid"] += device


def main():
    out, parts = sys.argv[1], sys.argv[2:]
    whole, now, start = None, 0.0, 0.0
    for n, part in enumerate(parts):
        path, *changes = part.split(":")
        trace = read(path)
        events, beside = trace["traceEvents"], False
        for name, value in (c.split("=") for c in changes):
            if name in ("batch", "copies"):
                change_batch(events, *(int(v) for v in value.split(",")), grids=name == "batch")
            elif name in ("start", "end"):
                events = cut(events, name == "start", float(value))
            elif name == "on":
                move(events, int(value))
            elif name == "device":
                beside = True
                move(events, int(value))
                first = dict(whole["deviceProperties"][0])
                whole["deviceProperties"].append(dict(first, id=int(value)))
            else:
                sys.exit(f"unknown change {name}")
        first = min(e["ts"] for e in events)
        start = start if beside else now
        for e in events:
            e["ts"] += start - first
            if e["args"].get("correlation"):
                e["args"]["correlation"] += n * 10**7
        now = max(now, max(e["ts"] + e["dur"] for e in events) + PAUSE_US)
        if whole is None:
            whole = copy.deepcopy(trace)
            whole["traceEvents"] = []
        whole["traceEvents"] += events
    json.dump(whole, open(out, "w"))


main()
