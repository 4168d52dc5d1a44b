"""hf_ranges.py ENGINES: when the ranges of operators carry sizes, seen through a stand-in for torch's own switch."""
import contextlib
import sys

import torch

sys.path.insert(0, sys.argv[1])
import stages  # noqa: E402

now = [None, 0]  # whether sizes are being written, how many switches are on


@contextlib.contextmanager
def emit(record_shapes):
    now[:] = [record_shapes, now[1] + 1]
    try:
        yield
    finally:
        now[:] = [None, now[1] - 1]


def request(steps, tokens):
    """What was on while each token was being made: (sizes, number of switches)."""
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
        raise ZeroDivisionError  # what fails inside must not leave the switch on
    assert now == [None, 0], now
    return [sizes for sizes, _ in result], {n for _, n in result}


torch.autograd.profiler.emit_nvtx = emit
assert seen("operators", True) == ([True] * (1 + stages.SHAPED_STEPS) + [False] * 2, {1})
assert seen("operators", False) == ([False] * (3 + stages.SHAPED_STEPS), {1})
for off in (seen("modules", True), seen("stages", True), seen("operators", True, on=False)):
    assert off == ([None] * (3 + stages.SHAPED_STEPS), {0}), off
print("ok")
