"""Clocks and NVTX marks around the stages of a model. They do not change the answer.

A generation is split at the moments when logits appear: everything before the first is prefill, and each later one ends a
decode step. In timing runs the device is synchronised at these moments and at the start and end of the sub-stages. With
detail on, the stages also become NVTX ranges and the tokens NVTX marks, in the syntax of the collector
("inferprof:stage prefill", docs/run.md).
"""
import contextlib
import time

import torch

try:
    from transformers import LogitsProcessor
except ImportError:  # worker.py reports the missing package
    LogitsProcessor = object


REQUEST = "inferprof request"  # the range that the collector captures (conf/engine/hf.yaml)

# Number of decode steps whose operators are recorded with sizes. Recording is expensive: a step takes 2.5 times as long as
# a plain step with sizes, 1.6 times without. Later steps have the same operators.
SHAPED_STEPS = 4


class Clock:
    """Host time in seconds, read after the device has finished its work."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.device = device

    def now(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


class Marks:
    """NVTX ranges and token marks, if on. torch supports neither domains nor payloads, so the text holds everything."""

    def __init__(self, on):
        self.on = on and torch.cuda.is_available()

    def push(self, kind, name):
        if self.on:
            torch.cuda.nvtx.range_push(f"inferprof:{kind} {name}")

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
    """Forward hooks on the modules of the sub-stages, given as {stage: module path}, for example {"vision": "model.visual"}."""

    def __init__(self, model, names, clock, marks):
        self.ms = {}
        self.clock, self.marks = clock, marks
        self.started = {}
        self.handles = []
        modules = dict(model.named_modules())
        for stage, path in names.items():
            if path not in modules:
                raise ValueError(f"stage '{stage}': the model has no module '{path}'; its top modules are "
                                 + ", ".join(n for n in modules if n.count(".") <= 1 and n)[:400])
            self.handles.append(modules[path].register_forward_pre_hook(self._before(stage)))
            self.handles.append(modules[path].register_forward_hook(self._after(stage)))

    def _before(self, stage):
        def hook(module, args):
            self.started[stage] = self.clock.now()
            self.marks.push("stage", stage)
        return hook

    def _after(self, stage):
        def hook(module, args, output):
            self.marks.pop()
            self.ms[stage] = self.ms.get(stage, 0.0) + (self.clock.now() - self.started[stage]) * 1e3
        return hook

    def close(self):
        for h in self.handles:
            h.remove()


@contextlib.contextmanager
def module_ranges(model, marks, skip):
    """An NVTX range around every module's forward, named by its path. Modules in `skip` already have a stage range."""
    handles = []
    for name, module in model.named_modules():
        if name and name not in skip:
            handles.append(module.register_forward_pre_hook(lambda m, a, n=name: marks.push("module", n)))
            handles.append(module.register_forward_hook(lambda m, a, o: marks.pop()))
    try:
        yield
    finally:
        for h in handles:
            h.remove()


@contextlib.contextmanager
def operator_ranges(shapes, steps):
    """An NVTX range around every ATen call. With shapes, the text has the sizes in prefill and the first decode steps."""
    emit = torch.autograd.profiler.emit_nvtx
    with contextlib.ExitStack() as running:
        running.enter_context(emit(record_shapes=shapes))

        def names_only():
            running.close()
            running.enter_context(emit(record_shapes=False))

        if shapes:
            steps.at(SHAPED_STEPS, names_only)
        yield


@contextlib.contextmanager
def detail_ranges(model, detail, shapes, steps, skip):
    """Ranges below the stages. detail none or stages: no ranges; modules: per module; operators: also per ATen call."""
    if not steps.marks.on or detail in ("none", "stages"):
        yield
        return
    with module_ranges(model, steps.marks, skip):
        with operator_ranges(shapes, steps) if detail == "operators" else contextlib.nullcontext():
            yield
