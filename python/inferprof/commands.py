"""The commands of the program that make or compare runs."""

import json

from ._program import Error, call
from .runs import Run, open_run


def _options(options):
    """{"peak_tflops": 900, "counters": True} -> ["--peak-tflops", "900", "--counters"]. A list repeats its option."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [option] if one is True else [option, str(one)]
    return words


def _setting(key, value):
    if isinstance(value, bool):
        value = str(value).lower()
    elif value is None:
        value = "null"
    elif isinstance(value, (list, tuple)):
        value = "[" + ",".join(map(str, value)) + "]"
    return f"{key}={value}"


def profile(*words, settings=None, show_progress=False, **options):
    """Runs `inferprof profile` and returns the run.

        inferprof.profile("model=deepseek_ocr", settings={"model.path": "DIR", "device": "cuda:0"})

    `words` are settings as on the command line, `settings` a dict of the same, other keyword arguments are options.
    """
    words = [*words, *(_setting(key, value) for key, value in (settings or {}).items())]
    _, output = call("profile", *_options(options), *words, passes_output=show_progress)
    return open_run(_last_line(output, "profile"))


def run(command, show_progress=False, **options):
    """Runs a program (a list of words) under `inferprof run` and returns the run.

    The exit status of the program is in `run.status`; an Error is raised only if nothing was recorded.
    """
    import os
    import tempfile

    parent = options.pop("output", None)
    temporary = None if parent else tempfile.TemporaryDirectory(prefix="inferprof-")
    folder = os.path.join(temporary.name, "run") if temporary else os.fspath(parent)
    words = [*_options({**options, "output": folder}), "--", *map(str, command)]
    status, _ = call("run", *words, accepted=range(256), passes_output=show_progress)
    metrics = os.path.join(folder, "metrics.json")
    if not os.path.exists(metrics):
        raise Error(f"inferprof run recorded nothing (status {status}): {' '.join(map(str, command))}", status, words)
    result = Run(folder, metrics, temporary)
    result.status = status
    return result


def compare(a, b):
    """`inferprof compare --json A B` as a dict. A and B are runs or paths."""
    paths = [one.folder if isinstance(one, Run) else one for one in (a, b)]
    return json.loads(call("compare", "--json", *paths)[1])


def static(model, **options):
    """`inferprof static --json MODEL` as a dict; keyword arguments are its options."""
    return json.loads(call("static", *_options({**options, "json": True}), model)[1])


def _last_line(output, command):
    lines = output.strip().splitlines()
    if not lines:
        raise Error(f"inferprof {command} printed no run folder")
    return lines[-1]
