#!/usr/bin/env python3
"""Makes tests/data/image: small PNG and JPEG files of every kind, with checksums of Pillow's results.

    python3 tests/oracle/images.py          needs Pillow 9 to 12 and numpy; the tests themselves need neither

Pillow 13 chooses which axis it resizes first, so some results differ by 1. Up to version 12 the horizontal pass came
first. DeepSeek-OCR was trained and published with such versions.

expected.txt: one line per file, `NAME WIDTH HEIGHT CRC32`, of the upright 8-bit RGB pixels.
resize.txt:   `resize IN_W IN_H OUT_W OUT_H CRC32` and `pad IN_W IN_H SIDE CRC32` over noise().
views.txt:    `MODE IN_W IN_H GRID_W GRID_H CRC32(global) CRC32(tiles)` of the fp32 views over noise().
"""
import os
import random
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, __version__ as pillow_version

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "data", "image")


def noise(width, height):
    """The same pixels as tests/unit/engine-image/noise.h: a smooth ramp with 32-bit LCG noise."""
    n = width * height * 3
    a = np.empty(n, dtype=np.uint8)
    state = (width * 7919 + height) & 0xFFFFFFFF
    out = bytearray(n)
    for i in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        ramp = (i // 3 % width) * 255 // width
        out[i] = (ramp + (state >> 24)) // 2 if (i // (3 * width)) % 8 < 6 else (state >> 24)
    a[:] = np.frombuffer(bytes(out), dtype=np.uint8)
    return a.reshape(height, width, 3)


# ---- PNG, written without Pillow, which cannot write every kind
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_row(row, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", v) for v in row)
    if depth == 8:
        return bytes(row)
    per = 8 // depth
    out = bytearray()
    for i in range(0, len(row), per):
        byte = 0
        part = list(row[i:i + per]) + [0] * (per - len(row[i:i + per]))
        for v in part:
            byte = byte << depth | v
        out.append(byte)
    return bytes(out)


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(width, height, colour, depth, rnd, interlace=0, extra=b"", after=b""):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    top = min((1 << depth) - 1, 255 if colour == 3 else 1 << 16)
    px = [[[rnd.randint(0, top) for _ in range(channels)] for _ in range(width)] for _ in range(height)]
    if colour == 0 and depth == 16:  # values both below and above 255
        px = [[[rnd.randint(0, 400)] for _ in range(width)] for _ in range(height)]
    raw = bytearray()
    for x0, y0, dx, dy in (ADAM7 if interlace else [(0, 0, 1, 1)]):
        for y in range(y0, height, dy):
            row = [v for x in range(x0, width, dx) for v in px[y][x]]
            if row:
                raw += b"\0" + pack_row(row, depth)
    body = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))
    if colour == 3:
        body += chunk(b"PLTE", bytes(rnd.randint(0, 255) for _ in range(3 * (top + 1))))
    body += extra + chunk(b"IDAT", zlib.compress(bytes(raw), 9)) + after + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def exif(orientation, order="<"):
    mark = b"II" if order == "<" else b"MM"
    rows = struct.pack(order + "HHIHH", 0x0100, 3, 1, 5, 0) + struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", 2) + rows + struct.pack(order + "I", 0)


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def make_pngs(rnd):
    for colour, depths, label in [(0, (1, 2, 4, 8, 16), "grey"), (2, (8, 16), "rgb"), (3, (1, 2, 4, 8), "palette"),
                                  (4, (8, 16), "grey_alpha"), (6, (8, 16), "rgba")]:
        for depth in depths:
            for interlace in (0, 1):
                name = f"{label}{depth}{'_interlaced' if interlace else ''}.png"
                write(name, png(19, 11, colour, depth, rnd, interlace))
    write("palette8_transparent.png", png(13, 9, 3, 8, rnd, extra=chunk(b"tRNS", bytes(range(0, 250, 5)))))
    write("grey8_transparent.png", png(13, 9, 0, 8, rnd, extra=chunk(b"tRNS", struct.pack(">H", 7))))
    write("rgb8_transparent.png", png(13, 9, 2, 8, rnd, extra=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))))
    write("rgb8_exif6.png", png(13, 9, 2, 8, rnd, extra=chunk(b"eXIf", exif(6, ">"))))
    write("rgb8_exif3_late.png", png(13, 9, 2, 8, rnd, after=chunk(b"eXIf", exif(3))))
    write("one_pixel.png", png(1, 1, 2, 8, rnd))


def make_jpegs():
    im = Image.fromarray(noise(37, 29)).resize((61, 43), Image.BICUBIC)
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        im.save(os.path.join(OUT, f"rgb_{name}.jpg"), quality=80, subsampling=subsampling)
    im.save(os.path.join(OUT, "progressive.jpg"), quality=70, progressive=True)
    im.convert("L").save(os.path.join(OUT, "grey.jpg"), quality=80)
    im.convert("CMYK").save(os.path.join(OUT, "cmyk.jpg"), quality=80)
    small = im.crop((0, 0, 24, 17))
    for o in range(1, 9):
        small.save(os.path.join(OUT, f"exif{o}.jpg"), quality=75, exif=b"Exif\0\0" + exif(o, "<>"[o % 2]))


def upright_rgb(path):
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


def describe():
    lines = []
    for name in sorted(os.listdir(OUT)):
        if name.endswith((".png", ".jpg")):
            im = upright_rgb(os.path.join(OUT, name))
            lines.append(f"{name} {im.width} {im.height} {zlib.crc32(im.tobytes()):08x}")
    return lines


def resize_cases(rnd):
    yield from [("resize", 64, 64, 64, 64), ("resize", 64, 48, 64, 20), ("resize", 64, 48, 20, 48),
                ("resize", 1, 1, 7, 5), ("resize", 3, 2, 200, 150), ("resize", 333, 217, 10, 9), ("resize", 500, 3, 2, 1)]
    for _ in range(120):
        yield ("resize", rnd.randint(1, 90), rnd.randint(1, 90), rnd.randint(1, 160), rnd.randint(1, 160))
    yield from [("pad", 64, 64, 32), ("pad", 101, 50, 64), ("pad", 50, 101, 64), ("pad", 3, 100, 64), ("pad", 100, 1, 31),
                ("pad", 64, 63, 128), ("pad", 63, 64, 128), ("pad", 200, 133, 96), ("pad", 5, 7, 70)]
    for _ in range(60):
        yield ("pad", rnd.randint(1, 120), rnd.randint(1, 120), rnd.randint(8, 120))


def resize_lines(rnd):
    lines = []
    for kind, w, h, *rest in resize_cases(rnd):
        if kind == "pad" and min(w, h) * rest[0] < max(w, h):
            continue  # the short side would be 0: an error in Pillow, one pixel in inferprof
        im = Image.fromarray(noise(w, h))
        if kind == "resize":
            got = im.resize(tuple(rest), Image.BICUBIC)
        else:
            got = ImageOps.pad(im, (rest[0], rest[0]), method=Image.BICUBIC, color=(127, 127, 127))
        lines.append(" ".join(map(str, [kind, w, h, *rest])) + f" {zlib.crc32(got.tobytes()):08x}")
    return lines


# ---- DeepSeek-OCR views, from the description of its preprocessing
def grid(width, height, low=2, high=9, side=640):
    best, best_d = (1, 1), float("inf")
    for w, h in sorted(((w, h) for w in range(1, high + 1) for h in range(1, high + 1) if low <= w * h <= high),
                       key=lambda g: g[0] * g[1]):
        d = abs(width / height - w / h)
        if d < best_d or (d == best_d and width * height > 0.5 * side * side * w * h):
            best, best_d = (w, h), d
    return best


def normalised(im):
    a = np.asarray(im).astype(np.float32) / np.float32(255)
    a = (a - np.float32(0.5)) / np.float32(0.5)
    return np.ascontiguousarray(a.transpose(2, 0, 1)).tobytes()


MODES = {"tiny": (512, 512, False), "small": (640, 640, False), "base": (1024, 1024, False),
         "large": (1280, 1280, False), "gundam": (1024, 640, True)}


def views_line(mode, width, height):
    base, side, crop = MODES[mode]
    im = Image.fromarray(noise(width, height))
    w = h = 0
    tiles = b""
    if crop and (width > 640 or height > 640):
        w, h = grid(width, height)
        big = im.resize((640 * w, 640 * h), Image.BICUBIC)
        for i in range(w * h):
            x, y = i % w * 640, i // w * 640
            tiles += normalised(big.crop((x, y, x + 640, y + 640)))
    if not crop and side <= 640:
        view = im.resize((side, side), Image.BICUBIC)
    else:
        s = base if crop else side
        view = ImageOps.pad(im, (s, s), method=Image.BICUBIC, color=(127, 127, 127))
    return f"{mode} {width} {height} {w} {h} {zlib.crc32(normalised(view)):08x} {zlib.crc32(tiles):08x}"


VIEWS = [("tiny", 301, 200), ("small", 90, 411), ("base", 429, 306), ("base", 212, 300), ("large", 250, 190),
         ("gundam", 300, 200), ("gundam", 641, 640), ("gundam", 429, 806), ("gundam", 660, 231)]


def main():
    if int(pillow_version.split(".")[0]) > 12:
        raise SystemExit(f"Pillow {pillow_version} resizes in another order: use 12 or older")
    os.makedirs(OUT, exist_ok=True)
    rnd = random.Random(20251)
    make_pngs(rnd)
    make_jpegs()
    for name, lines in (("expected.txt", describe()), ("resize.txt", resize_lines(rnd)),
                        ("views.txt", [views_line(*v) for v in VIEWS])):
        with open(os.path.join(OUT, name), "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
