#!/usr/bin/env python3
"""Draws the pages in samples/, the default inputs of `inferprof profile`.

    python3 scripts/make_samples.py          needs Pillow
"""
import math
import os

from PIL import Image, ImageDraw, ImageFont

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "samples")
SIZE = (850, 1100)
INK = (24, 24, 28)
GREY = (120, 120, 128)
BLUE, ORANGE, GREEN = (31, 90, 160), (214, 110, 20), (40, 130, 80)
MARGIN = 80

BODY = [
    "A decoder reads every weight it needs once for each token it writes. On any machine whose memory is slower "
    "than its arithmetic, and that is every machine on sale, the time of a step is therefore close to the bytes "
    "moved divided by the bandwidth. Nothing that leaves those bytes alone can help.",
    "The prompt is another matter. All of its tokens pass through a layer together, a weight is used as often as "
    "there are tokens, and the arithmetic units become the limit. The same model is thus two workloads, and a "
    "single utilisation figure for both of them describes neither.",
    "Vision encoders add a third. Their attention runs over thousands of patches, their matrices are small and "
    "square, and they finish before the first token is seen. What they cost is paid once a page.",
]
NOTES = [
    "Profile before you tune. The stage that feels slow is seldom the one that is slow.",
    "Count launches: ten thousand short kernels leave gaps that no kernel shows.",
    "Compare with the floor, not with yesterday. A fast regression is still a regression.",
    "Say what was not measured. A dash is worth more than a guess.",
]


def font(size):
    return ImageFont.load_default(size)


def page():
    im = Image.new("RGB", SIZE, "white")
    return im, ImageDraw.Draw(im)


def wrap(draw, text, f, width):
    line = ""
    for word in text.split():
        trial = f"{line} {word}".strip()
        if line and draw.textlength(trial, font=f) > width:
            yield line
            trial = word
        line = trial
    yield line


def paragraph(draw, x, y, text, width, size=17):
    f = font(size)
    for line in wrap(draw, text, f, width):
        draw.text((x, y), line, fill=INK, font=f)
        y += int(size * 1.45)
    return y + size // 2


def footer(draw, number):
    draw.line((MARGIN, 1030, SIZE[0] - MARGIN, 1030), fill=GREY)
    draw.text((MARGIN, 1040), "inferprof sample pages", fill=GREY, font=font(13))
    draw.text((SIZE[0] - MARGIN - 40, 1040), f"{number} / 4", fill=GREY, font=font(13))


def save(im, name):
    im.quantize(16, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(os.path.join(OUT, name), optimize=True)


def text_page():
    im, d = page()
    width = SIZE[0] - 2 * MARGIN
    d.text((MARGIN, 80), "Two workloads in one model", fill=INK, font=font(34))
    y = paragraph(d, MARGIN, 140, "Why prefill and decode are measured apart", width, 20) + 10
    for text in BODY:
        y = paragraph(d, MARGIN, y, text, width) + 6
    d.text((MARGIN, y + 8), "Four rules", fill=INK, font=font(25))
    y += 54
    for i, text in enumerate(NOTES, 1):
        d.text((MARGIN, y), f"{i}.", fill=INK, font=font(17))
        y = paragraph(d, MARGIN + 34, y, text, width - 34)
    footer(d, 1)
    save(im, "page-text.png")


ROWS = [("Stage", "FLOPs", "Bytes", "Time", "Limit"), ("SAM encoder", "977 GF", "0.19 GB", "2.0 ms", "compute"),
        ("CLIP encoder", "162 GF", "0.61 GB", "0.3 ms", "compute"), ("Projector", "1.3 GF", "5.2 MB", "0.003 ms", "compute"),
        ("Prefill, 283 tokens", "234 GF", "5.87 GB", "2.4 ms", "memory"), ("Decode, one token", "1.2 GF", "1.20 GB", "0.5 ms", "memory"),
        ("Decode, 512 tokens", "615 GF", "620 GB", "258 ms", "memory")]


def table_page():
    im, d = page()
    d.text((MARGIN, 80), "What a page costs", fill=INK, font=font(34))
    y = paragraph(d, MARGIN, 140, "The figures below are for one page of 1024 by 1024 pixels. Bytes are the fewest that can be "
                  "moved; times are the least that a device of 500 TF/s and 2.4 TB/s could need.", SIZE[0] - 2 * MARGIN)
    y += 14
    edges = [MARGIN, 310, 420, 530, 640, SIZE[0] - MARGIN]
    for i, row in enumerate(ROWS):
        if i == 0:
            d.rectangle((edges[0], y, edges[-1], y + 40), fill=(226, 232, 240))
        for c, cell in enumerate(row):
            x = edges[c] + 10 if c in (0, 4) else edges[c + 1] - 10 - d.textlength(cell, font=font(17))
            d.text((x, y + 9), cell, fill=INK, font=font(17))
        d.line((edges[0], y, edges[-1], y), fill=INK, width=2 if i < 2 else 1)
        y += 40
    d.line((edges[0], y, edges[-1], y), fill=INK, width=2)
    for x in edges:
        d.line((x, y - 40 * len(ROWS), x, y), fill=GREY)
    y = paragraph(d, MARGIN, y + 16, "Table 1. Least cost of each stage.", 600, 15)
    paragraph(d, MARGIN, y + 20, BODY[0], SIZE[0] - 2 * MARGIN)
    footer(d, 2)
    save(im, "page-table.png")


def figure_page():
    im, d = page()
    d.text((MARGIN, 80), "Where the time goes", fill=INK, font=font(34))
    y = paragraph(d, MARGIN, 140, BODY[2], SIZE[0] - 2 * MARGIN)
    left, right, top, bottom = MARGIN + 60, SIZE[0] - MARGIN, y + 30, y + 400
    d.line((left, top, left, bottom), fill=INK, width=2)
    d.line((left, bottom, right, bottom), fill=INK, width=2)
    for i, (name, value, colour) in enumerate([("sam", 2.0, BLUE), ("clip", 0.3, BLUE), ("prefill", 2.4, ORANGE),
                                               ("decode", 8.0, GREEN)]):
        x = left + 50 + i * 150
        d.rectangle((x, bottom - value * 40, x + 90, bottom - 1), fill=colour)
        d.text((x + 18, bottom + 10), name, fill=INK, font=font(17))
        d.text((x + 24, bottom - value * 40 - 26), f"{value}", fill=INK, font=font(17))
    for v in range(0, 10, 2):
        d.line((left - 6, bottom - v * 40, left, bottom - v * 40), fill=INK)
        d.text((left - 30, bottom - v * 40 - 9), str(v), fill=INK, font=font(15))
    d.text((MARGIN, top - 26), "ms", fill=INK, font=font(15))
    y = paragraph(d, MARGIN, bottom + 46, "Figure 1. Milliseconds per stage, sixteen tokens of output.", 600, 15)
    points = [(MARGIN + i, y + 130 - 45 * math.sin(i / 40) * math.exp(-i / 500)) for i in range(0, SIZE[0] - 2 * MARGIN, 3)]
    d.line(points, fill=ORANGE, width=3)
    d.line((MARGIN, y + 130, SIZE[0] - MARGIN, y + 130), fill=GREY)
    paragraph(d, MARGIN, y + 210, "Figure 2. Power over one request, smoothed.", 600, 15)
    footer(d, 3)
    save(im, "page-figure.png")


def column_page():
    im, d = page()
    width = (SIZE[0] - 2 * MARGIN - 30) // 2
    d.text((MARGIN, 70), "Notes on measuring", fill=INK, font=font(32))
    d.line((MARGIN, 118, SIZE[0] - MARGIN, 118), fill=INK, width=2)
    texts = BODY + NOTES + [
        "Model FLOPs count what the mathematics needs, not what the program did. Padding, recomputation and masked "
        "positions are work for the machine, but no progress for the user.",
        "Energy follows time more closely than it follows arithmetic: a device that waits still draws power.",
        "E = P t,    MFU = F / (t P),    MBU = B / (t W)"]
    for column, part in enumerate((texts[:4], texts[4:])):
        y = 140
        for text in part:
            y = paragraph(d, MARGIN + column * (width + 30), y, text, width, 16) + 8
    footer(d, 4)
    save(im, "page-columns.png")


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    text_page()
    table_page()
    figure_page()
    column_page()
