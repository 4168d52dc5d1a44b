"""Opens a report in headless Chromium and checks the visible page; prints TAP lines.

    drive.py CHROMIUM REPORT.html [--screenshots DIR]
    drive.py CHROMIUM RANKS.html --ranks

Uses the DevTools protocol over a pipe (file descriptors 3 and 4 of the browser): no port, no extra package.
"""
import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60


class Browser:
    """One headless browser and one page in it."""

    def __init__(self, program, profile, more_flags=()):
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()

        def attach_pipes():
            # Copied to high numbers first, because one of the pipes may itself be 3 or 4.
            a, b = os.dup2(to_read, 100), os.dup2(to_write, 101)
            os.dup2(a, 3)
            os.dup2(b, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe",
                 "--user-data-dir=" + profile, *more_flags, "about:blank"]
        self.process = subprocess.Popen([program] + flags, close_fds=False, preexec_fn=attach_pipes,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.next_id = 0
        self.events = []
        self.session = None

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise TimeoutError("the browser did not answer")
            data = os.read(self.read_fd, 1 << 16)
            if not data:
                raise EOFError("the browser closed its pipe")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            message = self.receive(deadline)
            if message.get("id") == self.next_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_event(self, name):
        deadline = time.monotonic() + TIMEOUT_S
        while not any(e.get("method") == name for e in self.events):
            self.events.append(self.receive(deadline))

    def open_page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def load(self, path, width, height, dark, scripts=True):
        self.events.clear()
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path if path.startswith("http:") else pathlib.Path(path).resolve().as_uri())
        self.wait_event("Page.loadEventFired")

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def settle(self):
        """Waits two frames, after which all requested drawing is done."""
        self.js("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def errors(self):
        bad = [e for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        bad += [e for e in self.events if e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning")]
        bad += [e for e in self.events if e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
        bad += [e for e in self.events if e.get("method") == "Page.javascriptDialogOpening"]
        return bad

    def requests(self):
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [u for u in urls if not u.startswith(("file:", "data:", "about:"))]

    def screenshot(self, path, clip=None):
        """The whole page, or the rectangle `clip` of it."""
        if clip is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, EOFError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def check(name, good, detail=""):
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        print("# " + str(detail)[:2000].replace("\n", " "))


OVERFLOW = """(() => {
  const width = document.documentElement.clientWidth, bad = [];
  if (document.documentElement.scrollWidth > width) bad.push('page is ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll, pre, nav, svg, script') && !e.matches('.scroll, pre, nav')) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > width + 1 || r.left < -1)) bad.push(e.tagName + '.' + e.className + ' ' + Math.round(r.right));
  }
  return bad.slice(0, 5);
})()"""

COLUMN = """(() => {
  const t = document.querySelector('#kernels table'), i = %d;
  return Array.from(t.tBodies[0].rows, r => r.cells[i].dataset.v === undefined ? r.cells[i].textContent : Number(r.cells[i].dataset.v || 'NaN'));
})()"""


SHEET = 687  # CSS pixels: A4 with margins of 14 mm
UNSEEN = """Array.from(document.querySelectorAll('th')).filter(h => h.getClientRects().length === 0).map(h => h.textContent)"""

FOLDED = """Array.from(document.querySelectorAll('.findings li')).filter(f => !f.checkVisibility()).map(f => f.textContent)"""

# Words of table cells that are printed on two lines. Names of kernels and operators may be broken.
BROKEN = """(() => {
  const bad = [], range = document.createRange();
  for (const cell of document.querySelectorAll('td:not(.name), th')) {
    const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());)
      for (const word of node.data.matchAll(/[^\\s/-]+/g)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set(Array.from(range.getClientRects(), r => Math.round(r.top))).size > 1) bad.push(word[0]);
      }
  }
  return bad.slice(0, 5);
})()"""

# Charts without a number under the mouse pointer, and tables without a filter.
SILENT = """Array.from(document.querySelectorAll('.chart svg.wide')).filter(s =>
  !Array.from(s.querySelectorAll('rect title, circle title, g title')).some(t => /\\d/.test(t.textContent))).map(s => s.querySelector('title').textContent)"""
UNFILTERED = """Array.from(document.querySelectorAll('.scroll > table')).filter(t => {
  const tools = t.parentElement.previousElementSibling, filter = tools && tools.querySelector('input[type=search]');
  if (!filter) return true;
  filter.value = 'no such row';
  filter.dispatchEvent(new Event('input'));
  const hidden = Array.from(t.tBodies[0].rows).every(r => r.offsetParent === null);
  filter.value = '';
  filter.dispatchEvent(new Event('input'));
  return !hidden;
}).map(t => t.closest('section').id)"""

INKED = """(() => {
  const c = document.querySelector('#timeline-box canvas');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let i = 0; i < d.length; i += 388) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
  return seen.size;
})()"""


def sorted_down(values):
    known = [v for v in values if v is not None and v == v]
    return known == sorted(known, reverse=True)


def check_tables(b):
    b.js("document.querySelectorAll('#kernels th button')[3].click()")
    down = b.js(COLUMN % 3)
    check("a click sorts the kernels by calls", sorted_down(down) and len(down) > 1, down[:8])
    b.js("document.querySelectorAll('#kernels th button')[3].click()")
    check("a second click reverses the order", sorted_down(b.js(COLUMN % 3)[::-1]))
    check("the column header has the sort order",
          b.js("document.querySelectorAll('#kernels th')[3].getAttribute('aria-sort')") == "ascending")
    b.js("""(() => { const i = document.querySelector('#kernels input[type=search]');
             i.value = 'gemv'; i.dispatchEvent(new Event('input')); })()""")
    shown = b.js("Array.from(document.querySelectorAll('#kernels tbody tr')).filter(r => r.offsetParent !== null).map(r => r.textContent.toLowerCase())")
    check("the filter keeps only matching rows", len(shown) > 0 and all("gemv" in s for s in shown), shown[:3])


CLIPPED = """Array.from(document.querySelectorAll('.scroll')).filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.closest('section').id + ' ' + e.scrollWidth + ' in ' + e.clientWidth)"""


def check_every_table(b):
    check("every table filters", b.js(UNFILTERED) == [], b.js(UNFILTERED))
    check("every chart has numbers under the mouse pointer", b.js(SILENT) == [], b.js(SILENT))
    tables = b.js("document.querySelectorAll('table').length")
    check("every heading of every table sorts",
          tables > 0 and b.js("Array.from(document.querySelectorAll('th')).every(h => h.querySelector('button'))"))
    check("every heading explains itself", b.js("Array.from(document.querySelectorAll('th:not([title])'), h => h.textContent)") == [],
          b.js("Array.from(document.querySelectorAll('th:not([title])'), h => h.textContent)"))
    order = b.js("""(() => { const t = document.querySelector('#stages table'), h = Array.from(t.tHead.rows[0].cells).findIndex(c => c.textContent === 'time ms');
        t.tHead.rows[0].cells[h].querySelector('button').click();
        return Array.from(t.tBodies[0].rows, r => Number(r.cells[h].textContent.replaceAll(',', ''))); })()""")
    check("a table without raw values sorts by its numbers", sorted_down(order), order)
    b.js("""(() => { const boxes = document.querySelectorAll('#kernels .columns input'); boxes[2].click(); })()""")
    check("the column chooser hides a column",
          b.js("document.querySelectorAll('#kernels th')[2].offsetParent === null && document.querySelectorAll('#kernels th')[1].offsetParent !== null"))
    csv = b.js("""(() => { const c = Array.from(document.querySelectorAll('#kernels .tools button')).find(x => x.textContent === 'Copy as CSV');
        c.click(); return c.dataset.csv; })()""")
    rows = b.js("Array.from(document.querySelectorAll('#kernels tbody tr')).filter(r => r.offsetParent !== null).length")
    check("copy as CSV has the shown rows and columns", csv.count("\n") == rows + 1 and csv.startswith("kernel,share,calls,"), csv[:200])
    b.js("document.querySelectorAll('#kernels .columns input')[2].click()")


def view(b):
    return b.js("(() => { const c = document.querySelector('#timeline-box canvas'); return Number(c.dataset.to) - Number(c.dataset.from); })()")


def wheel(b, x, y, delta):
    b.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta, modifiers=2)
    b.settle()


def check_windows(b):
    """A trace that is not shown whole has a selector of windows."""
    names = b.js("Array.from(document.querySelectorAll('#timeline-box select option'), o => o.textContent)")
    if not names:
        check("a trace without a selector is shown whole", "Whole trace" in b.js("document.querySelector('#timeline-box .detail').textContent"))
        return
    check("the selector names the windows", len(names) > 1 and all(n.startswith("Window: ") for n in names), names)
    b.js("(() => { const s = document.querySelector('#timeline-box select'); s.value = '1'; s.dispatchEvent(new Event('change')); })()")
    b.settle()
    told = b.js("document.querySelector('#timeline-box .detail').textContent")
    check("the selector shows another window", names[1].split(": ")[1] in told and b.js(INKED) > 4, (names, told))
    b.js("(() => { const s = document.querySelector('#timeline-box select'); s.value = '0'; s.dispatchEvent(new Event('change')); })()")
    b.settle()


def check_timeline(b):
    b.js("document.querySelector('#timeline-box').scrollIntoView({block: 'center', behavior: 'instant'})")
    b.settle()
    box = b.js("(() => { const r = document.querySelector('#timeline-box canvas').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    whole = view(b)
    inked = b.js(INKED)
    check("the timeline is drawn", box[3] > 60 and inked > 4, (box, inked))
    x, y = box[0] + box[2] / 2, box[1] + min(40, box[3] / 2)
    for _ in range(6):
        wheel(b, x, y, -120)
    near = view(b)
    check("the wheel with Ctrl zooms in", near < whole / 4, (whole, near))
    b.js("document.querySelector('#timeline-box button[aria-label=\"Show all\"]').click()")
    b.settle()
    check("the Show all button shows the whole timeline", abs(view(b) - whole) < 1, view(b))
    b.js("""(() => { const i = document.querySelector('#timeline-box input[type=search]'); i.value = 'gemv'; i.dispatchEvent(new Event('input')); })()""")
    b.js("document.querySelector('#timeline-box button[aria-label=\"Find next\"]').click()")
    b.settle()
    pinned = b.js("document.querySelector('#timeline-box canvas').dataset.pinned")
    told = b.js("document.querySelector('#timeline-box .detail').textContent")
    check("find next pins a slice", "gemv" in pinned.lower(), pinned)
    b.js("""(() => { const i = document.querySelector('#timeline-box input[type=search]'); i.value = 'no such slice'; i.dispatchEvent(new Event('input')); })()""")
    check("a search without a match says so", "No slice has" in b.js("document.querySelector('#timeline-box .detail').textContent"))
    check("a kernel tells its launch and geometry", "launched" in told and "grid" in told, told)
    b.js("""(() => { const i = document.querySelector('#timeline-box input[type=search]'); i.value = ''; i.dispatchEvent(new Event('input')); })()""")
    b.js("document.querySelector('#timeline-box button[aria-label=\"Show all\"]').click()")
    b.settle()
    for kind, at in (("mousePressed", 0.4), ("mouseMoved", 0.5), ("mouseMoved", 0.6), ("mouseReleased", 0.6)):
        b.call("Input.dispatchMouseEvent", type=kind, x=box[0] + box[2] * at, y=y, button="left", buttons=1, clickCount=1, modifiers=8)
    b.settle()
    told = b.js("document.querySelector('#timeline-box .detail').textContent")
    check("Shift and drag selects a range and sums it by kind", "selected" in told and "gem" in told.lower(), told)
    frame = b.js("""new Promise(done => { const times = []; let last = performance.now(), n = 0;
        const z = document.querySelector('#timeline-box button[aria-label="Zoom in"]'), a = document.querySelector('#timeline-box button[aria-label="Show all"]');
        const step = t => { times.push(performance.now() - last); last = performance.now(); (n++ % 4 === 3 ? a : z).click();
          if (n < 24) requestAnimationFrame(step); else { times.sort((x, y) => x - y); done(times[12]); } };
        requestAnimationFrame(step); })""")
    # A frame takes 16 ms on an idle machine. The limit of 250 ms allows for a busy one.
    check("a redraw takes less than 250 ms", frame < 250, frame)


def check_ranks(b, page):
    """The page of a job of several ranks."""
    for width in (1440, 390):
        b.load(page, width, 900, False)
        b.settle()
        check(f"ranks: no error in the console at {width} px", not b.errors(), b.errors())
        check(f"ranks: nothing is wider than the page at {width} px", b.js(OVERFLOW) == [], b.js(OVERFLOW))
    b.load(page, 1440, 900, False)
    b.settle()
    charts = b.js("document.querySelectorAll('.chart svg.wide').length")
    check("ranks: every chart has numbers under the mouse pointer", charts == 3 and b.js(SILENT) == [], (charts, b.js(SILENT)))
    check("ranks: every table filters", b.js(UNFILTERED) == [], b.js(UNFILTERED))
    check("ranks: every heading explains itself", b.js("Array.from(document.querySelectorAll('th:not([title])'), h => h.textContent)") == [])
    check("ranks: the page has caveats and a legend",
          b.js("!!document.querySelector('#caveats li') && document.querySelectorAll('details.legend dt').length > 5 && document.querySelectorAll('.key i').length === 4"))
    same = b.js("""(() => { const color = (e, name) => getComputedStyle(document.querySelector(e))[name];
        return [color('.key i.busy', 'backgroundColor'), color('#lanes rect.busy', 'fill'), color('.key i.c10', 'backgroundColor'), color('#lanes rect.r10', 'fill')]; })()""")
    check("ranks: the legend has the colors of the charts", same[0] == same[1] and same[2] == same[3] and same[0] != same[2], same)


def main():
    program, page = sys.argv[1], sys.argv[2]
    if sys.argv[3:] == ["--ranks"]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            b = Browser(program, profile)
            try:
                b.open_page()
                check_ranks(b, page)
            finally:
                b.close()
        return
    shots = sys.argv[4] if len(sys.argv) > 4 and sys.argv[3] == "--screenshots" else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(program, profile)
        try:
            b.open_page()
            for width, dark in ((1280, False), (390, False), (1280, True), (390, True)):
                b.load(page, width, 900, dark)
                b.settle()
                tag = f"{width} px, {'dark' if dark else 'light'}"
                check(f"no error in the console at {tag}", not b.errors(), b.errors())
                check(f"nothing is wider than the page at {tag}", b.js(OVERFLOW) == [], b.js(OVERFLOW))
                if shots:
                    b.screenshot(f"{shots}/{width}-{'dark' if dark else 'light'}.png")
            b.load(page, 1440, 900, False)
            b.settle()
            check("no table is clipped at 1440 px", b.js(CLIPPED) == [], b.js(CLIPPED))
            pdf = base64.b64decode(b.call("Page.printToPDF", printBackground=True)["data"])
            pages = pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/")
            check("the page prints", 1 <= pages <= 40 and len(pdf) > 20000, (pages, len(pdf)))
            if shots:
                pathlib.Path(f"{shots}/print.pdf").write_bytes(pdf)
            b.load(page, SHEET, 900, False)
            b.settle()
            b.js("dispatchEvent(new Event('beforeprint'))")
            b.call("Emulation.setEmulatedMedia", media="print")
            b.settle()
            check("every column is printed", b.js(UNSEEN) == [], b.js(UNSEEN))
            check("every finding is printed", b.js(FOLDED) == [], b.js(FOLDED))
            check("nothing is wider than the sheet", b.js(OVERFLOW) == [] and b.js(CLIPPED) == [], (b.js(OVERFLOW), b.js(CLIPPED)))
            check("no word of a table is broken in print", b.js(BROKEN) == [], b.js(BROKEN))
            check("the timeline is printed as a picture", b.js("document.querySelector('#timeline-box img.print').naturalWidth") > 100)
            b.call("Emulation.setEmulatedMedia", media="")
            b.load(page, 1280, 900, False)
            b.settle()
            check("the page makes no network request", not b.requests(), b.requests())
            check("names from the trace are text, not markup", b.js("document.querySelectorAll('img:not(.print)').length") == 0)
            if b.js("!!document.querySelector('#kernels table')"):
                check_every_table(b)
                check_tables(b)
            check_windows(b)
            check_timeline(b)
            if shots:
                b.screenshot(f"{shots}/after.png")
            check("no error in the console after all checks", not b.errors(), b.errors())
            b.load(page, 1280, 900, False, scripts=False)
            b.call("Emulation.setScriptExecutionDisabled", value=False)
            text = b.js("document.body.innerText")
            check("without scripts the page shows what to change first", "What to change first" in text and "Stages" in text)
        finally:
            b.close()


if __name__ == "__main__":
    main()

