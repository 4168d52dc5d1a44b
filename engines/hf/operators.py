"""NVTX ranges around the operators that a model calls.

`emit_nvtx` records every ATen call: views, casts of sizes, and nested calls. Most of them launch nothing, and together they made a
decode step take 1.7 times as long. This file records only the calls that the model's Python code makes, and no calls that only
inspect a tensor. A range has the same text as with `emit_nvtx`, which the collector splits (src/collect/nvtx_torch.c):
    aten::linear, op_id = 0, sizes = [[1, 501, 4096]bf16, [4096, 4096]bf16]
"""
import sys

import torch
from torch.overrides import TorchFunctionMode

# These functions return another view of the same memory, or a property of a tensor.
NO_WORK = frozenset("""view reshape transpose t permute unsqueeze squeeze expand expand_as view_as flatten unflatten chunk split narrow
    select unbind detach size dim numel stride is_contiguous is_floating_point is_complex is_cuda data_ptr element_size storage_offset
    swapaxes swapdims movedim tensor_split unfold diagonal alias requires_grad_ ndimension nelement type_as get_device dim_order
    numpy_T mT""".split())
OPERATORS = {"truediv": "div", "floordiv": "floor_divide", "float": "to", "half": "to", "bfloat16": "to", "double": "to", "type": "to",
             "cuda": "to", "cpu": "to", "getitem": "index", "setitem": "index_put_", "invert": "bitwise_not", "and": "bitwise_and",
             "or": "bitwise_or"}


def range_name(function):
    """Returns the operator that a torch function is named after; None: it launches nothing."""
    name = getattr(function, "__name__", "")
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name in ("get", "set", "len", "iter", "repr", "format", "bool", "int", "index", "hash", "contains"):
            return None
        name = name[1:] if name[:1] in "ri" and OPERATORS.get(name[1:], name[1:]) in ("add", "sub", "mul", "div", "pow") else name
    if not name or name in NO_WORK:
        return None
    return "aten::" + OPERATORS.get(name, name)


TYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.float64: "f64", torch.int64: "i64",
         torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}


def sizes_of(tensors):
    """", sizes = [[1, 501, 4096]bf16, [4096, 4096]bf16]": sizes as emit_nvtx writes them, and the types, which it leaves out."""
    return ", sizes = [" + ", ".join(f"{list(shape)}{TYPES.get(dtype, '')}" for shape, dtype in tensors) + "]"


# Frames that are not shown in call paths: calls of modules, wrappers of torch and transformers, and this engine.
HIDDEN = ("torch/nn/modules/module.py", "torch/utils/_contextlib.py", "torch/overrides.py", "torch/nn/functional.py", "_functional.py",
          "/functools.py", "/contextlib.py", "utils/generic.py", "utils/output_capturing.py", "modeling_layers.py", "hf/operators.py", "hf/worker.py", "hf/stages.py", "hf/graphs.py")
MAX_FRAMES = 32


def short_path(path):
    """The last two parts: "llama/modeling_llama.py"."""
    return "/".join(path.split("/")[-2:])


def call_path(frame):
    """Python frames from the outermost to the calling one: "utils.py:generate:2412;modeling_llama.py:forward:301"."""
    frames = []
    while frame and len(frames) < MAX_FRAMES:
        path = frame.f_code.co_filename
        if not path.endswith(HIDDEN):
            frames.append(f"{short_path(path)}:{frame.f_code.co_name}:{frame.f_lineno}")
        if path.endswith("hf/worker.py"):
            break
        frame = frame.f_back
    return ";".join(reversed(frames)).replace(",", " ")


class OperatorRanges(TorchFunctionMode):
    """Pushes a range around every call that may launch work, unless `quiet`."""

    names, texts = {}, {}  # of all requests, so that the warm-up fills them

    def __init__(self, push, pop, shapes, stacks=False):
        super().__init__()
        self.push, self.pop, self.shapes, self.stacks = push, pop, shapes, stacks
        self.quiet = False

    def text(self, name, args):
        key = (name, *[(a.shape, a.dtype) for a in args if isinstance(a, torch.Tensor)])
        text = self.texts.get(key)
        if text is None:
            text = self.texts[key] = f"{name}, op_id = 0{sizes_of(key[1:])}"
        return text

    def name_of(self, function):
        try:
            return self.names[function]
        except KeyError:
            return self.names.setdefault(function, range_name(function))
        except TypeError:  # not hashable
            return None

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = None if self.quiet else self.name_of(function)
        if name is None:
            return function(*args, **(kwargs or {}))
        text = self.text(name, args) if self.shapes else name + ", op_id = 0"
        self.push(f"{text}, stack = {call_path(sys._getframe(1))}" if self.stacks else text)
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.pop()


def layer_lists(model):
    """[(path, layers)] of the lists of repeated layers, and the same of the lists inside of layers, such as experts."""
    outer, inner = [], []
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) > 1:
            (inner if any(path.startswith(p + ".") for p, _ in outer) else outer).append((path, list(module)))
    return outer, inner


INNER_EVERY = 8  # in a recorded layer, one entry in so many of a list, such as its experts, is recorded


class Ranges:
    """Ranges around operators and around modules that contain modules, while on. Global hooks are used because they cost nothing
    while off; hooks of thousands of modules slow down each of their calls."""

    def __init__(self, mode, marks, names, unrecorded):
        self.mode, self.marks, self.names, self.unrecorded = mode, marks, names, unrecorded
        self.on, self.handles, self.open = False, [], []

    def switch(self, on):
        if on == self.on:
            return
        self.on = on
        if on:
            hooks = torch.nn.modules.module
            self.handles = [hooks.register_module_forward_pre_hook(self.enter), hooks.register_module_forward_hook(self.leave)]
            self.mode.__enter__()
        else:
            self.mode.__exit__(None, None, None)
            for h in self.handles:
                h.remove()

    def enter(self, module, args):
        if module in self.unrecorded and not self.mode.quiet:
            self.mode.quiet = True
            self.open.append((module, False))
        elif not self.mode.quiet and module in self.names:
            self.marks.push("module", self.names[module])
            self.open.append((module, True))

    def leave(self, module, args, output):
        if self.open and self.open[-1][0] is module:  # otherwise the module was entered while off
            self.pop()

    def pop(self):
        if self.open.pop()[1]:
            self.marks.pop()
        else:
            self.mode.quiet = False

    def close(self):
        """After a failed request, ranges can still be open."""
        self.switch(False)
        while self.open:
            self.pop()


class Recording:
    """Ranges around operators and modules of a sample: per step, one layer in `every`, another one in each step, because recording all
    of them doubles the time of a step, and the layers are alike. Operators before the first and after the last layer of a list: in
    prefill, in the first decode step, and in one step in `every`. Sizes and call paths: until each layer was recorded once. Layers have a range in every step.

    Prefill records the middle layer of the first `every`: a model's first layers can differ from the others."""

    def __init__(self, model, marks, shapes, steps, every, skip=(), stacks=False):
        self.mode = OperatorRanges(marks.push_text, marks.pop_text, shapes, stacks)
        self.marks, self.every, self.step, self.wrapped = marks, every, 0, []
        self.outer, inner = layer_lists(model)
        layers = {layer for _, entries in self.outer for layer in entries}
        unrecorded = {e for _, entries in inner for i, e in enumerate(entries) if i % INNER_EVERY} if every > 1 else set()
        names = {m: path for path, m in model.named_modules()
                 if path and path not in skip and m not in layers and next(m.children(), None) is not None}
        self.ranges = Ranges(self.mode, marks, names, unrecorded)
        steps.each = self.next_step

    def place(self):
        for path, layers in self.outer:
            middle = self.every // 2 % min(self.every, len(layers))
            for i, layer in enumerate(layers):
                self.wrap(layer, f"inferprof:module {path}.{i}", i - middle, i == len(layers) - 1)

    def wrap(self, layer, text, at, last):
        """Replaces `forward`: hooks of a module take several times as long, because they disable the short path of its call."""
        forward, marks, ranges = layer.forward, self.marks, self.ranges

        def recorded(*args, **kwargs):
            marks.push_text(text)
            ranges.switch((at + self.step) % self.every == 0)
            try:
                return forward(*args, **kwargs)
            finally:
                ranges.switch(self.every == 1 or last and self.records_outside())
                marks.pop_text()
        own = layer.__dict__.get("forward")
        try:
            layer.forward = recorded
        except Exception:  # a scripted module refuses; only its ranges are missing
            return
        self.wrapped.append((layer, own))

    def unwrap(self):
        for layer, own in reversed(self.wrapped):
            if own is None:
                del layer.forward
            else:
                layer.forward = own

    def records_outside(self):
        return self.step <= 1 or self.step % self.every == 0

    def next_step(self):
        self.step += 1
        if self.step > self.every:  # each layer was recorded once
            self.mode.shapes = self.mode.stacks = False
        self.ranges.switch(self.records_outside())

    def note(self):
        if self.every > 1:
            return (f"operators were recorded in one layer of {self.every} per step, another one in each step: totals of operators and "
                    "matrix products are samples. Kernels, launches and stages are complete")
        return None

    def __enter__(self):
        self.place()
        self.ranges.switch(True)
        return self

    def __exit__(self, *error):
        self.unwrap()
        self.ranges.close()
