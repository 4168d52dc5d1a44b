"""NVTX ranges around the operators that a model calls.

`emit_nvtx` records every ATen call: views, casts of sizes, and nested calls. Most of them launch nothing, and together they made a
decode step take 1.7 times as long. This file records only the calls that the model's Python code makes, and no calls that only
inspect a tensor. A range has the same text as with `emit_nvtx`, which the collector splits (src/collect/nvtx_torch.c):
    aten::linear, op_id = 0, sizes = [[1, 501, 4096], [4096, 4096]]
"""
import contextlib

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


def sizes_of(args):
    return ", sizes = [" + ", ".join(str(list(shape)) for shape in args) + "]"


class OperatorRanges(TorchFunctionMode):
    """Pushes a range around every call that may launch work. `shapes` may change while it is active."""

    def __init__(self, push, pop, shapes):
        super().__init__()
        self.push, self.pop, self.shapes = push, pop, shapes
        self.names, self.texts = {}, {}

    def text(self, name, args):
        key = (name, *[a.shape for a in args if isinstance(a, torch.Tensor)])
        text = self.texts.get(key)
        if text is None:
            text = self.texts[key] = f"{name}, op_id = 0{sizes_of(key[1:])}"
        return text

    def __torch_function__(self, function, types, args=(), kwargs=None):
        try:
            name = self.names[function]
        except KeyError:
            name = self.names[function] = range_name(function)
        except TypeError:  # not hashable
            name = None
        kwargs = kwargs or {}
        if name is None:
            return function(*args, **kwargs)
        self.push(self.text(name, args) if self.shapes else name + ", op_id = 0")
        try:
            return function(*args, **kwargs)
        finally:
            self.pop()


def layers_of(model):
    """Returns the repeated layers: the longest list of modules."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return list(max(lists, key=len)) if lists else []


class SomeLayers:
    """After `thin()`, the mode is active outside of the layers and in one of `every` layers per step, a different one in each step."""

    def __init__(self, mode, model, every):
        self.mode, self.every, self.step = mode, every, None
        self.active, self.handles = True, []
        for i, layer in enumerate(layers_of(model) if every > 1 else []):
            self.handles.append(layer.register_forward_pre_hook(lambda m, a, i=i: self.enter(i)))
            self.handles.append(layer.register_forward_hook(lambda m, a, o: self.switch(True)))

    def switch(self, on):
        if on != self.active:
            self.mode.__enter__() if on else self.mode.__exit__(None, None, None)
            self.active = on

    def enter(self, layer):
        if self.step is not None:
            self.switch((layer + self.step) % self.every == 0)

    def next_step(self):
        if self.step is not None:
            self.step += 1

    def thin(self):
        self.step = 0

    def close(self):
        for h in self.handles:
            h.remove()
        self.switch(True)


@contextlib.contextmanager
def recorded(model, marks, shapes, steps, shaped_steps, every):
    """Ranges around operators: with sizes in prefill and the first decode steps, later only in one of `every` layers."""
    mode = OperatorRanges(marks.push_text, marks.pop, shapes)
    layers = SomeLayers(mode, model, every)

    def names_only():
        mode.shapes = False
        layers.thin()

    steps.at(shaped_steps, names_only)
    steps.each = layers.next_step
    with mode:
        try:
            yield
        finally:
            layers.close()
