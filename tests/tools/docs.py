#!/usr/bin/env python3
"""docs.py INFERPROF: checks the documents against the program.

Every option of --help is on the page of its command. Every option after `inferprof COMMAND` in a document exists. Every
configuration key has a row in docs/configuration.md. Every link to a file has a target. Every
picture is used and small."""
import glob
import os
import re
import subprocess
import sys

program = sys.argv[1]
problems = []


def ask(*words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", ask("--help"), re.M)
options = {c: set(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", ask(*c.split(), "--help"), re.M)) for c in commands}
letters = {c: set(re.findall(r"^  -(\w), --", ask(*c.split(), "--help"), re.M)) for c in commands}
common = {"help", "quiet", "verbose"}

for c in commands:
    page = "docs/README.md" if c in ("completion", "man") else f"docs/{c.split()[0]}.md"
    text = read(page)
    for o in sorted(options[c] - common):
        if f"--{o}" not in text and f"--no-{o}" not in text:
            problems.append(f"{page}: --{o} of '{c}' is missing")

documents = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/examples/README.md", *sorted(glob.glob("docs/*.md"))]
for page in documents:
    text = read(page)
    for line in re.findall(r"inferprof [a-z][^`\n|]*", text):
        known = [c for c in commands if line.startswith(f"inferprof {c}") and not line[len(c) + 10:][:1].isalnum()]
        if not known or " -- " in line:
            continue
        c = max(known, key=len)
        for o in re.findall(r"(?<= )--([a-z][a-z-]*)", line):
            if o not in options[c] and not (o.startswith("no-") and o[3:] in options[c]):
                problems.append(f"{page}: 'inferprof {c}' has no option --{o}")
        for o in re.findall(r"(?<= )-([a-z])(?= )", line):
            if o not in letters[c]:
                problems.append(f"{page}: 'inferprof {c}' has no option -{o}")
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not os.path.exists(os.path.join(os.path.dirname(page), link)):
            problems.append(f"{page}: the target of the link {link} does not exist")
    if page.startswith("docs/") and page != "docs/README.md" and f"]({page[5:]})" not in read("docs/README.md"):
        problems.append(f"docs/README.md: does not list {page}")

for picture in sorted(glob.glob("docs/images/*")):
    if not any(f"images/{os.path.basename(picture)})" in read(page) for page in documents):
        problems.append(f"{picture}: no document shows it")
    if os.path.getsize(picture) > 250_000:
        problems.append(f"{picture}: larger than 250 kB")

path, keys = [], []
for line in ask("profile", "--show-config").splitlines():
    m = re.match(r"( *)([a-z_]+):(.*)", line)
    if m:
        path = path[: len(m[1]) // 2] + [m[2]]
        if m[3].split("#")[0].strip():
            keys.append(".".join(path))
table = read("docs/configuration.md")
for key in keys:
    if f"| `{key}` |" not in table and not any(f"| `{key.rsplit('.', n)[0]}` |" in table for n in (1, 2)):
        problems.append(f"docs/configuration.md: no row for {key}")
if len(keys) < 40 or len(commands) < 14:
    problems.append(f"only {len(keys)} keys and {len(commands)} commands were found: this script no longer reads the output")

print("\n".join(problems))
sys.exit(bool(problems))
