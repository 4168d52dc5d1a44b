"""hf_ranges.py ENGINES: tests which ranges are pushed around operators and modules, and that sub-stages survive missing modules."""
import re
import sys

import torch

sys.path.insert(0, sys.argv[1])
import stages  # noqa: E402


STEPS = 5  # decode steps


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4))
        self.experts = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Tanh()) for _ in range(16))

    def forward(self, x):
        for expert in self.experts:
            x = expert(x)
        return torch.nn.functional.silu(self.inner(x.view(1, 4)))[0] * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.softmax(-1)


class Marks:
    def __init__(self, on=True):
        self.on, self.texts, self.depth = on, [], 0

    def push(self, kind, name):
        self.push_text(f"{kind} {name}")

    def push_text(self, text):
        self.texts.append(text.removeprefix("inferprof:"))
        self.depth += 1

    def tokens(self, what, count):
        pass

    def pop(self):
        self.depth -= 1

    def text_functions(self):
        return self.push_text, self.pop


def request(detail, shapes, on=True, every=1, fail=False, stacks=False, marks=None):
    """The texts of each token's ranges: prefill first."""
    model, marks, x = Model(), marks or Marks(on), torch.ones(4)
    steps = stages.Steps(stages.Clock(torch.device("cpu")), marks, 1, 1)
    seen = []
    try:
        with torch.no_grad(), stages.detail_ranges(model, detail, shapes, steps, set(), every, stacks=stacks):
            steps.begin()
            for _ in range(1 + STEPS):
                marks.texts.clear()
                model(x)
                seen.append([t for t in marks.texts if not t.startswith("stage") and t != "module step"])
                steps(None, None)
            if fail:
                raise ZeroDivisionError
            steps.end()
    except ZeroDivisionError:
        pass
    marks.texts.clear()
    model(x)
    assert not marks.texts, "a hook or the mode is still active"
    assert not any("forward" in m.__dict__ for m in model.modules()), "a layer keeps its wrapper"
    assert fail or marks.depth == 0, "a range was not closed"
    return seen


def names(texts):
    return [t.split(",")[0] for t in texts if not t.startswith("module")]


each = ["aten::linear", "aten::silu", "aten::index", "aten::mul"]
full = request("operators", True)
assert all(names(t) == 4 * (16 * ["aten::tanh"] + each) + ["aten::softmax"] for t in full), full[0]
sized = ["sizes = [[1, 4]f32, [4, 4]f32, [4]f32]" in " ".join(t) for t in full]
assert sized == [True, True] + [False] * (STEPS - 1), sized
assert [t for t in full[0] if t.startswith("module") and "experts" not in t] == [f"module layers.{i}{s}" for i in range(4) for s in ("", ".inner")]
assert not any("sizes" in t for s in request("operators", False) for t in s)
# a sample: in a recorded layer two of 16 experts; one layer per step, all of them within four steps; softmax, which is outside of the
# layers, in prefill and in steps 1 and 4
some = request("operators", True, every=4)
layer = 2 * ["aten::tanh"] + each
assert [names(t) for t in some] == [layer + ["aten::softmax"] * (i in (0, 1, 4)) for i in range(1 + STEPS)], some
recorded = [[t for t in s if t.startswith("module") and t.endswith("inner")] for s in some]
assert recorded == [[f"module layers.{i}.inner"] for i in (2, 1, 0, 3, 2, 1)], recorded
assert all([t for t in s if t.startswith("module layers.") and t.count(".") == 1] == [f"module layers.{i}" for i in range(4)] for s in some)
assert ["sizes" in " ".join(t) for t in some] == [True] * 5 + [False], some
assert names(request("modules", True)[0]) == [] and "module layers.0.inner.0" in request("modules", True)[0]
assert request("stages", True)[0] == [] and request("operators", True, on=False)[0] == []
request("operators", True, every=2, fail=True)


class Fixed(Layer):
    """Like a scripted module."""

    def __setattr__(self, name, value):
        if name == "forward":
            raise RuntimeError("forward cannot be replaced")
        super().__setattr__(name, value)


whole, Layer = Layer, Fixed
assert "module layers.0" not in request("operators", True, every=4)[0]
Layer = whole
paths = [t for t in request("operators", True, stacks=True)[0] if t.startswith("aten::silu")]
assert paths and all(re.search(r"hf_ranges.py:forward:\d+;[^;]*hf_ranges.py:forward:\d+$", t.split(", stack = ")[1]) for t in paths), paths



class Nvtx:
    def __init__(self):
        self.calls = []

    def range_push(self, text):
        self.calls.append(text)

    def range_pop(self):
        self.calls.append("pop")

    mark = range_push


class WarmupMarks(stages.WarmupMarks):
    """On without a GPU, and with the members that request() reads."""

    def __init__(self):
        super().__init__(False)
        self.on, self.texts, self.depth = True, [], 0


# a warm-up for recording: the collector sees one range, and nothing else
torch_nvtx, torch.cuda.nvtx = torch.cuda.nvtx, Nvtx()
request("operators", True, every=4, marks=WarmupMarks())
assert torch.cuda.nvtx.calls == ["inferprof:module inferprof warm-up", "pop"], torch.cuda.nvtx.calls
torch.cuda.nvtx = torch_nvtx

model, marks = Model(), Marks()
found, problems = stages.find_modules(model, {"first": "layers.0", "missing": "no.such"})
parts = stages.SubStages(found, torch.device("cpu"), marks, problems)
model(torch.ones(4))
parts.close()
assert list(parts.ms()) == ["first"] and 0 < parts.ms()["first"] < 1e3, parts.ms()
assert len(parts.problems) == 1 and "no module 'no.such'" in parts.problems[0], parts.problems
# several calls in one request are summed; the next request starts at zero, and its predecessor's hooks are gone
parts = stages.SubStages(found, torch.device("cpu"), marks)
parts.stamps = type("Stamps", (), {"at": 0, "stamp": lambda self: setattr(self, "at", self.at + 1) or self.at, "ms": lambda self, a, b: b - a})()
model(torch.ones(4)), model(torch.ones(4))
assert parts.ms() == {"first": 2}, parts.ms()
parts.close()
later = stages.SubStages(found, torch.device("cpu"), marks)
assert later.ms() == {}
model(torch.ones(4))
assert len(later.spans["first"]) == 1 and parts.ms() == {"first": 2}, (later.spans, parts.ms())
later.close()


class Refuses(torch.nn.Module):
    def register_forward_hook(self, *args, **kwargs):
        raise RuntimeError("no hooks here")


parts = stages.SubStages({"bad": Refuses(), **found}, torch.device("cpu"), marks)
model(torch.ones(4))
parts.close()
assert list(parts.ms()) == ["first"] and parts.problems == ["stage 'bad' is not timed: RuntimeError: no hooks here"], parts.problems

import memory  # noqa: E402

points = memory.split([(10, 5), (20, 20), (30, -5), (40, 3)], 100, 80, [(15, 4), (35, 8)])
assert points == [[10, 80, 0, 5, 20], [20, 80, 4, 21, 20], [30, 80, 4, 16, 20], [40, 80, 8, 15, 20]], points
many = [[i, 1, 0, i % 977, 0] for i in range(100000)]
thin = memory.thin(many, 1000)
assert len(thin) <= 1001 and max(sum(p[1:]) for p in thin) == 977 and thin[-1] == many[-1], len(thin)
assert memory.tensor_bytes([(torch.ones(4), torch.ones(2))], set()) == 24
print("ok")
