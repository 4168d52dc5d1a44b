"""hf_ranges.py ENGINES: tests which operator ranges have sizes. A fake emit_nvtx records when it is on."""
import contextlib
import sys

import torch

sys.path.insert(0, sys.argv[1])
import stages  # noqa: E402

now = [None, 0]  # record_shapes of the active emit_nvtx, number of active ones


@contextlib.contextmanager
def emit(record_shapes):
    now[:] = [record_shapes, now[1] + 1]
    try:
        yield
    finally:
        now[:] = [None, now[1] - 1]


def request(steps, tokens):
    """The state during each token: (record_shapes, number of active emit_nvtx)."""
    states = []
    steps.begin()
    for _ in range(tokens):
        states.append(tuple(now))
        steps(None, None)
    steps.end()
    return states


def seen(detail, shapes, on=True):
    clock = stages.Clock(torch.device("cpu"))
    marks = stages.Marks(False)
    steps = stages.Steps(clock, marks, 1, 1)
    steps.marks = type("On", (), {"on": on, "push": lambda *_: None, "pop": lambda *_: None, "tokens": lambda *_: None})()
    with contextlib.suppress(ZeroDivisionError), stages.detail_ranges(torch.nn.Module(), detail, shapes, steps, set()):
        result = request(steps, 1 + stages.SHAPED_STEPS + 2)
        raise ZeroDivisionError  # an exception inside must not leave emit_nvtx on
    assert now == [None, 0], now
    return [sizes for sizes, _ in result], {n for _, n in result}


torch.autograd.profiler.emit_nvtx = emit
assert seen("operators", True) == ([True] * (1 + stages.SHAPED_STEPS) + [False] * 2, {1})
assert seen("operators", False) == ([False] * (3 + stages.SHAPED_STEPS), {1})
for off in (seen("modules", True), seen("stages", True), seen("operators", True, on=False)):
    assert off == ([None] * (3 + stages.SHAPED_STEPS), {0}), off
print("ok")
