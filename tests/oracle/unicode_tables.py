#!/usr/bin/env python3
"""Writes src/engine/unicode_norm_data.c from Python's copy of the Unicode Character Database.

    python3 tests/oracle/unicode_tables.py
"""
import os
import sys
import unicodedata as u

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "engine", "unicode_norm_data.c")


def pairs():
    for c in range(0x110000):
        d = u.decomposition(chr(c))
        if d and not d.startswith("<"):
            a, *b = (int(x, 16) for x in d.split())
            yield c, a, b[0] if b else 0, int(u.normalize("NFC", chr(c)) != chr(c))


def classes():
    run = None
    for c in range(0x110000):
        k = u.combining(chr(c))
        if run and (k != run[2] or c != run[1] + 1):
            yield run
            run = None
        if k:
            run = (run[0] if run else c, c, k)
    if run:
        yield run


def rows(items, per):
    lines = [", ".join(items[i:i + per]) for i in range(0, len(items), per)]
    return "".join(f"    {line},\n" for line in lines)


def main():
    table = list(pairs())
    order = sorted((i for i, p in enumerate(table) if p[2] and not p[3]), key=lambda i: table[i][1:3])
    marks = [f"{{ 0x{a:x}, 0x{b:x}, {k} }}" for a, b, k in classes()]
    with open(OUT, "w") as f:
        f.write(f"/* Unicode {u.unidata_version}. Made by tests/oracle/unicode_tables.py: do not edit. */\n")
        f.write('/* clang-format off */\n#include "engine/tokenizer/unicode.h"\n\n')
        f.write("const struct unicode_pair unicode_pairs[] = {\n")
        f.write(rows([f"{{ 0x{c:x}, 0x{a:x}, 0x{b:x} }}" for c, a, b, _ in table], 4))
        f.write(f"}};\nconst size_t unicode_npairs = {len(table)};\n\n")
        f.write("const uint16_t unicode_composed[] = {\n")
        f.write(rows([str(i) for i in order], 16))
        f.write(f"}};\nconst size_t unicode_ncomposed = {len(order)};\n\n")
        f.write("const struct unicode_class unicode_classes[] = {\n")
        f.write(rows(marks, 5))
        f.write(f"}};\nconst size_t unicode_nclasses = {len(marks)};\n")


if __name__ == "__main__":
    sys.exit(main())
