#!/usr/bin/env python3
"""doc_examples.py [--update] INFERPROF WORK PAGE...: what the documents show is what the program prints.

Runs every `$ ...` of the pages' code blocks that names inferprof in the folder WORK, which has what the pages speak of,
tests/ and the sample configs, and compares what is printed, standard error first, with what follows in the block. A line `...` stands for any number
of lines, `...` inside a line for any text. --update writes what is printed into the pages where nothing was left out."""
import os
import re
import shlex
import subprocess
import sys

update = sys.argv[1] == "--update"
program, work, *pages = sys.argv[1 + update:]
program = os.path.abspath(program)
SKIP = ["--into run"]  # needs a run that is too large to keep here


def examples(page):
    with open(page, encoding="utf-8") as f:
        for indent, block in re.findall(r"^( *)```\n(.*?)^ *```$", f.read(), re.M | re.S):
            block = re.sub(rf"^{indent}", "", block, flags=re.M)
            parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
            yield from zip(parts[1::2], parts[2::2])


def fits(want, got):
    """Line by line; '...' swallows as little as it can."""
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
print(f"{ran} examples, {bad} are not what is printed")
sys.exit(bool(bad) or not ran)
