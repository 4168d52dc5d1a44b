"""Clocks and NVTX marks around the stages of a model. They do not change the answer.

A generation is split at the moments when logits appear: everything before the first is prefill, and each later one ends a
decode step. In timing runs the device is synchronised at these moments only. Sub-stages are timed by CUDA events on the
stream, which are read at the end: waiting for the device inside of prefill would slow it. With detail on, the stages also
become NVTX ranges and the tokens NVTX marks (docs/run.md).
"""
import contextlib
import time

import torch

import domain

try:
    from transformers import LogitsProcessor
except ImportError:  # worker.py reports the missing package
    LogitsProcessor = object


CATEGORIES = {"stage": domain.STAGE, "user": domain.USER}
# Ranges for the collector (conf/engine/hf.yaml): the one that it captures, and one in which it records and discards.
REQUEST = "inferprof request"
WARMUP = "inferprof warm-up"

# The operators of one layer in so many are recorded per step: recording all of them doubles the time of a step.
OPERATOR_LAYERS = 32


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
    """NVTX ranges and token marks, if on. Stages are ranges of the domain "inferprof" with plain names (domain.py). Modules and
    operators use torch's binding, which is faster, but supports neither domains nor payloads: the text holds everything."""

    def __init__(self, on):
        self.on = on and torch.cuda.is_available()
        self.domain = domain.find() if self.on else None
        self.in_domain = []  # of each open range

    def push(self, kind, name):
        if not self.on:
            return
        use_domain = self.domain is not None and kind in CATEGORIES
        if use_domain:
            self.domain.push(CATEGORIES[kind], name)
        else:
            torch.cuda.nvtx.range_push(name if kind == "user" else f"inferprof:{kind} {name}")
        self.in_domain.append(use_domain)

    def pop(self):
        if self.on and self.in_domain:
            self.domain.pop() if self.in_domain.pop() else torch.cuda.nvtx.range_pop()

    def text_functions(self):
        """Functions that push and pop a range of a given text, for callers that do so thousands of times. torch's own are Python
        functions that only call these."""
        binding = getattr(torch._C, "_nvtx", None)
        return (binding.rangePushA, binding.rangePop) if binding else (torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop)

    def tokens(self, what, count):
        if self.on:
            torch.cuda.nvtx.mark(f"inferprof:{what} {count}")

    @contextlib.contextmanager
    def range(self, kind, name):
        self.push(kind, name)
        try:
            yield
        finally:
            self.pop()


class WarmupMarks(Marks):
    """One range, which makes the collector record kernels and discard them. All other ranges and marks are left out of the trace, but
    the code that would write them runs."""

    def push(self, kind, name):
        if self.on:
            self.in_domain.append(name == REQUEST)
            if name == REQUEST:
                torch.cuda.nvtx.range_push(f"inferprof:module {WARMUP}")

    def pop(self):
        if self.on and self.in_domain and self.in_domain.pop():
            torch.cuda.nvtx.range_pop()

    def text_functions(self):
        return lambda text: None, lambda: None

    def tokens(self, what, count):
        pass


class Steps(LogitsProcessor):
    """A logits processor that `generate` calls once per token. It returns the scores unchanged."""

    def __init__(self, clock, marks, prompt_tokens, batch):
        self.clock, self.marks = clock, marks
        self.prompt_tokens, self.batch = prompt_tokens, batch
        self.moments = []  # seconds: the start, then one per token
        self.each = None  # called when a decode step begins

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


def find_modules(model, names):
    """{stage: module} of {stage: module path}, for example {"vision": "model.visual"}, and why the others are missing. Looked up once
    per model: it takes milliseconds for thousands of modules."""
    found, problems = {}, []
    modules = dict(model.named_modules()) if names else {}
    for stage, path in names.items():
        if path in modules:
            found[stage] = modules[path]
        else:
            problems.append(f"stage '{stage}' is not timed: the model has no module '{path}'; its top modules are "
                            + ", ".join(n for n in modules if n.count(".") <= 1 and n)[:400])
    return found, problems


class SubStages:
    """Forward hooks on the modules of the sub-stages, given as {stage: module}.

    If a hook cannot be placed or fails, only its sub-stage has no time; `problems` contains the reason."""

    def __init__(self, modules, device, marks, problems=()):
        self.marks, self.problems = marks, list(problems)
        self.stamps = EventStamps(device) if device.type == "cuda" else HostStamps()
        self.spans, self.started, self.handles, self.failed = {}, {}, [], set()
        for stage, module in modules.items():
            try:
                placed = [module.register_forward_pre_hook(self._before(stage)), module.register_forward_hook(self._after(stage))]
            except Exception as e:  # a compiled or scripted module can refuse hooks
                self._give_up(stage, e)
            else:
                self.handles += placed

    def _give_up(self, stage, e):
        if stage not in self.failed:
            self.problems.append(f"stage '{stage}' is not timed: {type(e).__name__}: {e}")
        self.failed.add(stage)
        self.spans.pop(stage, None)

    def _before(self, stage):
        def hook(module, args):
            self.marks.push("stage", stage)
            try:
                self.started[stage] = self.stamps.stamp()
            except Exception as e:
                self._give_up(stage, e)
        return hook

    def _after(self, stage):
        def hook(module, args, output):
            start = self.started.pop(stage, None)
            try:
                if start is not None and stage not in self.failed:
                    self.spans.setdefault(stage, []).append((start, self.stamps.stamp()))
            except Exception as e:
                self._give_up(stage, e)
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
def detail_ranges(model, detail, shapes, steps, skip, every_layer=OPERATOR_LAYERS, compiled=False, stacks=False):
    """Ranges below the stages; gives a note for the report, or None. detail none or stages: no ranges; modules: per module; operators:
    per operator, and per module that has modules in it (the other modules are one operator, or a few). Compiled code has no operators
    of its own in Python, so that torch's own ranges are used there."""
    if not steps.marks.on or detail in ("none", "stages"):
        yield None
        return
    if detail == "operators" and not compiled:
        import operators
        with operators.Recording(model, steps.marks, shapes, steps, every_layer, skip, stacks) as recording:
            yield recording.note()
        return
    ranges = torch.autograd.profiler.emit_nvtx(record_shapes=shapes) if detail == "operators" else contextlib.nullcontext()
    with module_ranges(model, steps.marks, skip, leaves=detail == "modules"), ranges:
        yield None
