#!/usr/bin/env python3
"""screenshots.py INFERPROF [--run | --execute FOLDER | --pictures FOLDER]: the pictures in docs/images, taken with
headless Chromium. Needs `make test-build`, whose programs generate a job of several ranks.

With --run the commands of docs/tutorial.md are executed first, in a temporary folder, and their output is written into
the page. It takes a few minutes and should be done on an idle machine. --execute only does this, in FOLDER, and needs
no browser; --pictures then takes the pictures of FOLDER on another machine. Without an option only the pictures of
imported traces, of generated runs and of the server are taken again."""
import html
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "browser"), os.path.join(ROOT, "tests", "serve"), os.path.join(ROOT, "python")]
from drive import Browser  # noqa: E402

TUTORIAL = os.path.join(ROOT, "docs", "tutorial.md")
WIDTH, HEIGHT = 1180, 900
MAX_BYTES = 250_000

# Picture, page, first and last element shown (CSS selectors; None: the top of the page), rows to remove before.
EXAMPLE_TRACES = {"example": "tests/data/kineto/tl_vllm_prefill_b200.json.gz",
                  "decode": "tests/data/kineto/tl_vllm_decode_full_mi300.json.gz"}
COUNTERS = "docs/examples/qwen3-8b"  # recorded on an H200 with hardware counters
COMPARED = "docs/examples/compare"  # metrics.json of two runs of the embedded model on an idle CPU
MODEL = "tests/data/models/llama-3.1-8b-instruct.json"
# 8 ranks on 2 nodes; the kernels of rank 5 take 20% longer
RANKS = "ranks=8 per_node=4 steps=20 layers=6 offset_ms=20 drift_ppm=20 slow=5 slow_percent=20 move_ns=5000".split()
TREND = "/trends?stage=decode&metric=time&model=llama-8b&device=NVIDIA+H200&engine=native"
EXAMPLE_SHOTS = [
    ("report", "example/report.html", None, "#stages .bars", None),
    ("timeline", "example/report.html", "#timeline", "#timeline", None),
    ("compare", "compare.html", None, "pre", None),
    ("anatomy", "decode/report.html", "#steps", "#steps .chart", None),
    ("notebook", "notebook.html", None, "body > div", None),
    ("ranks", "ranks-report/ranks.html", None, "main section:nth-of-type(2)", None),
    ("ranks-timeline", "ranks-report/ranks.html", "#skew", "#lanes", None),
    ("roofline", "counters/report.html", "#roofline", "#roofline", None),
    ("kernels", "counters/report.html", "#kernels", "#kernels .scroll", "#kernels tbody tr:nth-child(n+9)"),
    ("counters", "counters/report.html", "#timeline", "#timeline", None),
    ("power", "counters/report.html", "#power", "#power", None),
    ("static-sweep", "static-sweep.html", None, "img", None),
    ("profile-chart", "profile-chart.html", None, "img", None),
]
TUTORIAL_SHOTS = [
    ("tutorial-report", "runs/slow/report.html", None, "#stages .bars", None),
    ("tutorial-kernels", "runs/fast/report.html", "#kernels", "#kernels .scroll", "#kernels tbody tr:nth-child(n+9)"),
]

BOX = """(() => {
  const first = %s, last = Array.from(document.querySelectorAll(%s)).pop(), hide = %s;
  if (hide) for (const e of document.querySelectorAll(hide)) e.remove();
  const top = first ? document.querySelector(first).getBoundingClientRect().top + scrollY : 0;
  return [Math.max(0, top - (first ? 12 : 0)), last.getBoundingClientRect().bottom + scrollY + 8];
})()"""


def run_tutorial(program, work):
    """Executes every `$ inferprof ...` of the tutorial in order and writes its output into the page."""
    with open(TUTORIAL, encoding="utf-8") as f:
        text = f.read()
    shell = f"inferprof() {{ {shlex.quote(program)} \"$@\"; }}; "
    parts = re.split(r"(^```\n.*?^```$)", text, flags=re.M | re.S)
    for i in range(1, len(parts), 2):
        commands = re.findall(r"^\$ (.*)\n", parts[i], re.M)
        out, status = "```\n", 0
        for command in commands:
            print("$", command, flush=True)
            r = subprocess.run(["sh", "-c", f"{shell}(exit {status}); {command}"], cwd=work, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            status = r.returncode
            lines = [line.rstrip() for line in r.stdout.replace(work, "...").split("\n")]
            out += f"$ {command}\n" + "\n".join(lines).rstrip("\n") + "\n" * bool(r.stdout)
        if commands:
            parts[i] = out + "```"
    with open(TUTORIAL, "w", encoding="utf-8") as f:
        f.write("".join(parts))


def png_rows(data):
    """Width, bytes per pixel and the unfiltered rows of an 8-bit RGB or RGBA PNG."""
    at, compressed, width, bpp = 8, b"", 0, 0
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, bpp = int.from_bytes(body[:4], "big"), {2: 3, 6: 4}[body[9]]
        if kind == b"IDAT":
            compressed += body
        at += size + 12
    raw, stride, rows = zlib.decompress(compressed), width * bpp, []
    above = bytearray(stride)
    for y in range(0, len(raw), stride + 1):
        how, row = raw[y], bytearray(raw[y + 1:y + 1 + stride])
        for i in range(stride if how else 0):
            a, b, c = (row[i - bpp], above[i], above[i - bpp]) if i >= bpp else (0, above[i], 0)
            if how == 4:
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                a = a if pa <= pb and pa <= pc else b if pb <= pc else c
            row[i] = (row[i] + (a, b, (a + b) // 2, a)[how - 1]) & 255
        rows.append(row)
        above = row
    return width, bpp, rows


def make_small(path):
    """Rewrites the PNG with a palette of at most 256 colors: about a third of the bytes, no visible difference."""
    with open(path, "rb") as f:
        width, bpp, rows = png_rows(f.read())
    pixels = [[bytes(row[i:i + 3]) for i in range(0, len(row), bpp)] for row in rows]
    counts = Counter(p for row in pixels for p in row)
    palette = [color for color, _ in counts.most_common(256)]
    index = {color: i for i, color in enumerate(palette)}
    for color in counts:
        if color not in index:
            index[color] = min(range(256), key=lambda i: sum((x - y) ** 2 for x, y in zip(color, palette[i])))
    body = b"".join(b"\0" + bytes(index[p] for p in row) for row in pixels)

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + len(rows).to_bytes(4, "big") + bytes([8, 3, 0, 0, 0])
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"PLTE", b"".join(palette)) +
                chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))


def quoted(text):
    return "null" if text is None else "'" + text.replace("'", "\\'") + "'"


def take(browser, name, page, first, last, hide):
    browser.load(page, WIDTH, HEIGHT, dark=False)
    browser.settle()
    top, bottom = browser.js(BOX % (quoted(first), quoted(last), quoted(hide)))
    path = os.path.join(ROOT, "docs", "images", name + ".png")
    browser.screenshot(path, {"x": 0, "y": top, "width": WIDTH, "height": bottom - top, "scale": 1})
    make_small(path)
    size = os.path.getsize(path)
    print(f"{os.path.relpath(path, ROOT)}: {WIDTH} x {bottom - top:.0f}, {size} bytes")
    return size <= MAX_BYTES


def terminal_page(text, path):
    """Writes a page that shows text as a terminal does; verdicts have the colors of the report."""
    text = html.escape(text)
    for word, color in (("faster", "#4ec98f"), ("better", "#4ec98f"), ("slower", "#f08c7a"), ("worse", "#f08c7a")):
        text = re.sub(rf"\b{word}\b(?= \(unstable\)$|$)", f'<b style="color:{color}">{word}</b>', text, flags=re.M)
    with open(path, "w", encoding="utf-8") as f:
        f.write('<!doctype html><meta charset="utf-8"><body style="margin:0;background:#1d2127">'
                '<pre style="margin:0;padding:18px 22px;color:#d7dce2;font:12.5px/1.5 monospace">' + text + "</pre>")


def notebook_page(program, run, path):
    """Writes a page with what a notebook shows for a run."""
    os.environ["INFERPROF"] = program
    import inferprof  # the package of this tree
    with open(path, "w", encoding="utf-8") as f:
        f.write('<!doctype html><meta charset="utf-8"><body style="margin:16px;font:14px sans-serif"><div>' +
                inferprof.open(run)._repr_html_() + "</div>")


def prepare_examples(program, work):
    """Reports of imported traces and of a simulated job, and a comparison of two committed runs."""
    def quiet(*words):
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    for name, trace in EXAMPLE_TRACES.items():
        quiet(program, "import", "-q", os.path.join(ROOT, trace), "-o", os.path.join(work, name))
    quiet(os.path.join(os.path.dirname(program), "tests", "make_ranks"), os.path.join(work, "ranks"), *RANKS)
    quiet(program, "report", "-q", os.path.join(work, "ranks"), "-o", os.path.join(work, "ranks-report"))
    quiet(program, "report", "-q", os.path.join(ROOT, COUNTERS), "-o", os.path.join(work, "counters"))
    quiet(program, "static", os.path.join(ROOT, MODEL), "--gpu", "h100", "--sweep", "batch=1..512", "--svg",
          os.path.join(work, "static-sweep.svg"))
    quiet(program, "profile", "-q", "-p", "64", "-n", "16", "-b", "1,2,4,8", "repeats=3", "--chart",
          os.path.join(work, "profile-chart.svg"))
    for name in ("static-sweep", "profile-chart"):
        with open(os.path.join(work, name + ".html"), "w", encoding="utf-8") as f:
            f.write(f'<!doctype html><body style="margin:16px;background:#fff"><img src="{name}.svg">')
    notebook_page(program, os.path.join(work, "example"), os.path.join(work, "notebook.html"))
    printed = subprocess.run([program, "compare", "slow", "fast"], cwd=os.path.join(ROOT, COMPARED), text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    terminal_page("$ inferprof compare slow fast\n" + printed.split("\nKernels:")[0], os.path.join(work, "compare.html"))


# Series of the server's pictures: model, device, milliseconds of decode, [(first run of a change, factor)]
SERIES = [
    ("llama-8b", "NVIDIA H200", 640, [(34, 1.03), (50, 0.987)]),
    ("qwen3-30b-a3b", "NVIDIA H200", 410, [(52, 1.045)]),
    ("deepseek-ocr", "NVIDIA H200", 27, []),
    ("llama-70b", "NVIDIA H100", 2900, [(41, 0.94)]),
    ("gemma-3-27b", "NVIDIA A100", 1750, []),
    ("mistral-7b", "AMD Instinct MI300X", 590, [(20, 1.025), (44, 0.96)]),
    ("phi-4", "NVIDIA L4", 2300, []),
]


def make_series(root, lib):
    rng = random.Random(5)
    for n, (model, device, level_ms, changes) in enumerate(SERIES):
        for i in range(60):
            ms = level_ms * ([f for first, f in changes if i >= first] or [1])[-1] * rng.gauss(1, 0.004)
            name = f"2026-{i:02}-{model}"
            folder = lib.make_run(root, name, model=model, started_s=1790740000 + i * 86400 + n * 600, decode_ms=ms, device=device)
            if i >= 57:
                with open(os.path.join(folder, ".tags"), "w", encoding="utf-8") as f:
                    f.write("nightly\n")


def take_server(program, work, browser):
    """The newest change of each of 7 generated series, and the trend of the first one."""
    os.environ["INFERPROF"], os.environ["TMPDIR"] = program, work
    os.makedirs(os.path.join(work, "work"), exist_ok=True)
    import lib  # reads INFERPROF when it is imported
    root = os.path.join(work, "served")
    make_series(root, lib)
    server = lib.Server(root)
    try:
        while server.get("/api/v1/runs", limit=1)[2]["total"] < 60 * len(SERIES):
            time.sleep(0.1)
        return all([take(browser, "serve", server.url + "/trends", None, "table", None),
                    take(browser, "serve-trend", server.url + TREND, None, "table", "table tr:nth-child(n+4)"),
                    take(browser, "serve-runs", server.url + "/runs", None, "table", "table tr:nth-child(n+12)"),
                    take(browser, "serve-findings", server.url + "/findings", None, "table", None)])
    finally:
        server.stop()


def take_all(program, chromium, work, with_tutorial):
    """Takes the pictures of an imported trace and, if asked for, of the tutorial's runs in the folder work."""
    prepare_examples(program, work)
    with tempfile.TemporaryDirectory(prefix="inferprof-chromium-") as profile:
        browser, small = Browser(chromium, profile), True
        try:
            browser.open_page()
            for name, page, *what in EXAMPLE_SHOTS + (TUTORIAL_SHOTS if with_tutorial else []):
                small &= take(browser, name, os.path.join(work, page), *what)
            small &= take_server(program, work, browser)
        finally:
            browser.close()
    if not small:
        sys.exit(f"screenshots.py: a picture is larger than {MAX_BYTES} bytes")


def main():
    option, *folder = sys.argv[2:] or [None]
    known = ((None, 0), ("--run", 0), ("--execute", 1), ("--pictures", 1))
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or (option, len(folder)) not in known:
        sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    if option == "--execute":
        run_tutorial(program, os.path.abspath(folder[0]))
        return
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("screenshots.py: Chromium is not installed; run: sh scripts/deps.sh browser")
    with tempfile.TemporaryDirectory(prefix="inferprof-shots-") as work:
        if option == "--run":
            run_tutorial(program, work)
        if option == "--pictures":
            shutil.copytree(folder[0], work, dirs_exist_ok=True)
        take_all(program, chromium, work, option is not None)


if __name__ == "__main__":
    main()
