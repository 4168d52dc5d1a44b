"""Clicks "Open in Perfetto" in headless Chromium; prints TAP lines.

    perfetto_handover.py CHROMIUM REPORT.html

A small HTTPS server plays ui.perfetto.dev: its page answers PING with PONG, as Perfetto's page does, and posts the
trace that it gets back to the server. The browser resolves the name to this server.
"""
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from drive import Browser, check

PAGE = b"""<!doctype html><title>stub</title><script>
addEventListener('message', (e) => {
  if (e.data === 'PING') { e.source.postMessage('PONG', '*'); return; }
  const p = e.data.perfetto;
  if (p) fetch('/trace?' + new URLSearchParams({ title: p.title, file: p.fileName }), { method: 'POST', body: p.buffer });
});
</script>"""


class Stub(http.server.BaseHTTPRequestHandler):
    requests, traces = [], []

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        Stub.requests.append(self.path)
        self.answer(PAGE)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Stub.traces.append((urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query), body))
        self.answer(b"")

    def log_message(self, *args):
        pass


def serve(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ui.perfetto.dev",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def click(b, agreed):
    b.call("Runtime.evaluate", userGesture=True, expression=f"window.confirm = (text) => {{ window.asked = text; return {agreed}; }};"
           "[...document.querySelectorAll('.tools button')].find((x) => x.textContent === 'Open in Perfetto').click()")


def main():
    program, report = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        port = serve(folder)
        b = Browser(program, os.path.join(folder, "profile"),
                    [f"--host-resolver-rules=MAP ui.perfetto.dev:443 127.0.0.1:{port}", "--ignore-certificate-errors"])
        try:
            b.open_page()
            b.load(report, 1440, 900, False)
            b.settle()
            click(b, "false")
            b.settle()
            check("Perfetto: the click asks first, and nothing leaves the page without consent",
                  "ui.perfetto.dev" in b.js("window.asked") and not Stub.requests and not b.requests(), str(Stub.requests))
            click(b, "true")
            deadline = time.monotonic() + 30
            while not Stub.traces and time.monotonic() < deadline:
                time.sleep(0.05)  # the page is in the background now and draws no frames
            check("Perfetto: the new tab gets the trace after PING and PONG", len(Stub.traces) == 1, str(Stub.requests))
            query, body = Stub.traces[0]
            events = json.loads(body)["traceEvents"]
            slices = b.js("JSON.parse(document.getElementById('timeline-data').textContent).tracks.reduce((n, t) => n + t.s.length, 0)")
            drawn = [e for e in events if e["ph"] == "X"]
            check("Perfetto: the trace has every slice of the timeline", len(drawn) == slices, f"{len(drawn)} {slices}")
            check("Perfetto: slices have a name, a time and a duration",
                  all(e["name"] and e["dur"] >= 0 and e["ts"] >= 0 for e in drawn))
            check("Perfetto: the trace has the title of the report", query["title"] == [b.js("document.title")], str(query))
        finally:
            b.close()


main()
