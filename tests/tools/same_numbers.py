#!/usr/bin/env python3
"""same_numbers.py OLD NEW [TRACE_FOLDER...]: checks that two builds of inferprof compute the same numbers.

Imports every trace below the folders (default: tests/data and docs/examples; also ../shared/data if it exists), then
compares the results of both programs: metrics.json, findings.json, stages.csv, kernels.csv, operators.csv, `stats
--json` and the exports (CSV, Chrome JSON, Perfetto, SQLite). Numbers, keys, types and identifiers must be equal. Prose
(titles, sources, advice) may differ and is only counted; --prose lists it. Exit status 1 on any other difference."""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

IDENTIFIERS = {"schema", "name", "short_name", "library", "category", "stage", "unit", "key", "rule", "parent", "grid",
               "block", "kind", "operator", "detail", "metric", "api", "types", "layout", "algorithm", "id", "range"}
show_prose = "--prose" in sys.argv
args = [a for a in sys.argv[1:] if a != "--prose"]
old, new, *folders = args
folders = folders or ["tests/data", "docs/examples"] + [d for d in ["../shared/data"] if os.path.isdir(d)]
differences, prose, compared = [], [], 0


def run(program, *words):
    return subprocess.run([os.path.abspath(program), *words, "-q"], capture_output=True, text=True)


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def compare(where, key, a, b):
    global compared
    compared += 1
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(set(a) | set(b)):
            if k not in a or k not in b:
                differences.append(f"{where}.{k}: only in {'the new' if k in b else 'the old'} build")
            else:
                compare(f"{where}.{k}", k, a[k], b[k])
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            differences.append(f"{where}: {len(a)} rows, now {len(b)}")
        for i, (x, y) in enumerate(zip(a, b)):
            compare(f"{where}[{i}]", key, x, y)
    elif isinstance(a, str) and isinstance(b, str) and key not in IDENTIFIERS:
        if a != b:
            prose.append(f"{where}: {a!r}, now {b!r}")
    elif a != b or is_number(a) != is_number(b):
        differences.append(f"{where}: {a!r}, now {b!r}")


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def load(path):
    if path.endswith(".csv"):
        return rows_of(path)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def sqlite_dump(path):
    import sqlite3
    with sqlite3.connect(path) as db:
        return list(db.iterdump())


def number_or_text(x):
    try:
        return float(x)
    except (TypeError, ValueError):
        return x


def compare_file(name, a, b):
    if not (os.path.exists(a) and os.path.exists(b)):
        if os.path.exists(a) != os.path.exists(b):
            differences.append(f"{name}: written by one build only")
        return
    if a.endswith((".json", ".csv")):
        x, y = load(a), load(b)
        if a.endswith(".csv"):
            x = [{k: number_or_text(v) for k, v in row.items()} for row in x]
            y = [{k: number_or_text(v) for k, v in row.items()} for row in y]
        compare(name, "", x, y)
    elif a.endswith(".sqlite"):
        if sqlite_dump(a) != sqlite_dump(b):
            differences.append(f"{name}: rows differ")
    elif open(a, "rb").read() != open(b, "rb").read():
        differences.append(f"{name}: bytes differ")


def outputs(program, sources, folder):
    """Runs all commands on the sources. Both builds use a folder of the same name, because results contain paths."""
    os.makedirs(folder)
    run_dir = os.path.join(folder, "run")
    if os.path.isdir(sources[0]):
        shutil.copytree(sources[0], run_dir)
        run(program, "report", run_dir)
    elif run(program, "import", "--output", run_dir, *sources).returncode:
        return False
    with open(os.path.join(folder, "stats.json"), "w", encoding="utf-8") as f:
        f.write(run(program, "stats", "--json", *sources).stdout or "{}")
    for form, name in (("csv", "csv"), ("chrome", "chrome.json"), ("perfetto", "t.pftrace"), ("sqlite", "t.sqlite")):
        run(program, "export", "--format", form, "--output", os.path.join(folder, name), run_dir)
    return True


def check(sources):
    kept = []
    with tempfile.TemporaryDirectory() as work:
        for side, program in (("old", old), ("new", new)):
            place = os.path.join(work, "work")
            kept.append(os.path.join(work, side))
            if not outputs(program, sources, place):
                os.makedirs(place, exist_ok=True)
            os.rename(place, kept[-1])
        label = "+".join(os.path.relpath(s) for s in sources)
        names = sorted(set(n for k in kept for n in ["stats.json", "chrome.json", "t.pftrace", "t.sqlite"]
                           + [os.path.relpath(p, k) for pattern in ("run/*.csv", "run/*.json", "csv/*.csv")
                              for p in glob.glob(os.path.join(k, pattern))]))
        for n in names:
            compare_file(f"{label}: {n}", os.path.join(kept[0], n), os.path.join(kept[1], n))


def traces():
    seen = set()
    for folder in folders:
        for pattern in ("**/*.json.gz", "**/hta_plain_json.json", "**/*.sqlite", "**/*.sqlite.gz"):
            for path in sorted(glob.glob(os.path.join(folder, pattern), recursive=True)):
                name = os.path.basename(path).replace(".gz", "")
                if ("kineto" in path or "nsys" in path) and "_ref_" not in path and name not in seen:
                    seen.add(name)
                    yield [path]
        for path in sorted(glob.glob(os.path.join(folder, "*/trace"))):
            yield [os.path.dirname(path)]
        ranks = sorted(glob.glob(os.path.join(folder, "kineto/hta_rank[01]_a100.json.gz")))
        if len(ranks) == 2 and "ranks" not in seen:
            seen.add("ranks")
            yield ranks


n = 0
for sources in traces():
    check(sources)
    n += 1
for d in differences[:60]:
    print(d)
if show_prose:
    print("\n".join(prose))
print(f"{n} traces, {compared} values compared: {len(differences)} differences, {len(prose)} texts changed")
sys.exit(bool(differences) or not n)
