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
    """Pushes a range around every call that may launch work. `shapes` may change while it is active."""

    def __init__(self, push, pop, shapes, stacks=False):
        super().__init__()
        self.push, self.pop, self.shapes, self.stacks = push, pop, shapes, stacks
        self.names, self.texts = {}, {}

    def text(self, name, args):
        key = (name, *[(a.shape, a.dtype) for a in args if isinstance(a, torch.Tensor)])
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
        text = self.text(name, args) if self.shapes else name + ", op_id = 0"
        self.push(f"{text}, stack = {call_path(sys._getframe(1))}" if self.stacks else text)
        try:
            return function(*args, **kwargs)
        finally:
            self.pop()


def layer_lists(model):
    """The lists of repeated layers, outermost only: the experts of a layer are not layers."""
    lists = []
    for name, module in model.named_modules():
        inside = any(name.startswith(outer + ".") for outer, _ in lists)
        if isinstance(module, torch.nn.ModuleList) and len(module) > 1 and not inside:
            lists.append((name, list(module)))
    return [layers for _, layers in lists]


class SomeLayers:
    """While `sampling`, the mode is active in one of `every` layers per step, another one in each step, and outside of the layers.

    Prefill samples the middle layer of the first `every`: a model's first layers can differ from the others."""

    def __init__(self, mode, model, every):
        self.mode, self.every, self.step = mode, every, 0
        self.sampling, self.active, self.handles = every > 1, True, []
        self.lists = layer_lists(model) if every > 1 else []

    def place(self):
        for layers in self.lists:
            for i, layer in enumerate(layers):
                at = self.every // 2 % min(self.every, len(layers))
                self.handles.append(layer.register_forward_pre_hook(lambda m, a, i=i, at=at: self.enter(i, at)))
                self.handles.append(layer.register_forward_hook(lambda m, a, o: self.switch(True), always_call=True))

    def switch(self, on):
        if on != self.active:
            self.mode.__enter__() if on else self.mode.__exit__(None, None, None)
            self.active = on

    def enter(self, layer, at):
        if self.sampling:
            self.switch((layer + self.step - at) % self.every == 0)

    def close(self):
        for h in self.handles:
            h.remove()
        self.switch(True)


class Recording:
    """Ranges around operators. All operators of one decode step are recorded; prefill and the other steps record one layer in `every`,
    because recording all of them doubles the time of a step, and the layers are alike. Sizes: in prefill and in the full step."""

    def __init__(self, model, marks, shapes, steps, full_steps, every, stacks=False):
        self.mode = OperatorRanges(marks.push_text, marks.pop_text, shapes, stacks)
        self.layers, self.shapes = SomeLayers(self.mode, model, every), shapes
        self.every, self.full_steps, self.begun = every, full_steps, 0
        steps.each = self.next_step

    def next_step(self):
        self.begun += 1
        full = self.begun <= self.full_steps
        self.layers.sampling = self.every > 1 and not full
        self.layers.step = self.begun
        self.mode.shapes = self.shapes and full
        self.mode.stacks = self.mode.stacks and full

    def records_inside(self):
        """False inside of a layer whose operators are left out."""
        return self.layers.active

    def note(self):
        if self.every > 1:
            return (f"operators were recorded in one layer of {self.every}, and in all layers of the first decode step: totals of "
                    "operators and matrix products are samples. Kernels, launches and stages are complete")
        return None

    def __enter__(self):
        self.layers.place()
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.layers.close()
        return self.mode.__exit__(*error)
