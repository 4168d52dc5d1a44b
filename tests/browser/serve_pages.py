"""serve_pages.py CHROMIUM ROOT [--screenshots DIR]: opens every page of `inferprof serve` in headless Chromium; prints TAP lines."""
import base64
import os
import pathlib
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "serve"))
import lib  # noqa: E402
from drive import OVERFLOW, Browser, check  # noqa: E402

SERIES = "model=llama-3-8b&device=NVIDIA+H200&engine=native"
PAGES = [
    ("runs", "/runs", "llama-3-8b"),
    ("search", "/runs?search=qwen", "qwen3-8b"),
    ("figure", "/runs?stage=decode&sort=time_per_token", "ms"),
    ("run", "/runs/run-41", "launch-bound"),
    ("trends", "/trends?stage=decode&metric=time_per_token&" + SERIES, "run-30"),
    ("changes", "/trends", "slower"),
    ("findings", "/findings", "launch-bound"),
    ("machines", "/machines", "node2"),
    ("compare", "/compare?a=run-10&a=run-11&b=run-41", "decode"),
    ("jobs", "/jobs", "Jobs"),
    ("missing", "/runs/no-such-run", "no run"),
]


def make_runs(root):
    """A series with a step of 4% at run-30, and a second one; one model name is hostile."""
    random.seed(3)
    for i in range(42):
        level = 640 * (1.04 if i >= 30 else 1)
        lib.make_run(root, f"run-{i:02}", model="llama-3-8b", started_s=1790000000 + i * 43200, decode_ms=level * random.gauss(1, 0.004), host=f"node{i % 3}")
    for i in range(12):
        lib.make_run(root, f"q-{i:02}", model="qwen3-8b", started_s=1790020000 + i * 86400, decode_ms=300 * random.gauss(1, 0.01), host="node2")
    lib.make_run(root, "hostile", model="<img src=x onerror=alert(1)>", started_s=1780000000)


def press(b, *keys):
    for key in keys:
        b.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        b.call("Input.dispatchKeyEvent", type="keyUp", key=key)


def open_page(b, s, path, width=1280, dark=False, scripts=True):
    b.load(s.url + path, width, 900, dark, scripts)
    if scripts:
        b.settle()


def check_page(b, s, name, path, expected, shots):
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        open_page(b, s, path, width, dark)
        tag = f"{width}-{'dark' if dark else 'light'}"
        errors = [e for e in b.errors() if name != "missing"] # the browser logs the status 404
        wide = b.js(OVERFLOW)
        text = b.js("document.body.innerText")
        check(f"page {name} at {tag} has no error, nothing too wide, and its content", not errors and wide == [] and expected in text,
              (errors, wide, text[:300]))
        if shots:
            b.screenshot(f"{shots}/{name}-{tag}.png")
    pdf = base64.b64decode(b.call("Page.printToPDF", printBackground=True)["data"])
    check(f"page {name} prints", len(pdf) > 5000, len(pdf))
    if shots:
        pathlib.Path(f"{shots}/{name}.pdf").write_bytes(pdf)


def follow(b, action):
    """Does something that opens another page, and returns the path of that page."""
    b.events.clear()
    action()
    b.wait_event("Page.loadEventFired")
    return b.js("location.pathname + location.search")


def check_keys(b, s):
    open_page(b, s, "/runs")
    press(b, "/")
    check("the key / goes to the search field", b.js("document.activeElement.type") == "search")
    for key, path in (("t", "/trends"), ("f", "/findings"), ("m", "/machines"), ("r", "/runs")):
        b.js("document.activeElement.blur()")
        check(f"the keys g {key} open {path}", follow(b, lambda k=key: press(b, "g", k)).startswith(path))
    first = b.js("""(() => { for (const e of document.querySelectorAll('a, button, input, select, summary')) {
        e.focus(); const c = getComputedStyle(e); if (document.activeElement === e && c.outlineStyle === 'none' && c.boxShadow === 'none') return e.outerHTML; } return ''; })()""")
    check("a focused element is visible", first == "", first)


def check_compare(b, s):
    open_page(b, s, "/runs?model=llama-3-8b")
    check("compare needs two runs", b.js("document.getElementById('compare').disabled"))
    b.js("document.querySelectorAll('#pick input[type=checkbox]')[0].click(); document.querySelectorAll('#pick input[type=checkbox]')[2].click()")
    path = follow(b, lambda: b.js("document.getElementById('compare').click()"))
    check("two selected runs are compared, the older one is the baseline", path == "/compare?a=run-39&b=run-41", path)


def check_trend(b, s):
    open_page(b, s, "/trends?stage=decode&metric=time_per_token&" + SERIES)
    marks = b.js("document.querySelectorAll('svg .change, svg .change-point, svg [data-change]').length")
    links = b.js("Array.from(document.querySelectorAll('a[href*=compare]'), a => a.getAttribute('href'))")
    text = b.js("document.body.innerText")
    check("the trend shows its change point with the runs on both sides", "run-29" in text and "run-30" in text and (marks or links), (marks, links, text[:500]))


def main():
    program, root = sys.argv[1:3]
    shots = sys.argv[4] if len(sys.argv) > 4 else None
    make_runs(root)
    s = lib.Server(root, "--allow-jobs", "--rate", "100000")
    while s.get("/api/v1/runs", limit=1)[2]["total"] < 55:
        pass
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(program, profile)
        try:
            b.open_page()
            for page in PAGES:
                check_page(b, s, *page, shots)
            open_page(b, s, "/runs?search=hostile")
            check("names of runs are text, not markup", b.js("document.querySelectorAll('img').length") == 0 and "<img src=x" in b.js("document.body.innerText"))
            check_keys(b, s)
            check_compare(b, s)
            check_trend(b, s)
            foreign = [u for u in b.requests() if not u.startswith(s.url)]
            check("pages load nothing from other servers", foreign == [], foreign)
            open_page(b, s, "/runs", scripts=False)
            b.call("Emulation.setScriptExecutionDisabled", value=False)
            check("pages work without scripts", "run-41" in b.js("document.body.innerText") and b.js("!!document.querySelector('form button, form input[type=submit]')"))
        finally:
            b.close()
    s.stop()


if __name__ == "__main__":
    main()
