#!/usr/bin/env python3
"""campaign_table.py SLICES.LOG...: adds up the logs of campaign.sh and prints a table for README.md.

A slice counts for the present code if neither its target nor code that it executes (covers.tsv) has changed since the
slice's commit: functions, and what is outside of functions in the same files. Functions that the target never executes,
includes, comments and layout do not count as changes, nor do the containers that every target uses. 81698af is not in the history:
0f00a3b has its code; 93feb44 has that of 61ed400c."""
import functools
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CONTAINERS = {f"src/base/{name}.c" for name in ("alloc_guard", "die", "err", "strbuf", "vec")}
SAME_CODE = {"81698af60": "0f00a3b", "93feb44dc": "61ed400c"}
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')', re.S)


# A definition: its name, and its text up to the closing brace (in the first column, or on the same line).
DEFINITION = re.compile(r"^[A-Za-z_][^;{}#=]*?\b(\w+)\([^;{}]*\)\s*\{(?:[^\n]*\}$|.*?^\})", re.M | re.S)
INCLUDE = re.compile(r"^#include .*$", re.M)
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\)?")


@functools.lru_cache(maxsize=None)
def text_of(commit, path):
    """The file at this commit without comments; commit "": the file as it is now; None: there is no such file."""
    if commit:
        shown = subprocess.run(["git", "-C", HERE, "show", f"{commit}:{path}"], capture_output=True, check=False)
        if shown.returncode:
            return None
        text = shown.stdout.decode()
    else:
        try:
            with open(os.path.join(HERE, "..", "..", path), encoding="utf-8") as f:
                text = f.read()
        except FileNotFoundError:
            return None
    return TOKEN.sub(lambda m: m.group(1) or " ", text)


@functools.lru_cache(maxsize=None)
def source(commit, path, skipped):
    """The code of the file without white space and without these functions."""
    text = text_of(commit, path)
    if text is None:
        return None
    text = INCLUDE.sub("", ATTRIBUTE.sub("", text))
    text = DEFINITION.sub(lambda m: "" if m.group(1) in skipped else m.group(0), text)
    return re.sub(r"\s+", "", text)


def covered_files():
    """By target: the files, each with the functions that the target never executes."""
    files = {}
    for name in sorted(os.listdir(HERE)):
        if name.startswith("fuzz_") and name.endswith(".c"):
            files[name[len("fuzz_"):-len(".c")]] = [(f"tests/fuzz/{name}", frozenset())]
    with open(os.path.join(HERE, "covers.tsv"), encoding="utf-8") as f:
        for line in f:
            target, path, skipped = line.rstrip("\n").split("\t")
            if path not in CONTAINERS:
                files.setdefault(target, []).append((path, frozenset(skipped.split())))
    return files


def changed(commit, files):
    """The covered files whose executed code differs between this commit and now."""
    commit = SAME_CODE.get(commit, commit)
    return [p for p, skipped in files if source(commit, p, skipped) != source("", p, skipped)]


def add_up(logs):
    """CPU seconds, inputs run and crashes by target and commit."""
    rows = {}
    for path in logs:
        with open(path, encoding="ascii") as f:
            for line in f:
                target, commit, cpu_s, runs, _, crashes = line.split()
                row = rows.setdefault((target, commit[:9]), [0.0, 0, 0])
                row[0] += float(cpu_s)
                row[1] += int(runs)
                row[2] += int(crashes)
    return rows


def main():
    files, rows = covered_files(), add_up(sys.argv[1:])
    print("| target | CPU minutes on this code | on older code | inputs run | crashes | commits | changed since |")
    print("|---|---:|---:|---:|---:|---|---|")
    for target in sorted(set(files) | {t for t, _ in rows}):
        now_s = old_s = runs = crashes = 0
        commits, since = [], set()
        for (name, commit), (cpu_s, n, bad) in sorted(rows.items()):
            if name != target:
                continue
            differs = changed(commit, files.get(target, []))
            now_s, old_s = (now_s, old_s + cpu_s) if differs else (now_s + cpu_s, old_s)
            runs, crashes = runs + n, crashes + bad
            commits.append(commit)
            since.update(differs)
        names = ", ".join(sorted(p.removeprefix("src/") for p in since)) if len(since) <= 3 else f"{len(since)} files"
        print(f"| `fuzz_{target}` | {now_s / 60:.1f} | {old_s / 60:.1f} | {runs:,} | {crashes} | {', '.join(commits) or '-'} "
              f"| {names or '-'} |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
