"""md_tables.py DIR...: every table of every Markdown file below the folders has a head, a rule and rows of one width.
Prints the number of tables; exit 1 with file:line for each that a plain viewer would not render."""
import pathlib
import re
import sys


def cells(line):
    return len(re.split(r"(?<!\\)\|", line.strip().strip("|")))


def tables_of(path):
    fence, block = None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        mark = re.match(r"(`{3,})", line)
        if mark and fence is None:
            fence = mark.group(1)
        elif fence is not None:
            if line.startswith(fence):
                fence = None
            continue
        if line.startswith("|"):
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def main():
    found, bad = 0, []
    for root in sys.argv[1:]:
        for path in sorted(pathlib.Path(root).rglob("*.md")):
            for block in tables_of(path):
                found += 1
                (first, head), width = block[0], cells(block[0][1])
                if len(block) < 2 or not re.fullmatch(r"\|( *:?-{3,}:? *\|)+", block[1][1].strip()):
                    bad.append(f"{path}:{first}: no rule under the head: {head}")
                bad += [f"{path}:{n}: {cells(row)} cells, the head has {width}" for n, row in block if cells(row) != width]
                if not all(row.rstrip().endswith("|") for _, row in block):
                    bad.append(f"{path}:{first}: a row has no closing bar")
    print(f"{found} tables")
    print("\n".join(bad), file=sys.stderr)
    return 1 if bad or not found else 0


sys.exit(main())
