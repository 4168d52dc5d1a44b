"""hf_stages.py MODEL_DIR PAGE OUT.json [SECONDS]: the cost of timing sub-stages, and whether the times add up.

Requests with and without sub-stages alternate in one process (off, on, on, off), so that the drift of the machine cancels. Reported:
the change of prefill with its bootstrap interval; the time of prefill by CUDA events at its ends over the host's time; and the same
with kernels of another stream beside the encoder, which the sub-stage must include.
"""
import gc
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "engines", "hf")] + [p for p in os.environ.get("HF_ENGINE", "").split(":") if p]
import worker  # noqa: E402

worker.import_libraries()
import torch  # noqa: E402
from bootstrap import bootstrap  # noqa: E402


class Bounds:
    """Events at the start and the end of prefill, on the stream of the model."""

    def __init__(self, steps):
        bounds = self

        class Steps(steps):
            def begin(self):
                super().begin()
                bounds.start = torch.cuda.Event(enable_timing=True)
                bounds.start.record()

            def __call__(self, input_ids, scores):
                if len(self.moments) == 1:
                    bounds.end = torch.cuda.Event(enable_timing=True)
                    bounds.end.record()
                return super().__call__(input_ids, scores)
        self.steps = Steps


def beside(module, side):
    """Runs products on another stream while the module runs, and joins them at its end."""
    forward, x = module.forward, torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)

    def both(*args, **kwargs):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(40):
                x @ x
        out = forward(*args, **kwargs)
        torch.cuda.current_stream().wait_stream(side)
        return out
    module.forward = both
    return lambda: setattr(module, "forward", forward)


def main():
    folder, page, out = sys.argv[1:4]
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 20
    model = worker.Model({"model": folder, "weights": "synthetic:0", "device": "cuda:0", "dtype": "bf16"})
    request = {"prompt": "<image>\nFree OCR.", "inputs": [page], "max_new_tokens": 2, "ignore_eos": True}
    inputs, named, found = model.inputs(request), dict(model.stage_modules), dict(model.found_stages)
    model.inputs = lambda _: dict(inputs)
    bounds = Bounds(worker.stages.Steps)
    worker.stages.Steps = bounds.steps
    agree = []

    def prefill(on):
        model.found_stages = found if on else {}
        reply = worker.infer(model, request)
        ms = bounds.start.elapsed_time(bounds.end)
        if on:
            agree.append({"prefill_ms": reply["prefill_ms"], "events_ms": ms, "stages": reply["stages"]})
        return reply["prefill_ms"]

    for _ in range(4):
        prefill(True), prefill(False)
    gc.collect()
    gc.disable()
    agree.clear()
    quads, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        off = prefill(False)
        on = prefill(True) + prefill(True)
        quads.append((off + prefill(False), on))
    more = [100 * (on / off - 1) for off, on in quads]
    value, low, high = bootstrap(more, statistics.median, 4000)
    plain = {k: statistics.median(a[k] for a in agree) for k in ("prefill_ms", "events_ms")}
    sums = {s: statistics.median(a["stages"][s] for a in agree) for s in named}
    agree.clear()
    undo = beside(dict(model.model.named_modules())[named["clip"]], torch.cuda.Stream())
    for _ in range(10):
        prefill(True)
    undo()
    overlapped = {k: statistics.median(a[k] for a in agree[2:]) for k in ("prefill_ms", "events_ms")}
    result = {"prefill_change_percent": {"median": value, "low": low, "high": high, "groups": len(quads)}, "plain": plain,
              "stages": sums, "rest_ms": plain["events_ms"] - sum(sums.values()), "overlapped": overlapped,
              "overlapped_stages": {s: statistics.median(a["stages"][s] for a in agree[2:]) for s in named},
              "events_over_host": plain["events_ms"] / plain["prefill_ms"],
              "overlapped_events_over_host": overlapped["events_ms"] / overlapped["prefill_ms"]}
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    print(json.dumps(result, indent=1))


main()
