"""Helpers of the server tests: generated run folders, a server process, HTTP requests, TAP lines."""
import atexit
import hashlib
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.parse

PROGRAM = os.environ["INFERPROF"]
failed = 0


def check(name, passed, *details):
    """Prints one TAP line."""
    global failed
    print(("ok - " if passed else "not ok - ") + name, flush=True)
    if not passed:
        failed += 1
        for d in details:
            print("# " + repr(d)[:1500], flush=True)


def metrics(name, model="llama", started_s=1790000000, decode_ms=640.0, host="node7", version="0.1.0", device="NVIDIA H200"):
    """The parts of metrics.json that the server reads."""
    return {
        "schema": "inferprof-metrics", "schema_version": 1,
        "run": {"id": name, "title": f"{model} on {device}", "model": model, "engine": "native", "inferprof_version": version,
                "started_unix_ns": int(started_s * 1e9), "incomplete": False, "unstable": False, "repeats": 3, "failed_repeats": 0},
        "device": {"name": device}, "model": {"mfu": 0.25, "mbu": 0.5},
        "stages": [{"name": "prefill", "parent": None, "time_ms": 41.0, "tokens": 512, "repeats_ms": [41.0, 41.1, 40.9]},
                   {"name": "decode", "parent": None, "time_ms": decode_ms, "tokens": 64, "repeats_ms": [decode_ms] * 3,
                    "timed": {"n": 3, "ci95_low": decode_ms * 0.99, "ci95_high": decode_ms * 1.01}}],
        "figures": [{"key": "time_to_first_token", "name": "Time to first token", "unit": "ms", "larger_is_better": False,
                     "repeats": [41.5], "stats": {"n": 3, "median": 41.5, "mean": 41.5}}],
        "findings": [{"rank": 1, "rule": "launch-bound", "stage": "decode", "title": "decode waits for launches", "advice": "use a graph",
                      "saving_ms": 10, "saving_percent": 5, "confidence": "high"}],
        "operators": [{"name": "aten::mm", "total_ns": 2000000, "device_ns": 1000000, "calls": 10}],
        "aggregates": {"decode_ms": {"mean": decode_ms, "std": 1.0}, "mfu_model": 0.25, "mfu_stage": {"decode": 0.1}},
        "kernels": [{"short_name": "gemv <bf16>", "category": "GEMV", "owned_ns": 1000000, "calls": 10, "share": 0.5}],
        "environment": [{"group": "System", "key": "host", "value": host}],
    }


def make_run(root, name, padding=0, **values):
    """A run folder; `padding` bytes are added as a trace."""
    folder = os.path.join(root, name)
    os.makedirs(os.path.join(folder, "trace"), exist_ok=True)
    with open(os.path.join(folder, "metrics.json"), "w", encoding="utf-8") as f:
        json.dump(metrics(name, **values), f)
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as f:
        f.write("<script>document.title = 'hostile'</script>")
    with open(os.path.join(folder, "trace", "a.ipt"), "wb") as f:
        f.write((name.encode() * (padding // len(name) + 1))[:padding])
    return folder


def tar_of(entries):
    """A tar stream of (name, bytes or None for a folder, type)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data, kind in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(data or b"")
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            t.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


_databases = {}


def database_of(root):
    """The options for the database of a root folder: none for SQLite. With SERVE_POSTGRES=FOLDER_OF_THE_SOCKET, every root gets a
    new database of PostgreSQL, so that a test written for SQLite runs on PostgreSQL without a change."""
    socket_dir = os.environ.get("SERVE_POSTGRES")
    if not socket_dir:
        return []
    if root not in _databases:
        name = "t" + hashlib.sha256(root.encode()).hexdigest()[:12]
        subprocess.run(["psql", "-q", "-c", f"CREATE DATABASE {name}", f"postgresql:///postgres?host={socket_dir}&user=tester"], check=True)
        _databases[root] = f"postgresql:///{name}?host={socket_dir}&user=tester"
    return ["--database", _databases[root]]


class Server:
    """`inferprof serve` on a free port."""

    def __init__(self, root, *options, env=None):
        if "--database" not in options:
            options = (*options, *database_of(root))
        self.log = open(os.path.join(os.environ["TMPDIR"], "work", "server.log"), "ab")
        self.process = subprocess.Popen([PROGRAM, "serve", "--root", root, "--listen", "127.0.0.1:0", *options],
                                        stdout=subprocess.PIPE, stderr=self.log, env=env)
        atexit.register(self.process.kill) # if a test ends early; does nothing after stop()
        line = self.process.stdout.readline().decode()
        self.port = int(line.rsplit(":", 1)[1].strip("/\n")) if line else 0
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, headers=None, raw=False):
        """(status, headers, JSON or bytes)"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            data = r.read()
        finally:
            c.close()
        kind = r.headers.get("Content-Type") or ""
        if not raw and "json" in kind and r.headers.get("Content-Encoding") is None and data:
            return r.status, r.headers, json.loads(data)
        return r.status, r.headers, data

    def get(self, url_path, **arguments):
        query = "?" + urllib.parse.urlencode(arguments, doseq=True) if arguments else ""
        return self.ask("GET", url_path + query)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(30)
        self.process.stdout.close()
        self.log.close()
        return self.process.returncode


def run_program(*words, env=None, seconds=120):
    if words[0] == "serve" and "--root" in words and "--database" not in words:
        words = (*words, *database_of(words[words.index("--root") + 1]))
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=env, timeout=seconds)


def finish():
    sys.exit(1 if failed else 0)
