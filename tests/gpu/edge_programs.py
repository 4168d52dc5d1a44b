"""Programs with unusual behaviour, to run under `inferprof run`. Each prints one JSON line on stdout, then ends as requested.

    edge_programs.py workers          two spawned processes with kernels of their own, two forked ones without
    edge_programs.py profiler         uses torch.profiler itself, twice
    edge_programs.py profiler-first   the same, before its first use of CUDA
    edge_programs.py holder           subscribes to CUPTI before CUDA is initialised
    edge_programs.py end HOW          kernels, then exit status 3 ('status'), SIGKILL ('kill'), SIGSEGV ('segv'), or a wait for Ctrl-C ('wait')
    edge_programs.py device           prints which GPU it sees
"""
import ctypes
import json
import multiprocessing
import os
import signal
import sys
import time

import torch

nvtx = torch.cuda.nvtx


def kernels(n, name="step"):
    x = torch.zeros(64, device="cuda")
    nvtx.range_push(name)
    for _ in range(n):
        x.add_(1)
    torch.cuda.synchronize()
    nvtx.range_pop()


def without_gpu(queue):
    nvtx.range_push("load a batch")
    nvtx.range_pop()
    queue.put(os.getpid())


def workers():
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    queue = fork.SimpleQueue()
    forked = [fork.Process(target=without_gpu, args=(queue,)) for _ in range(2)]
    spawned = [spawn.Process(target=kernels, args=(1000, f"worker {i}")) for i in range(2)]
    for p in forked + spawned:
        p.start()
    kernels(500, "parent")
    for p in forked + spawned:
        p.join()
    return {"exits": [p.exitcode for p in forked + spawned]}


def profiler(before=True):
    act = torch.profiler.ProfilerActivity
    seen = []
    if before:
        kernels(100, "before")
    for _ in range(2):
        with torch.profiler.profile(activities=[act.CPU, act.CUDA]) as prof:
            kernels(100, "inside")
        seen.append(sum(e.device_type() == torch.autograd.DeviceType.CUDA for e in prof.profiler.kineto_results.events()))
    kernels(100, "after")
    return {"torch_saw": seen}


def holder():
    """Counts its own launches with a callback on cuLaunchKernel: the collector must not disturb it."""
    cupti, subscriber, seen = ctypes.CDLL("libcupti.so.13"), ctypes.c_void_p(), [0]

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
    def on_call(*_):
        seen[0] += 1

    driver, launch = 1, 307  # CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel
    codes = [cupti.cuptiSubscribe(ctypes.byref(subscriber), on_call, None),
             cupti.cuptiEnableCallback(1, subscriber, driver, launch)]
    kernels(100, "held")
    codes.append(cupti.cuptiUnsubscribe(subscriber))
    return {"codes": codes, "callbacks": seen[0]}


def end(how):
    kernels(2000)
    time.sleep(0.5)  # records older than that must be in the trace
    print(json.dumps({"pid": os.getpid()}), flush=True)
    if how == "status":
        sys.exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segv":
        ctypes.string_at(0)
    time.sleep(60)


def main():
    what = sys.argv[1]
    if what == "end":
        end(sys.argv[2])
        return
    doc = {"workers": workers, "profiler": profiler, "profiler-first": lambda: profiler(False), "holder": holder,
           "device": lambda: (kernels(10), {"name": torch.cuda.get_device_name(), "count": torch.cuda.device_count()})[1]}[what]()
    print(json.dumps(doc), flush=True)


if __name__ == "__main__":
    main()
