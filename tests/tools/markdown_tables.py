"""markdown_tables.py FILE|DIR...: checks every table in the files (in a folder: in every .md file below it).

Reports what Markdown viewers would not show as a table: no blank line before it, no separator row, rows with a different
number of cells, HTML markup in a cell."""
import pathlib
import re
import sys

SEPARATOR = re.compile(r"^\|( *:?-{3,}:? *\|)+$")


def cells(line):
    """Cells between unescaped pipes; the line starts and ends with one."""
    parts = re.split(r"(?<!\\)\|", line.replace("\\\\", "\0"))
    return parts[1:-1]


def check(path):
    bad, tables = [], 0
    lines = open(path, encoding="utf-8").read().split("\n")
    fence, i = None, 0
    while i < len(lines):
        line = lines[i]
        mark = re.match(r"^(`{3,})", line)
        if mark:
            if fence is None:
                fence = mark.group(1)
            elif line.strip() == fence:
                fence = None
        if fence is None and line.startswith("|"):
            tables += 1
            block = i
            while i < len(lines) and lines[i].startswith("|"):
                i += 1
            rows = lines[block:i]
            if block > 0 and lines[block - 1].strip():
                bad.append(f"{path}:{block + 1}: no blank line before the table")
            if len(rows) < 2 or not SEPARATOR.match(rows[1]):
                bad.append(f"{path}:{block + 2}: no separator row under the header")
            for k, row in enumerate(rows):
                if not row.endswith("|"):
                    bad.append(f"{path}:{block + k + 1}: row does not end with |")
                if len(cells(row)) != len(cells(rows[0])):
                    bad.append(f"{path}:{block + k + 1}: {len(cells(row))} cells, but the header has {len(cells(rows[0]))}")
                if re.search(r"<[a-zA-Z/]", row):
                    bad.append(f"{path}:{block + k + 1}: markup in a cell")
            continue
        i += 1
    if fence is not None:
        bad.append(f"{path}: a code block is not closed")
    return bad, tables


total = 0
problems = []
paths = [f for a in map(pathlib.Path, sys.argv[1:]) for f in (sorted(a.rglob("*.md")) if a.is_dir() else [a])]
for path in paths:
    found, count = check(path)
    problems += found
    total += count
print("\n".join(problems) or f"{total} tables in {len(paths)} files")
sys.exit(bool(problems) or total == 0)
