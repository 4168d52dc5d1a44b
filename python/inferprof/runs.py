"""A run: its tables, its files, and its verdict as HTML for notebooks."""

import html
import json
import os
import tempfile

from ._program import Error, call
from ._tables import table

SCHEMA = "inferprof.metrics/2"
# Members of metrics.json that are lists of objects: each becomes a table of the same name.
TABLES = ("answers", "categories", "devices", "environment", "figures", "findings", "kernels", "libraries", "operators",
          "power", "repeats", "roofline", "stability", "stages")


def open_run(path):
    """Opens a run folder, a metrics.json file, or a recording that `inferprof import` can read.

    A folder without metrics.json (recorded with --no-report) and a recording are analysed first. Their results go to a
    temporary folder that lives as long as the returned object; nothing is written beside the input.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise Error(f"{path}: no such file or folder")
    if os.path.isdir(path):
        metrics = os.path.join(path, "metrics.json")
        return Run(path, metrics) if os.path.exists(metrics) else _analysed("report", path)
    if os.path.basename(path) == "metrics.json":
        return Run(os.path.dirname(path) or ".", path)
    return _analysed("report" if path.endswith(".ipt") else "import", path)


def _analysed(command, path):
    folder = tempfile.TemporaryDirectory(prefix="inferprof-")
    output = os.path.join(folder.name, "run")
    try:
        call(command, "--quiet", "--output", output, path)
        return Run(output, os.path.join(output, "metrics.json"), folder)
    except BaseException:
        folder.cleanup()
        raise


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            metrics = json.load(file)
    except (OSError, ValueError) as problem:
        raise Error(f"{path}: {problem}") from None
    schema = str(metrics.get("schema")) if isinstance(metrics, dict) else ""
    if not schema.startswith(("inferprof.metrics/", "inferprof-metrics")):
        raise Error(f"{path}: not an {SCHEMA} file")
    # inferprof 0.1 wrote "inferprof-metrics", with the same members.
    if schema not in (SCHEMA, "inferprof-metrics"):
        raise Error(f"{path}: its schema is {schema}, this package reads {SCHEMA}; "
                    "use the inferprof package of the program that wrote it")
    return metrics


class Run:
    """A finished run.

    Tables (pandas DataFrames, or lists of dicts without pandas): answers, categories, devices, environment, figures,
    findings, kernels, libraries, operators, power, repeats, roofline, stability, stages. Units are in the column
    names; unknown values are None. `metrics` is metrics.json as it is.
    """

    def __init__(self, folder, metrics_path, temporary=None):
        self.folder = folder
        self.metrics = _read(metrics_path)
        self._temporary = temporary  # keeps an analysed input's results as long as this object exists

    def __getattr__(self, name):
        if name in TABLES:
            return table(self.metrics.get(name) or [])
        raise AttributeError(f"a run has no '{name}'; its tables are {', '.join(TABLES)}")

    def __dir__(self):
        return [*super().__dir__(), *TABLES]

    def __repr__(self):
        return f"<inferprof run {self.title}: {self.verdict}>"

    @property
    def title(self):
        run = self.metrics.get("run") or {}
        return run.get("title") or run.get("id") or os.path.basename(self.folder)

    @property
    def verdict(self):
        """The sentence at the top of the report: the time of each top stage, its ratio to the roofline time, and a
        warning if the machine was busy."""
        if "verdict" not in self.metrics:
            return "no verdict: an older inferprof wrote metrics.json; 'inferprof report' writes it again"
        return self.metrics["verdict"] or "no stage was measured"

    def path(self, name):
        """Path of a file of the run, for example report.html."""
        return os.path.join(self.folder, name)

    def stage(self, name):
        """One stage as a dict, with the raw repeats in `repeats_ms`."""
        for stage in self.metrics.get("stages") or []:
            if stage.get("name") == name:
                return stage
        names = ", ".join(str(stage.get("name")) for stage in self.metrics.get("stages") or [])
        raise KeyError(f"no stage '{name}'; the run has: {names}")

    def _repr_html_(self):
        return "".join(_html(self))


def _number(value):
    """Four significant digits, never an exponent for large values: 12,346 and 0.001234."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


STAGE_COLUMNS = (  # heading, key, scale, suffix
    ("time ms", "time_ms", 1, ""), ("device busy", "gpu_busy_share", 100, "%"), ("roofline ms", "floor_ms", 1, ""),
    ("distance", "distance", 1, "x"), ("MFU", "mfu", 100, "%"), ("MBU", "mbu", 100, "%"),
    ("tokens/s", "tokens_per_s", 1, ""),
)


def _cell(stage, key, scale, suffix):
    value = stage.get(key)
    return "–" if value is None else _number(value * scale) + suffix


def _html(run):
    yield f"<div><p><b>{html.escape(str(run.title))}</b><br>{html.escape(run.verdict)}</p><table><thead><tr><th>stage</th>"
    for heading, _, _, _ in STAGE_COLUMNS:
        yield f"<th>{heading}</th>"
    yield "</tr></thead><tbody>"
    for stage in run.metrics.get("stages") or []:
        if stage.get("time_ms") is None:
            continue
        indent = "&nbsp;&nbsp;" if stage.get("parent") else ""
        yield f"<tr><td style='text-align:left'>{indent}{html.escape(str(stage.get('name')))}</td>"
        for _, key, scale, suffix in STAGE_COLUMNS:
            yield f"<td>{_cell(stage, key, scale, suffix)}</td>"
        yield "</tr>"
    yield "</tbody></table>"
    yield from _findings_html(run.metrics.get("findings") or [])
    yield from (f"<p>&#9888; {html.escape(str(text))}</p>" for text in run.metrics.get("problems") or [])
    yield "</div>"


def _findings_html(findings):
    if not findings:
        return
    yield "<p><b>What to change first</b></p><ol>"
    for finding in findings[:5]:
        saving = finding.get("saving_ms")
        yield f"<li>{html.escape(str(finding.get('title')))}"
        if saving:
            yield f" (could save up to {_number(saving)} ms)"
        yield f"<br><small>{html.escape(str(finding.get('advice') or ''))}</small></li>"
    yield "</ol>"
