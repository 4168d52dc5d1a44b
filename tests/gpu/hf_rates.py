"""What the engine's clock and hooks cost: requests that the engine times, in turns with plain `generate` calls, in one process.

The machine's own speed drifts by 10% within a second when all work is Python and launches, so a difference of 1% shows only
between neighbours: requests of a few tokens in the order plain, engine, engine, plain, for as long as was allowed, one ratio for
every four, their median and its interval by bootstrap (a request in twenty takes half as long again, on either side: those decide the
mean, which stands beside it). The thread is kept on one core and Python's garbage collector is off: both
sides have that. Thread CPU time stands beside wall time: what other tenants of the machine take is not in it.

Where a model has sub-stages (the encoders of a vision model), the engine waits for the device at their ends, and the host cannot run ahead
of it there: prefill takes longer for that, and short requests show it.

The engine's time is what its reply says, the figures of a report: from the call of `generate` to the last logits. Plain time is taken
around the whole call, the choice of the last token included.
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
    """The engine's own Steps, noting the thread's CPU time where it notes the wall time."""
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
    """One core for this thread, no garbage collection, inputs made once (a page takes longer to decode than to read)."""
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
    """The same call as the engine makes, without its clock among the logits processors, ready to be made."""
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
    """`of` the values, and its 95% interval by bootstrap."""
    value, low, high = bootstrap(values, of, draws)
    return {"value": value, "low": low, "high": high, "n": len(values)}


def summary(quads, which, tokens):
    """Rates of both sides, and how many percent more tokens a second the engine reports than plain has, by fours."""
    plain, engine = ([q[side][i][which] for q in quads for i in (0, 1)] for side in ("plain", "engine"))
    more = [100 * (sum(p[which] for p in q["plain"]) / sum(e[which] for e in q["engine"]) - 1) for q in quads]
    return {"plain": tokens / statistics.median(plain), "engine": tokens / statistics.median(engine),
            "cv": statistics.stdev(plain) / statistics.fmean(plain), "median": interval(more, statistics.median),
            "mean": interval(more, statistics.fmean)}


def turns(model, request, seconds, core=5):
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
    """Plain requests as long as the report's own, for the report's own figure; the first one loads kernels and does not count."""
    return [plain_s(model, request)[0] for _ in range(times + 1)][1:]
