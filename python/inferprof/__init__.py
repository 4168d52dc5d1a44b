"""Read and make inferprof runs from Python.

    import inferprof
    run = inferprof.open("runs/20261116-0900-qwen3")   # a run folder, or any trace that `inferprof import` reads
    run.kernels                                        # a pandas DataFrame, or a list of dicts without pandas

    with inferprof.stage("prefill"):                   # a marker that `inferprof run` turns into a stage
        ...

The package calls the inferprof program and reads its JSON files. It computes nothing itself.
"""

from ._program import Error, program, version
from .commands import compare, profile, run, static
from .markers import mark, stage, tokens, watched, window
from .runs import Run, open_run

open = open_run  # the short name for users; this module does not use the built-in function

__all__ = [
    "Error", "Run", "compare", "mark", "open", "profile", "program", "run", "stage", "static", "tokens", "version",
    "watched", "window",
]
