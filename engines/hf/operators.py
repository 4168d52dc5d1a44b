"""NVTX ranges around the operators that a model calls.

`emit_nvtx` records every ATen call: views, casts of sizes, and nested calls. Most of them launch nothing, and together they made a
decode step take 1.7 times as long. This file records only the calls that the model's Python code makes, and no calls that only
inspect a tensor. A range has the same text as with `emit_nvtx`, which the collector splits (src/collect/nvtx_torch.c):
    aten::linear, op_id = 0, sizes = [[1, 501, 4096]bf16, [4096, 4096]bf16]
"""
import functools
import sys

import torch
from torch import Tensor
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


class Names(dict):
    """{torch function: its operator, or None}. Looked up for every call of a recorded layer, so a known function costs no Python call."""

    def __missing__(self, function):
        return self.setdefault(function, range_name(function))


class Texts(dict):
    """{(operator, (shape, type) of each tensor...), or operator: text of its range}"""

    def __missing__(self, key):
        return self.setdefault(key, f"{key}, op_id = 0" if isinstance(key, str) else f"{key[0]}, op_id = 0{sizes_of(key[1:])}")


class OperatorRanges(TorchFunctionMode):
    """Pushes a range around every call that may launch work, unless `quiet`."""

    names, texts = Names(), Texts()  # of all requests, so that the warm-up fills them

    def __init__(self, push, pop, shapes, stacks=False):
        super().__init__()
        self.push, self.pop, self.shapes, self.stacks = push, pop, shapes, stacks
        self.quiet = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        try:
            name = None if self.quiet else self.names[function]
        except TypeError:  # not hashable
            name = None
        if name is None:
            return function(*args, **kwargs) if kwargs else function(*args)
        text = self.texts[(name, *[(a.shape, a.dtype) for a in args if isinstance(a, Tensor)]) if self.shapes else name]
        self.push(f"{text}, stack = {call_path(sys._getframe(1))}" if self.stacks else text)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
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
    """Ranges around operators and around modules that contain modules, while on. Modules have a wrapped `forward`: hooks of a module take
    several times as long, because they disable the short path of its call, and global hooks do that for all modules."""

    def __init__(self, mode, marks):
        self.mode, self.marks, self.on, self.wrapped = mode, marks, False, []

    def switch(self, on):
        if on == self.on:
            return
        self.on = on
        if on:
            self.mode.__enter__()
        else:
            self.mode.__exit__(None, None, None)

    def wrap(self, module, wrapper):
        own, forward = module.__dict__.get("forward"), module.forward
        try:
            module.forward = functools.wraps(forward)(wrapper(forward))
        except Exception:  # a scripted module refuses; only its ranges are missing
            return
        self.wrapped.append((module, own))

    def wrap_module(self, module, name):
        def wrapper(forward):
            def recorded(*args, **kwargs):
                if not self.on or self.mode.quiet:
                    return forward(*args, **kwargs)
                self.marks.push("module", name)
                try:
                    return forward(*args, **kwargs)
                finally:
                    self.marks.pop()
            return recorded
        self.wrap(module, wrapper)

    def wrap_unrecorded(self, module):
        def wrapper(forward):
            def quiet(*args, **kwargs):
                if not self.on or self.mode.quiet:
                    return forward(*args, **kwargs)
                self.mode.quiet = True
                try:
                    return forward(*args, **kwargs)
                finally:
                    self.mode.quiet = False
            return quiet
        self.wrap(module, wrapper)

    def close(self):
        self.switch(False)
        for module, own in reversed(self.wrapped):
            if own is None:
                del module.forward
            else:
                module.forward = own


class Recording:
    """Ranges around operators and modules of a sample: per step, one layer in `every`, another one in each step, because recording all
    of them doubles the time of a step, and the layers are alike. Operators before the first and after the last layer of a list: in
    prefill, in the first decode step, and in one step in `every`. Sizes and call paths: until each layer was recorded once. Layers have a
    range in every step.

    Prefill records the middle layer of the first `every`: a model's first layers can differ from the others."""

    def __init__(self, model, marks, shapes, steps, every, skip=(), stacks=False):
        self.push, self.pop = marks.text_functions()
        self.mode = OperatorRanges(self.push, self.pop, shapes, stacks)
        self.every, self.step = every, 0
        self.outer, inner = layer_lists(model)
        self.unrecorded = {e for _, entries in inner for i, e in enumerate(entries) if i % INNER_EVERY} if every > 1 else set()
        other = self.unrecorded | {layer for _, entries in self.outer for layer in entries}
        self.names = {m: path for path, m in model.named_modules()
                      if path and path not in skip and m not in other and next(m.children(), None) is not None}
        self.ranges = Ranges(self.mode, marks)
        steps.each = self.next_step

    def place(self):
        for module, path in self.names.items():
            self.ranges.wrap_module(module, path)
        for module in self.unrecorded:
            self.ranges.wrap_unrecorded(module)
        for path, layers in self.outer:
            middle = self.every // 2 % min(self.every, len(layers))
            for i, layer in enumerate(layers):
                self.wrap_layer(layer, f"inferprof:module {path}.{i}", i - middle, i == len(layers) - 1)

    def wrap_layer(self, layer, text, at, last):
        push, pop, ranges = self.push, self.pop, self.ranges

        def wrapper(forward):
            def recorded(*args, **kwargs):
                push(text)
                on = (at + self.step) % self.every == 0
                if on != ranges.on:
                    ranges.switch(on)
                try:
                    return forward(*args, **kwargs)
                finally:
                    if on or last:
                        ranges.switch(self.every == 1 or last and self.records_outside())
                    pop()
            return recorded
        ranges.wrap(layer, wrapper)

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
        self.ranges.close()
