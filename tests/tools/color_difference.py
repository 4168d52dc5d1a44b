#!/usr/bin/env python3
"""Smallest difference between the category colors of a report, also as people with color blindness see them.

    color_difference.py REPORT.html MINIMUM

Prints one line per theme and kind of vision, and fails if two colors differ by less than MINIMUM (CIE76, Lab units;
2.3 is a just noticeable difference). In grey print, two categories must have another pattern, or their lightness must
differ by MINIMUM. The categories are those of the timeline's data. Color blindness: the matrices for complete dichromacy by Machado, Oliveira and
Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, in linear RGB."""

import itertools
import json
import re
import sys

VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(text):
    values = [int(text[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def lab(rgb):
    r, g, b = (min(1, max(0, v)) for v in rgb)
    x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
    y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b
    z = (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def seen(text, vision):
    rgb = linear(text)
    return lab([sum(m * v for m, v in zip(row, rgb)) for row in VISION[vision]])


def smallest(colors, vision):
    points = [seen(c, vision) for c in colors]
    pairs = itertools.combinations(range(len(colors)), 2)
    return min((sum((a - b) ** 2 for a, b in zip(points[i], points[j])) ** 0.5, i, j) for i, j in pairs)


def themes(css):
    """The lists of colors --c0, --c1, ... in the order of the file: light, then dark."""
    found = re.findall(r"--c(\d+): (#[0-9a-f]{6})", css)
    starts = [i for i, (n, _) in enumerate(found) if n == "0"] + [len(found)]
    return [[c for _, c in found[a:b]] for a, b in zip(starts, starts[1:])]


HATCHED = 16  # added to the number of a color: drawn with stripes


def print_patterns(page):
    """{color number: CSS background in print}"""
    found = re.findall(r"^:is\(#kernels, #timeline\) \.c(\d+)(\.hatched)? \{ background-image: (.*); \}$", page, re.M)
    return {int(n) + (HATCHED if hatched else 0): css for n, hatched, css in found}


def check_grey(page, colors, minimum):
    """All pairs of categories, as printed without color."""
    categories = json.loads(re.search(r'"colors":(\[[\d,]*\])', page).group(1))
    patterns = print_patterns(page)
    lightness = {c: lab(linear(colors[c % HATCHED]))[0] for c in categories}
    same = [(abs(lightness[a] - lightness[b]), a, b) for a, b in itertools.combinations(sorted(set(categories)), 2)
            if patterns[a] == patterns[b]]
    print(f"{len(categories)} categories, {len(set(categories))} colors and stripes; in grey, equal patterns differ by "
          "%.1f in lightness (%d and %d)" % min(same))
    return len(set(categories)) == len(categories) and min(same)[0] >= minimum


def main():
    path, minimum = sys.argv[1], float(sys.argv[2])
    with open(path, encoding="utf-8") as file:
        page = file.read()
    lists = themes(page)
    good = len(lists) == 2 and check_grey(page, lists[0], minimum)
    for name, colors in zip(("light", "dark"), lists):
        for vision in VISION:
            distance, i, j = smallest(colors, vision)
            print(f"{name}, {len(colors)} colors, {vision}: {distance:.1f} between c{i} and c{j}")
            good &= distance >= minimum and len(colors) >= 12
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
