#!/usr/bin/env python3
"""doc_examples.py [--update] INFERPROF WORK PAGE...: checks the examples in the documents against the program's output.

Runs each `$ inferprof ...` line in the code blocks of the pages. The commands run in the folder WORK, which holds the
files that the pages name, a link to tests/ and the sample configs. The output (standard error, then standard output, or
the other way round) must match the lines after the command. A line `...` matches any number of lines, `...` inside a line
matches any text. --update writes the output into the pages, except for examples that contain `...`."""
import os
import re
import shlex
import subprocess
import sys

update = sys.argv[1] == "--update"
program, work, *pages = sys.argv[1 + update:]
program = os.path.abspath(program)
SKIP = ["--into run"]  # needs a run that is too large for the repository


def examples(page):
    with open(page, encoding="utf-8") as f:
        for indent, block in re.findall(r"^( *)```\n(.*?)^ *```$", f.read(), re.M | re.S):
            block = re.sub(rf"^{indent}", "", block, flags=re.M)
            parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
            yield from zip(parts[1::2], parts[2::2])


def fits(want, got):
    """Compares line by line; '...' matches as little as possible."""
    pattern = ""
    for line in want.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(p) for p in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, got.rstrip("\n") + "\n") is not None


def prepare():
    root = os.getcwd()
    os.makedirs(work, exist_ok=True)
    if not os.path.exists(os.path.join(work, "tests")):
        os.symlink(os.path.join(root, "tests"), os.path.join(work, "tests"))
    models = os.path.join(root, "tests/data/models")
    for name in os.listdir(models):
        os.symlink(os.path.join(models, name), os.path.join(work, name))


prepare()
bad = ran = 0
for page in pages:
    for command, want in examples(page):
        if "inferprof " not in command or any(s in command for s in SKIP):
            continue
        shell = f"inferprof() {{ {shlex.quote(program)} \"$@\"; }}; {command}"
        r = subprocess.run(["sh", "-c", shell], cwd=work, capture_output=True, text=True)
        got = r.stderr + r.stdout
        ran += 1
        if not fits(want, got) and not fits(want, r.stdout + r.stderr):
            if update and "..." not in want:
                text = open(page, encoding="utf-8").read()
                with open(page, "w", encoding="utf-8") as f:
                    f.write(text.replace(f"$ {command}\n{want}", f"$ {command}\n{got}"))
                continue
            bad += 1
            print(f"{page}: $ {command}\n--- shown\n{want}--- printed\n{got}")
print(f"{ran} examples, {bad} differ from the output")
sys.exit(bool(bad) or not ran)
