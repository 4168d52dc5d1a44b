"""Markers in a program: stages and capture windows.

They are NVTX ranges, so other NVTX tools show them too. Without a tool (no NVTX_INJECTION64_PATH in the environment)
every function here returns at once: nothing is loaded and no object is created per call.
"""

from . import _nvtx

WINDOW = "inferprof.window"  # `inferprof run --range inferprof.window` captures only inside these


def _text(name):
    return name.encode("utf-8", "replace").replace(b"\0", b" ")


class _Nothing:
    """The marker used while no tool records the program. All calls share one object."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __call__(self, function):
        return function


class _Range:
    """A range around a block or, as a decorator, around every call of a function."""

    def __init__(self, client, name):
        self._client = client
        self._name = _text(name)

    def __enter__(self):
        self._client.push(self._name)
        return self

    def __exit__(self, *_):
        self._client.pop()
        return False

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def marked(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)

        return marked


_NOTHING = _Nothing()


def watched():
    """True if a tool records this program's markers."""
    return _nvtx.client() is not None


def stage(name):
    """A stage: `with inferprof.stage("prefill"): ...`, or a decorator. Stages nest; names group occurrences.

    A stage ends where the block ends on the host. Kernels it launched belong to it, also if they run later.
    """
    client = _nvtx.client()
    return _Range(client, _nvtx.STAGE_PREFIX + name) if client else _NOTHING


def window():
    """A capture window, for `inferprof run --range inferprof.window -- python3 program.py`."""
    client = _nvtx.client()
    return _Range(client, WINDOW) if client else _NOTHING


def mark(name):
    """A point in time."""
    client = _nvtx.client()
    if client:
        client.mark(_text(name))


def tokens(consumed=0, made=0):
    """Counts tokens at this point: prompt tokens read, and tokens generated. The report then has times per token."""
    client = _nvtx.client()
    if not client:
        return
    if consumed:
        client.mark(_text(f"{_nvtx.CONSUMED_PREFIX}{int(consumed)}"))
    if made:
        client.mark(_text(f"{_nvtx.MADE_PREFIX}{int(made)}"))
