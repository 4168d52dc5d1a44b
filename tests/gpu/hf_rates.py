"""Measures the overhead of the engine's clock and hooks: requests timed by the engine, alternating with plain `generate` calls in one process.

The machine's speed drifts by 10% within a second when all work is Python and launches, so a difference of 1% is visible only between
neighbours. Requests of a few tokens therefore run in the order plain, engine, engine, plain for the given time; each group of four
gives one ratio. Reported are the median ratio with its bootstrap interval, and the mean: one request in twenty takes 1.5 times as
long, on either side, and those dominate the mean. The thread is pinned to one core and Python's garbage collector is off, for both
sides. Thread CPU time is reported beside wall time: it excludes the time taken by other tenants of the machine.

The engine's time is the one in its reply, as in a report: from the call of `generate` to the last logits. Plain time includes the whole
call, with the selection of the last token.
"""
import contextlib
import gc
import os
import statistics
import time

import torch
import worker
from bootstrap import bootstrap


class CpuSteps:
    """The engine's Steps, which also records the thread's CPU time wherever it records wall time."""
    last = None

    @classmethod
    def on_top_of(cls, steps):
        class Steps(steps):
            def begin(self):
                super().begin()
                CpuSteps.last = self
                self.cpu = [time.thread_time()]

            def __call__(self, input_ids, scores):
                scores = super().__call__(input_ids, scores)
                self.cpu.append(time.thread_time())
                return scores
        return Steps


@contextlib.contextmanager
def quiet(model, request, core):
    """Pins this thread to a core, disables garbage collection, and prepares the inputs once (decoding a page is slow)."""
    inputs, cores, steps = model.inputs(request), os.sched_getaffinity(0), worker.stages.Steps
    model.inputs = lambda _: dict(inputs)
    worker.stages.Steps = CpuSteps.on_top_of(steps)
    gc.collect()
    gc.disable()
    os.sched_setaffinity(0, {core if core in cores else min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        gc.enable()
        worker.stages.Steps = steps
        del model.inputs


def plain_call(model, request):
    """A function that makes the same call as the engine, without its clock among the logits processors."""
    inputs = model.inputs(request)
    options = worker.generate_options(model, request, inputs["input_ids"].shape[1])

    def call():
        with torch.no_grad():
            return model.model.generate(**inputs, **options)
    return call


def plain_s(model, request):
    """(wall, CPU) seconds of plain `generate`."""
    call = plain_call(model, request)
    torch.cuda.synchronize()
    start, cpu = time.perf_counter(), time.thread_time()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start, time.thread_time() - cpu


def engine_s(model, request):
    reply = worker.infer(model, request)
    cpu = CpuSteps.last.cpu
    return (reply["prefill_ms"] + reply["decode_ms"]) / 1e3, cpu[-1] - cpu[0]


def interval(values, of, draws=4000):
    """`of` the values, and its 95% bootstrap interval."""
    value, low, high = bootstrap(values, of, draws)
    return {"value": value, "low": low, "high": high, "n": len(values)}


def summary(quads, which, tokens):
    """Rates of both sides, and by how many percent the engine's tokens/s exceed those of plain, per group of four."""
    plain, engine = ([q[side][i][which] for q in quads for i in (0, 1)] for side in ("plain", "engine"))
    more = [100 * (sum(p[which] for p in q["plain"]) / sum(e[which] for e in q["engine"]) - 1) for q in quads]
    return {"plain": tokens / statistics.median(plain), "engine": tokens / statistics.median(engine),
            "cv": statistics.stdev(plain) / statistics.fmean(plain), "median": interval(more, statistics.median),
            "mean": interval(more, statistics.fmean)}


def alternate(model, request, seconds, core=5):
    quads, tokens = [], request["max_new_tokens"] * model.batch
    with quiet(model, request, core):
        for _ in range(3):
            plain_s(model, request)
            engine_s(model, request)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            first = plain_s(model, request)
            engine = [engine_s(model, request), engine_s(model, request)]
            quads.append({"plain": [first, plain_s(model, request)], "engine": engine})
    return {"new_tokens": request["max_new_tokens"], "quads": quads, "wall": summary(quads, 0, tokens), "cpu": summary(quads, 1, tokens)}


def long_requests(model, request, times):
    """Times of plain requests as long as the report's. The first one loads kernels and is dropped."""
    return [plain_s(model, request)[0] for _ in range(times + 1)][1:]
