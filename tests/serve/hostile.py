"""hostile.py ROOT [DATABASE_URL]: requests and runs of an attacker. The server must refuse them, go on, and tell nothing about itself."""
import json
import os
import random
import socket
import string
import sys
import tarfile
import time

from lib import Server, check, finish, make_run, metrics, run_program, tar_of

root, database = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
options = ["--database", database] if database else []
for i in range(3):
    make_run(root, f"run-{i}", started_s=1790000000 + i)
s = Server(root, "--rate", "100000", *options)


def wait_for(condition, seconds=30):
    end = time.time() + seconds
    while time.time() < end and not condition():
        time.sleep(0.1)
    return condition()


def raw(head, body=b"", source="127.0.0.1", seconds=30):
    """Sends bytes; returns the status of the answer, 0 if the server closed the connection without one."""
    c = socket.create_connection(("127.0.0.1", s.port), timeout=seconds, source_address=(source, 0))
    answer = b""
    try:
        c.sendall(head + b"\r\n" + body)
        while data := c.recv(65536):
            answer += data
    except OSError:
        pass # the server closes the connection before it has read everything
    c.close()
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def listed():
    d = s.get("/api/v1/runs", limit=1000)[2]
    return {r["run"] for r in d["runs"]}


HOST = b"Host: localhost\r\nConnection: close\r\n"
TAR = b"Content-Type: application/x-tar\r\n"
GET = b"GET /runs HTTP/1.1\r\n"
PUT = b"PUT /api/v1/uploads/" + b"a" * 64 + b" HTTP/1.1\r\n" + HOST + TAR
wait_for(lambda: len(listed()) == 3)

# ---- requests
check("a huge header is refused", raw(GET + HOST + b"X: " + b"a" * 200000 + b"\r\n") in (0, 431))
check("many headers are refused", raw(GET + HOST + b"".join(b"X%d: y\r\n" % i for i in range(20000))) in (0, 431))
check("a huge URL is refused", raw(b"GET /runs?search=" + b"a" * 100000 + b" HTTP/1.1\r\n" + HOST) in (0, 414, 431))
check("a request without Host is refused", raw(GET + b"Connection: close\r\n") == 400)
check("a URL that is not UTF-8 is refused", raw(b"GET /runs/%ff%fe HTTP/1.1\r\n" + HOST) == 400)
paths = [b"/assets/..%2f..%2fetc%2fpasswd", b"/runs/..%2f..%2fetc/report", b"/../../etc/passwd", b"/runs/%0d%0aSet-Cookie:%20x"]
check("paths outside are not found", [raw(b"GET " + p + b" HTTP/1.1\r\n" + HOST) for p in paths] == [404] * 4)
chunked = b"Transfer-Encoding: chunked\r\n"
post = b"POST /api/v1/runs HTTP/1.1\r\n" + HOST + TAR
chunks = lambda data, n: b"".join(b"%x\r\n" % len(data[i:i + n]) + data[i:i + n] + b"\r\n" for i in range(0, len(data), n)) + b"0\r\n\r\n"
good = json.dumps({"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": "x"}}).encode()
stream = tar_of([("chunked/metrics.json", good, tarfile.REGTYPE)])
check("a chunked body is a run", raw(post + chunked, chunks(stream, 700)) == 201)
check("a damaged chunk is refused", raw(post + chunked, b"zzz\r\nabc\r\n0\r\n\r\n") in (0, 400))
check("a compressed body is refused", raw(post + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n", b"\x1f\x8b" + b"x" * 18) in (415, 422))
tags = b"POST /api/v1/runs/run-0/tags HTTP/1.1\r\n" + HOST
check("a large chunked JSON body is refused", raw(tags + chunked, chunks(b"{" * 2000000, 60000)) in (0, 413))
check("deeply nested JSON is refused", raw(tags + b"Content-Length: 500000\r\n", b"[" * 500000) == 400)
lengths = [raw(PUT + b"Content-Length: " + n + b"\r\n") for n in (b"-5", b"9223372036854775807", b"99999999999999999999999")]
check("impossible lengths are refused", set(lengths) <= {0, 400, 413}, lengths)
ranges = [raw(PUT + b"Content-Length: 3\r\nContent-Range: bytes " + r + b"\r\n", b"abc")
          for r in (b"0-18446744073709551615/18446744073709551616", b"5-2/10", b"1000000-1000002/1000003", b"x")]
check("impossible ranges are refused", ranges == [400, 400, 409, 400], ranges)

# ---- arguments
attacks = ["' OR 1=1--", "%'; DROP TABLE runs;--", '" OR "', '"', "run* NEAR(", "\\", "%", "_", "ab " * 300, "é" * 300, "\u212a\u0130", "a\u0301"]
codes = [s.get("/api/v1/runs", **{k: a})[0] for a in attacks for k in ("search", "model", "tag", "host", "version", "stage")]
check("SQL in filters is text", set(codes) == {200}, codes)
check("patterns match only with a star", [s.get("/api/v1/runs", model=m)[2]["total"] for m in ("%", "ll_ma", "l*a")] == [0, 0, 3])
check("every word of a search must match", [s.get("/api/v1/runs", search=t)[2]["total"] for t in ("run-1 llama", "LLAMA run", "run-1 none", "ru 1")] == [1, 3, 0, 1])
cursors = ["1.ff", "-1.31", "1.3", "1.zz", "1.00", "1." + "39" * 1500, "x.31", "1", ".31"]
codes = [s.get("/api/v1/runs", sort="name", cursor=c)[0] for c in cursors]
codes += [s.get("/api/v1/runs", sort=k, cursor="1." + v.encode().hex())[0] for k, v in (("started", "1e3"), ("started", "1-1"), ("mfu", "nan"), ("mfu", "0x1"), ("mfu", "1;"))]
check("a changed cursor is refused", set(codes) == {400}, codes)

# ---- runs
random.seed(5)
long = "".join(random.choice(string.ascii_letters) for _ in range(9000))
of_run = lambda **values: {"run": dict(metrics("x")["run"], **values)}
odd = {
    "model": of_run(model=long), "device": {"device": {"name": long}}, "version": of_run(inferprof_version=long), "title": of_run(title="é" * 5000, id=long),
    "host": {"environment": [{"group": "a", "key": "host", "value": long}]}, "stage": {"stages": [{"name": long, "parent": long, "time_ms": 1, "tokens": 1}]},
    "rule": {"findings": [{"rule": long, "title": "x"}]}, "counts": of_run(repeats=2.5, failed_repeats=1e308, started_unix_ns=1e300),
    "calls": {"kernels": [{"short_name": "k", "calls": 1e300, "owned_ns": 1e300, "share": 1e9}]},
    "types": {"run": [], "device": "x", "stages": {"a": 1}, "figures": 7, "findings": "x", "kernels": [[1]], "environment": [{"key": 5}]},
    "control": of_run(model="\x1b[31mred\x07\u202eevil", title="<script>alert(1)</script>", engine=""),
}
for name, values in odd.items():
    make_run(root, "odd-" + name)
    with open(os.path.join(root, "odd-" + name, "metrics.json"), "w", encoding="utf-8") as f:
        json.dump(dict(metrics(name), **values), f)
make_run(root, "after", started_s=1790000900)
check("runs with odd values are listed, and the runs after them", wait_for(lambda: {"after"} | {"odd-" + n for n in odd} <= listed()), listed())
pages = ["/runs", "/trends", "/findings", "/machines", "/api/v1/series", "/api/v1/metrics", "/api/v1/findings", *("/runs/odd-" + n for n in odd)]
answers = [s.ask("GET", p, raw=True) for p in pages]
check("pages show them as text", all(a[0] == 200 and b"<script>alert" not in a[2] and b"\x1b" not in a[2] for a in answers), [a[0] for a in answers])
status, _, d = s.ask("POST", "/api/v1/runs", body=tar_of([("bad/metrics.json", b'{"schema": ', tarfile.REGTYPE)]), headers={"Content-Type": "application/x-tar"})
check("a message names no folder of the server", status == 422 and d["detail"].startswith("metrics.json") and root not in json.dumps(d), d)
os.chmod(os.path.join(root, "run-0"), 0o555)
answer = s.ask("POST", "/api/v1/runs/run-0/tags", body='{"add": ["x"]}')
os.chmod(os.path.join(root, "run-0"), 0o755)
check("a failure of the server names no folder", answer[0] in (200, 503) and root not in json.dumps(answer[2]), answer)
s.stop()

# ---- one client with many connections
run_program("serve", "token", "add", "reader", "--root", root, *options)
s = Server(root, "--listen", "0.0.0.0:0", "--connections", "16", *options)
silent = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(24)]
for c in silent:
    c.sendall(b"GET /runs HTTP/1.1\r\nHost: loc")
start = time.monotonic()
code = raw(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", source="127.0.0.2", seconds=8)
check("one client cannot take all connections", code in (200, 401) and time.monotonic() - start < 8, code)
for c in silent:
    c.close()
s.stop()
finish()
