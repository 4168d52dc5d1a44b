"""hostile.py ROOT [DATABASE_URL]: requests and runs of an attacker. The server must refuse them, go on, and tell nothing about itself."""
import gzip
import json
import os
import random
import socket
import string
import sys
import tarfile
import threading
import time

from lib import Server, check, finish, make_run, metrics, run_program, tar_of

root, database = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
options = ["--database", database] if database else []
for i in range(3):
    make_run(root, f"run-{i}", started_s=1790000000 + i)
s = Server(root, "--rate", "100000", "-v", *options)


def send_slowly(result):
    """Sends one byte of a header every half second; appends the seconds until the server closes the connection."""
    c, start = socket.create_connection(("127.0.0.1", s.port)), time.monotonic()
    c.settimeout(0.5)
    while time.monotonic() < start + 40:
        try:
            c.send(b"G")
            if c.recv(1) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    result.append(time.monotonic() - start)


slow = []
slow_client = threading.Thread(target=send_slowly, args=(slow,))
slow_client.start()


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
paths = [b"/api/v1/runs/run-0%00x", b"/api/v1/runs?model=%00", b"/api/v1/runs?model%00x=1", b"/runs/run-0%00"]
check("%00 does not end a path or a filter", [raw(b"GET " + p + b" HTTP/1.1\r\n" + HOST) for p in paths] == [400] * 4)
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

unknown = ["runs?modle=llama", "runs?=1", "runs?model%20device=1", "runs?mod=1", "compare?c=run-0", "trends?stages=decode", "findings?run=1",
           "runs/run-0/artifact?file=metrics.json"]
answers = [s.ask("GET", "/api/v1/" + u) for u in unknown]
check("a misspelled filter is refused", [a[0] for a in answers] == [400] * len(unknown) and "unknown parameter 'modle'; use model device" in answers[0][2]["detail"], answers)
check("a metric that does not exist is refused", s.get("/api/v1/trends", stage="decode", metric="x")[0] == 400)

# ---- cached answers
series = {"model": "llama", "device": "NVIDIA H200", "engine": "native"}
s.get("/api/v1/runs", model="llama\x01device=NVIDIA H200\x01engine=native")
s.ask("GET", "/api/v1/runs?" + "model=5:llama6:device11:NVIDIA%20H200")
check("no other request takes the place of a cached answer", s.get("/api/v1/runs", **series)[2]["total"] == 3)
make_run(root, "new", started_s=time.time() - 3598)
wait_for(lambda: "new" in listed())
found = [s.get("/api/v1/runs", since="1h") for _ in range(2)]
check("relative times are not cached", [f[1]["ETag"] for f in found] == [None, None] and [f[2]["total"] for f in found] == [1, 1], found)
status, _, page = s.ask("GET", "/nope", headers={"Accept": "text/html"})
check("a browser gets an unknown URL as a page", status == 404 and b"<h1>Not found" in page, page[:100])
codings = [("gzip", "gzip"), ("gzip;q=0", None), ("gzip; q=0", None), ("gzip;q=0.5", "gzip"), ("br, *;q=0.1", "gzip"), ("identity", None)]
got = [s.ask("GET", "/runs", headers={"Accept-Encoding": c}, raw=True)[1]["Content-Encoding"] for c, _ in codings]
check("gzip is used only if the client accepts it", got == [c for _, c in codings], got)
file = "/api/v1/runs/run-0/artifact?path=metrics.json"
check("text files are compressed, too", gzip.decompress(s.ask("GET", file, headers={"Accept-Encoding": "gzip"}, raw=True)[2]) == s.ask("GET", file, raw=True)[2])
paths = ["/api/v1/reports/run-0", "/api/v1/runs/run-0/artifacts", "/api/v1/openapi.json", "/api/v1/profiles", file]
tags = [s.ask("GET", p)[1]["ETag"] or "" for p in paths]
check("answers have an ETag", [s.ask("GET", p, headers={"If-None-Match": t})[0] for p, t in zip(paths, tags)] == [304] * 5, tags)

# ---- uploads
UPLOAD = {"Content-Type": "application/x-tar"}
both = tar_of([("both/metrics.json", good, tarfile.REGTYPE), ("both/metrics.json/x", b"", tarfile.REGTYPE)])
status, _, problem = s.ask("POST", "/api/v1/runs", body=both, headers=UPLOAD)
check("a file that is also a folder is refused, without a path of the server", status == 422 and root not in problem["detail"], problem)
stream, answers = tar_of([("same/metrics.json", good, tarfile.REGTYPE)]), []
def post_at_once():
    answers.append(s.ask("POST", "/api/v1/runs", body=stream, headers=UPLOAD)[0])
clients = [threading.Thread(target=post_at_once) for _ in range(8)]
for c in clients:
    c.start()
for c in clients:
    c.join()
same = [r for r in listed() if r.startswith("same")]
check("a run that eight clients send at once is stored once", same == ["same"] and sorted(answers) == [200] * 7 + [201], same, answers)
odd_name = "100%25 a#b?c"
status, headers, d = s.ask("POST", "/api/v1/runs", body=tar_of([(odd_name + "/metrics.json", good, tarfile.REGTYPE)]), headers=UPLOAD)
check("the Location of an upload is a URL of the run", status == 201 and s.ask("GET", headers["Location"])[2]["run"] == d["run"] == odd_name, headers["Location"])
bomb = json.dumps(metrics("bomb"))[:-1] + ', "x": [' + "[]," * 400_000 + "[]]}"
status, _, d = s.ask("POST", "/api/v1/runs", body=tar_of([("bomb/metrics.json", bomb.encode(), tarfile.REGTYPE)]), headers=UPLOAD)
memory_kb = int(next(line for line in open(f"/proc/{s.process.pid}/status", encoding="ascii") if line.startswith("VmHWM")).split()[1])
check("a document that needs much memory is refused", status == 422 and "values" in d["detail"] and ("san" in os.environ.get("BUILD", "") or memory_kb < 200_000), d, memory_kb)
s.ask("GET", "/runs/x%0aFORGED%20LINE")
log = open(os.path.join(os.environ["TMPDIR"], "work", "server.log"), encoding="utf-8", errors="replace").read()
check("a line break in a path does not start a line of the log", "FORGED LINE" in log and "\nFORGED" not in log, log[-300:])

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
make_run(root, "run-1", started_s=1790000001, decode_ms=999.0)
check("runs with odd values are listed, and the runs after them", wait_for(lambda: {"after"} | {"odd-" + n for n in odd} <= listed()), listed())
check("a changed metrics.json is read again", wait_for(lambda: "999" in json.dumps(s.get("/api/v1/runs/run-1")[2])))
pages = ["/runs", "/trends", "/findings", "/machines", "/api/v1/series", "/api/v1/metrics", "/api/v1/findings", *("/runs/odd-" + n for n in odd)]
answers = [s.ask("GET", p, raw=True) for p in pages]
check("pages show them as text", all(a[0] == 200 and b"<script>alert" not in a[2] and b"\x1b" not in a[2] for a in answers), [a[0] for a in answers])
status, _, d = s.ask("POST", "/api/v1/runs", body=tar_of([("bad/metrics.json", b'{"schema": ', tarfile.REGTYPE)]), headers={"Content-Type": "application/x-tar"})
check("a message names no folder of the server", status == 422 and d["detail"].startswith("metrics.json") and root not in json.dumps(d), d)
os.chmod(os.path.join(root, "run-0"), 0o555)
answer = s.ask("POST", "/api/v1/runs/run-0/tags", body='{"add": ["x"]}')
os.chmod(os.path.join(root, "run-0"), 0o755)
check("a failure of the server names no folder", answer[0] in (200, 503) and root not in json.dumps(answer[2]), answer)
for k in range(4):
    stages = [{"name": f"s{i}", "parent": None, "time_ms": 1.0, "repeats_ms": [1.0] * 5} for i in range(3000)]
    s.ask("POST", "/api/v1/runs", body=tar_of([(f"many{k}/metrics.json", json.dumps(dict(metrics("m"), stages=stages)).encode(), tarfile.REGTYPE)]), headers=UPLOAD)
codes = []
def compare_many():
    try:
        codes.append(s.ask("GET", "/api/v1/compare?a=many0&a=many1&b=many2&b=many3")[0])
    except OSError:
        codes.append(0)
client = threading.Thread(target=compare_many)
client.start()
slow_client.join(40)
check("a client that sends its header slowly is disconnected", slow and slow[0] < 35, slow)
start = time.monotonic()
check("a long comparison does not delay the end of the server", s.stop() == 0 and time.monotonic() - start < 15, codes)
client.join(30)
check("and ends itself", codes[0] in (0, 200, 503), codes)

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
