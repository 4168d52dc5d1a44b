"""requirements.py DOCUMENT: every row of docs/requirements.md has a number in order and a test that exists, or the reason of a decision."""
import glob
import os
import re
import sys

POINTS = 191
suites = {os.path.basename(p)[:-3]: open(p, encoding="utf-8").read() for p in glob.glob("tests/cli/*.sh")}
units = "".join(open(p, encoding="utf-8").read() for p in glob.glob("tests/unit/*/*.c"))


def exists(test):
    path = re.fullmatch(r"`(tests/[^`]+)`", test)
    if path:
        return os.path.exists(path[1])
    named = re.fullmatch(r"`([a-z_]+)`: (.+)", test)
    if not named:
        return False
    suite, words = named.groups()
    if suite == "unit":
        return f"TEST({words})" in units
    return any(words in name for name in re.findall(r'\b(?:check|expect|expect_trace|is|same_report|run_checks?) "([^"]*)"', suites.get(suite, "")))


rows = [[c.strip() for c in line.strip("|\n ").split(" |")] for line in open(sys.argv[1], encoding="utf-8") if re.match(r"\| \d+ \|", line)]
problems = [] if len(rows) == POINTS else [f"{len(rows)} points, expected {POINTS}"]
for i, row in enumerate(rows):
    row += [""] * (4 - len(row))
    number, asked, here, test = (c.strip() for c in row[:4])
    if int(number) != i + 1:
        problems.append(f"point {number}: expected {i + 1}")
    if test and not exists(test):
        problems.append(f"point {number} ({asked}): no such test: {test}")
    if not test and not here.startswith("**Otherwise**: "):
        problems.append(f"point {number} ({asked}): neither a test nor a decision")
print("\n".join(problems))
sys.exit(bool(problems))
