#!/usr/bin/env python3
"""Writes damaged and unusual variants of a torch.profiler trace, one file each, for trace_properties.py.

    mutate_trace.py FILE FOLDER"""
import copy
import gzip
import json
import os
import sys

WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def is_work(e):
    return e.get("cat") in WORK


def is_launch(e):
    return e.get("cat") in ("cuda_runtime", "cuda_driver")


def cut(events):
    """Recording ends when half of the work has started."""
    starts = sorted(float(e["ts"]) for e in events if is_work(e))
    return [e for e in events if e.get("ph") != "X" or float(e["ts"]) <= starts[len(starts) // 2]]


def begin_late(events):
    """The launches of the first half of the work are missing."""
    works = sorted((e for e in events if is_work(e)), key=lambda e: float(e["ts"]))
    early = {e["args"].get("correlation") for e in works[:len(works) // 2]}
    return [e for e in events if not (is_launch(e) and e["args"].get("correlation") in early)]


def without_launches(events):
    return [e for e in events if not is_launch(e)]


def overlapping_streams(events):
    """Each kernel also runs on seven other streams, a little later."""
    more = []
    for e in events:
        for stream in range(7) if e.get("cat") == "kernel" else ():
            e = copy.deepcopy(e)
            e["tid"] = e["args"]["stream"] = 100 + stream
            e["ts"] = float(e["ts"]) + 0.25
            more.append(e)
    return events + more


def empty_kernels(events):
    """Every second kernel takes no time."""
    for i, e in enumerate(e for e in events if e.get("cat") == "kernel"):
        e["dur"] = e["dur"] if i % 2 else 0
    return events


def annotations_twice(events):
    return events + [copy.deepcopy(e) for e in events if "annotation" in e.get("cat", "")]


def annotations_of_another_thread(events):
    more = [copy.deepcopy(e) for e in events if e.get("cat") == "user_annotation"]
    for e in more:
        e["tid"] = 4242
    return events + more


def unknown_names(events):
    for e in events:
        if e.get("cat") == "kernel":
            e["name"] = f"k{len(e['name']) % 7}"
    return events


def one_kernel_elsewhere(events):
    """One kernel of the step runs on another device."""
    kernels = [e for e in events if e.get("cat") == "kernel"]
    kernels[len(kernels) // 2]["args"]["device"] = 5
    kernels[len(kernels) // 2]["pid"] = 5
    return events


def late_device(events):
    """The device's clock is 30 ms late."""
    for e in events:
        if is_work(e):
            e["ts"] = float(e["ts"]) + 30000
    return events


def early_device(events):
    """Work starts before its launch."""
    for e in events:
        if is_work(e):
            e["ts"] = float(e["ts"]) - 200
    return events


def two_processes(events):
    """A second process has the same threads, streams and correlation ids, 3 ms later, on the same device."""
    more = []
    for e in copy.deepcopy(events):
        if e.get("ph") == "X":
            e["ts"] = float(e["ts"]) + 3000
            e["pid"] = e["pid"] if is_work(e) or not isinstance(e["pid"], int) else e["pid"] + 100000
            more.append(e)
    return events + more


MUTATIONS = (cut, begin_late, without_launches, overlapping_streams, empty_kernels, annotations_twice,
             annotations_of_another_thread, unknown_names, one_kernel_elsewhere, late_device, early_device, two_processes)


def main():
    path, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="replace") as f:
        document = json.load(f)
    for mutate in MUTATIONS:
        changed = dict(document, traceEvents=mutate(copy.deepcopy(document["traceEvents"])))
        with open(os.path.join(folder, f"{mutate.__name__}.json"), "w", encoding="utf-8") as f:
            json.dump(changed, f)


main()
