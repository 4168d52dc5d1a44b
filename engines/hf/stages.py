"""Clocks and NVTX marks around the stages of a model. They do not change the answer.

A generation is split at the moments when logits appear: everything before the first is prefill, and each later one ends a
decode step. In timing runs the device is synchronised at these moments only. Sub-stages are timed by CUDA events on the
stream, which are read at the end: waiting for the device inside of prefill would slow it. With detail on, the stages also
become NVTX ranges and the tokens NVTX marks, in the syntax of the collector ("inferprof:stage prefill", docs/run.md).
"""
import contextlib
import time

import torch

try:
    from transformers import LogitsProcessor
except ImportError:  # worker.py reports the missing package
    LogitsProcessor = object


REQUEST = "inferprof request"  # the range that the collector captures (conf/engine/hf.yaml)

# Number of decode steps whose operators are recorded with sizes. Later steps have the same operators.
SHAPED_STEPS = 1

# Later steps record the operators of one layer in this many, a different one in each step. Recording all of them
# doubles the time of a step, and the layers are alike.
OPERATOR_LAYERS = 8


class Clock:
    """Returns the host time in seconds after the device has finished its work."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.device = device

    def now(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


class HostStamps:
    """Stamps for sub-stages without CUDA: host time."""

    @staticmethod
    def stamp():
        return time.perf_counter()

    @staticmethod
    def ms(start, end):
        return (end - start) * 1e3


class EventStamps:
    """Stamps for sub-stages on a GPU: events recorded on the current stream. `ms` needs a synchronised device."""

    pool = []  # events of earlier requests: creating one takes longer than recording it

    def __init__(self, device):
        self.device, self.used = device, 0

    def stamp(self):
        if self.used == len(self.pool):
            self.pool.append(torch.cuda.Event(enable_timing=True))
        event = self.pool[self.used]
        self.used += 1
        event.record(torch.cuda.current_stream(self.device))
        return event

    @staticmethod
    def ms(start, end):
        return start.elapsed_time(end)


class Marks:
    """NVTX ranges and token marks, if on. torch supports neither domains nor payloads, so the text contains everything."""

    def __init__(self, on):
        self.on = on and torch.cuda.is_available()

    def push(self, kind, name):
        if self.on:
            torch.cuda.nvtx.range_push(f"inferprof:{kind} {name}")

    def push_text(self, text):
        torch.cuda.nvtx.range_push(text)

    def tokens(self, what, count):
        if self.on:
            torch.cuda.nvtx.mark(f"inferprof:{what} {count}")

    def pop(self):
        if self.on:
            torch.cuda.nvtx.range_pop()


class Steps(LogitsProcessor):
    """A logits processor that `generate` calls once per token. It returns the scores unchanged."""

    def __init__(self, clock, marks, prompt_tokens, batch):
        self.clock, self.marks = clock, marks
        self.prompt_tokens, self.batch = prompt_tokens, batch
        self.moments = []  # seconds: the start, then one per token
        self.actions = {}
        self.each = None  # called when a decode step begins

    def at(self, step, action):
        """Calls action when the given decode step, counted from 0, begins."""
        self.actions[step] = action

    def begin(self):
        self.clock.now()
        self.marks.push("module", REQUEST)
        self.marks.push("stage", "prefill")
        self.marks.tokens("consumed", self.prompt_tokens * self.batch)
        self.moments = [self.clock.now()]

    def __call__(self, input_ids, scores):
        self.moments.append(self.clock.now())
        self.marks.tokens("made", self.batch)
        self.marks.pop()  # prefill, or the previous step
        if len(self.moments) == 2:
            self.marks.push("stage", "decode")  # one range for all steps, so that a request has one decode
        self.marks.push("module", "step")
        self.actions.get(len(self.moments) - 2, lambda: None)()
        if self.each:
            self.each()
        return scores

    def end(self):
        self.clock.now()
        self.marks.pop()  # the step after the last logits, or prefill if there was no token
        if len(self.moments) > 1:
            self.marks.pop()
        self.marks.pop()

    def token_ms(self):
        return [(b - a) * 1e3 for a, b in zip(self.moments, self.moments[1:])]


class SubStages:
    """Forward hooks on the modules of the sub-stages, given as {stage: module path}, for example {"vision": "model.visual"}.

    If a hook cannot be placed or fails, only its sub-stage has no time; `problems` contains the reason."""

    def __init__(self, model, names, device, marks):
        self.marks, self.problems = marks, []
        self.stamps = EventStamps(device) if device.type == "cuda" else HostStamps()
        self.spans, self.started, self.handles = {}, {}, []
        modules = dict(model.named_modules()) if names else {}
        for stage, path in names.items():
            if path not in modules:
                self.problems.append(f"stage '{stage}' is not timed: the model has no module '{path}'; its top modules are "
                                     + ", ".join(n for n in modules if n.count(".") <= 1 and n)[:400])
                continue
            self.handles.append(modules[path].register_forward_pre_hook(self._before(stage)))
            self.handles.append(modules[path].register_forward_hook(self._after(stage)))

    def _before(self, stage):
        def hook(module, args):
            self.marks.push("stage", stage)
            self.started[stage] = self.stamps.stamp()
        return hook

    def _after(self, stage):
        def hook(module, args, output):
            start = self.started.pop(stage, None)
            if start is not None:
                self.spans.setdefault(stage, []).append((start, self.stamps.stamp()))
            self.marks.pop()
        return hook

    def ms(self):
        """{stage: ms}, summed over its calls. The device must be synchronised."""
        return {stage: sum(self.stamps.ms(a, b) for a, b in spans) for stage, spans in self.spans.items()}

    def close(self):
        for h in self.handles:
            h.remove()


@contextlib.contextmanager
def module_ranges(model, marks, skip, leaves):
    """An NVTX range around every module's forward, named by its path. Modules in `skip` already have a stage range."""
    handles = []
    for name, module in model.named_modules():
        if name and name not in skip and (leaves or next(module.children(), None) is not None):
            handles.append(module.register_forward_pre_hook(lambda m, a, n=name: marks.push("module", n)))
            handles.append(module.register_forward_hook(lambda m, a, o: marks.pop()))
    try:
        yield
    finally:
        for h in handles:
            h.remove()


@contextlib.contextmanager
def detail_ranges(model, detail, shapes, steps, skip, every_layer=OPERATOR_LAYERS, compiled=False):
    """Ranges below the stages. detail none or stages: no ranges; modules: per module; operators: per operator, and per module that
    has modules in it (other modules consist of one or a few operators). Compiled code has no operators of its own in Python, so
    torch's own ranges are used there."""
    if not steps.marks.on or detail in ("none", "stages"):
        yield
        return
    ranges = contextlib.nullcontext()
    if detail == "operators" and compiled:
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=shapes)
    elif detail == "operators":
        import operators
        ranges = operators.recorded(model, steps.marks, shapes, steps, SHAPED_STEPS, every_layer)
    with module_ranges(model, steps.marks, skip, leaves=detail == "modules"), ranges:
        yield
