"""api.py ROOT [DATABASE_URL]: API, pages, uploads and deletion on one database."""
import http.server
import gzip
import json
import os
import shutil
import sys
import tarfile
import threading

from lib import Server, check, finish, make_run, run_program, tar_of

root, database = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
options = ["--database", database] if database else []
for i in range(30):
    make_run(root, f"run-{i:02}", started_s=1790000000 + i * 86400, decode_ms=640 + i % 3 if i < 20 else 700 + i % 3)
make_run(root, "other", model="<b>qwen</b>", started_s=1780000000)
outside = root + "-outside"
s = Server(root, *options)

# ---- lists
status, headers, d = s.get("/api/v1/runs", limit=10)
while d["total"] < 31:
    status, headers, d = s.get("/api/v1/runs", limit=10)
check("the list has the newest runs first", status == 200 and [r["run"] for r in d["runs"]][:2] == ["run-29", "run-28"], d)
names, page = [], d
while True:
    names += [r["run"] for r in page["runs"]]
    if not page["next"]:
        break
    page = s.get("/api/v1/runs", limit=10, cursor=page["next"])[2]
check("cursor pages list every run once", len(names) == 31 and len(set(names)) == 31, names)
etag = headers["ETag"]
check("an unchanged list is answered with 304", s.ask("GET", "/api/v1/runs?limit=10", headers={"If-None-Match": etag})[0] == 304, etag)
status, headers, packed = s.ask("GET", "/api/v1/runs", headers={"Accept-Encoding": "gzip"}, raw=True)
check("answers are compressed", headers["Content-Encoding"] == "gzip" and json.loads(gzip.decompress(packed))["total"] == 31)
status, _, d = s.get("/api/v1/runs", model="llama", stage="decode", sort="time_per_token", limit=1)
check("the list is sorted by a figure of a stage", d["runs"][0]["stage"]["time_ms"] == 640, d)
bad = [s.get("/api/v1/runs", **a)[0] for a in ({"limit": "0"}, {"limit": "x"}, {"sort": "nothing"}, {"since": "soon"}, {"cursor": "1.zz"})]
check("arguments that are not valid are rejected", bad == [400] * 5, bad)
status, headers, d = s.get("/api/v1/runs/none")
check("an error follows RFC 9457", status == 404 and headers["Content-Type"] == "application/problem+json" and d["status"] == 404 and d["detail"], d)
status, headers, _ = s.ask("PATCH", "/api/v1/runs")
check("another method is answered with 405", status == 405 and "GET" in headers["Allow"] and "POST" in headers["Allow"])

# ---- one run
status, _, d = s.get("/api/v1/runs/run-29")
check("a run has stages, figures, kernels, findings and environment",
      status == 200 and d["stages"][1]["name"] == "decode" and d["figures"][0]["median"] == 41.5 and d["kernel_classes"][0]["name"] == "gemv <bf16>"
      and d["finding_list"][0]["rule"] == "launch-bound" and d["host"] == "node7", d)
d = s.get("/api/v1/runs/run-29/artifacts")[2]
check("files are listed", [a["path"] for a in d["artifacts"]] == ["metrics.json", "report.html", "trace/a.ipt"], d)
status, headers, d = s.get("/api/v1/runs/run-29/artifact", path="metrics.json")
check("a file is sent with an entity tag", status == 200 and d["run"]["id"] == "run-29" and headers["ETag"], d)
os.symlink("/etc/passwd", os.path.join(root, "run-29", "link"))
os.makedirs(outside)
with open(os.path.join(outside, "secret"), "w", encoding="utf-8") as f:
    f.write("secret")
os.symlink(outside, os.path.join(root, "run-29", "folder"))
paths = ["../run-28/metrics.json", "/etc/passwd", "link", "folder/secret", "trace", "", "a\\b", ".upload", "x/../metrics.json"]
got = [s.get("/api/v1/runs/run-29/artifact", path=p)[0] for p in paths]
check("no other file can be read", all(c in (400, 404) for c in got), list(zip(paths, got)))
status, headers, body = s.get("/runs/run-29/report")
check("a report of others is shown in a sandbox", status == 200 and headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'"))
status, _, d = s.get("/api/v1/reports/run-29")
check("the report summary has the names of the contract", d["mfu_model_level"] == 0.25 and d["mfu_per_stage"] == {"decode": 0.1}
      and d["top_operators"] == [{"op_name": "aten::mm", "total_time_ms": 2, "cuda_time_ms": 1, "calls": 10}]
      and d["aggregates"] == {"decode_ms": {"mean": 702.0, "std": 1.0}}, d)

# ---- several runs
series = {"model": "llama", "device": "NVIDIA H200", "engine": "native"}
d = s.get("/api/v1/trends", stage="decode", metric="time", **series)[2]
check("a trend has its change point with the runs on both sides", len(d["points"]) == 30
      and [(c["last_before"], c["first_after"], c["worse"]) for c in d["change_points"]] == [("run-19", "run-20", True)], d["change_points"])
b = d["baseline"]
check("a trend compares the newest run with a baseline of the runs since the change", b["runs"] == 9 and b["newest"] == 702 and b["median"] == 701 and abs(b["change"] - 1 / 701) < 1e-9, b)
b = s.get("/api/v1/trends", stage="decode", metric="time", baseline=4, **series)[2]["baseline"]
check("the number of runs of the baseline is an argument", b["runs"] == 4 and b["median"] == 701 and s.get("/api/v1/trends", baseline="0", **series)[0] == 400, b)
d = s.get("/api/v1/compare", a=["run-00", "run-01"], b=["run-29"])[2]
check("two sets of runs are compared", [r["name"] for r in d["stages"]] == ["prefill", "decode"], list(d))
check("series, findings and machines are listed", len(s.get("/api/v1/series")[2]["series"]) == 2 and len(s.get("/api/v1/findings", runs=5)[2]["findings"]) == 5
      and s.get("/api/v1/machines")[2]["machines"][0]["runs"] == 31)
text = s.get("/api/v1/metrics")[2].decode()
check("counters have the format of Prometheus", "inferprof_runs 31\n" in text and '# TYPE inferprof_http_requests_total counter' in text)

# ---- pages
for path in ("/runs", "/runs?search=qwen", "/runs/run-29", "/runs/other", "/trends", "/findings", "/machines", "/compare?a=run-00&b=run-29", "/runs/none", "/runs?limit=x"):
    status, headers, body = s.get(path)
    page = body.decode()
    check(f"page {path} is safe HTML", headers["Content-Type"].startswith("text/html") and "<b>qwen" not in page and "style=\"" not in page and " onclick" not in page
          and headers["Content-Security-Policy"].startswith("default-src 'none'") and (status == 200) == (path not in ("/runs/none", "/runs?limit=x")), status)
check("the first page of the trends names the newest change of each series", b"slower</b>" in s.get("/trends")[2] and b"run-20</a>" in s.get("/trends")[2] and b"no change" in s.get("/trends")[2])
check("the trend page shows the change point", b"run-19" in s.get("/trends?stage=decode&metric=time&model=llama&device=NVIDIA+H200&engine=native")[2])
page = s.get("/compare?a=run-00&b=run-29")[2]
check("the page of a comparison has the columns of compare", b"<th>stage</th><th>unit</th><th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">change</th><th class=\"n\">95% CI</th><th>verdict</th>" in page
      and b"<td>decode</td><td>ms</td><td class=\"n\">" in page and b"<td class=\"verdict " in page)
check("the page of a run has its kernels", b"<th>kernel</th><th>category</th><th>stage</th><th class=\"n\">time ms</th><th class=\"n\">share</th><th class=\"n\">calls</th>" in s.get("/runs/run-29")[2])
status, headers, _ = s.get("/compare?run=run-29&run=run-00")
check("selected runs are compared with the oldest", (status, headers["Location"]) == (303, "/compare?a=run-00&b=run-29"))

# ---- other sites
check("a request with another host name is refused", s.ask("GET", "/runs", headers={"Host": "evil.example"})[0] == 403)
check("a change from another site is refused", s.ask("DELETE", "/api/v1/runs/run-00", headers={"Origin": "http://evil.example"})[0] == 403)

# ---- tags
status, _, d = s.ask("POST", "/api/v1/runs/run-00/tags", body='{"add": ["nightly", "v1.0"]}')
check("tags are added", status == 200 and d["tags"] == ["nightly", "v1.0"], d)
check("a tag that is not valid is rejected", s.ask("POST", "/api/v1/runs/run-00/tags", body='{"add": ["a b"]}')[0] == 400)
check("a body that is not JSON is rejected", s.ask("POST", "/api/v1/runs/run-00/tags", body="{")[0] == 400)
check("the list filters by tag, and old answers are not reused", [r["run"] for r in s.get("/api/v1/runs", tag="nightly")[2]["runs"]] == ["run-00"])

# ---- uploads
source = root + "-source"
folder = make_run(source, "pushed", padding=3_000_000, started_s=1795000000)
r = run_program("push", s.url, folder)
check("push stores a run", r.returncode == 0 and r.stdout.startswith("pushed: stored, 3.0"), r)
with open(os.path.join(folder, "trace", "a.ipt"), "rb") as a, open(os.path.join(root, "pushed", "trace", "a.ipt"), "rb") as b:
    check("the files are the same", a.read() == b.read())
check("a second push changes nothing", run_program("push", s.url, folder).stdout == "pushed: the server already has it\n")
digest = s.get("/api/v1/runs/pushed")[2]["digest"]
shutil.copytree(folder, os.path.join(source, "again", "pushed"))
with open(os.path.join(source, "again", "pushed", "trace", "a.ipt"), "ab") as f:
    f.write(b"more")
r = run_program("push", s.url, os.path.join(source, "again", "pushed"))
check("another run of the same name gets another name", r.returncode == 0 and r.stdout.startswith("pushed-"), r)
file, link = tarfile.REGTYPE, tarfile.SYMTYPE
good = json.dumps({"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": "x"}}).encode()
post = lambda body: s.ask("POST", "/api/v1/runs", body=body, headers={"Content-Type": "application/x-tar"})
status, headers, d = post(tar_of([("tarred", None, tarfile.DIRTYPE), ("tarred/metrics.json", good, file), ("tarred/.hidden", b"x", file)]))
check("a plain tar stream is a run", status == 201 and d["run"] == "tarred" and not os.path.exists(os.path.join(root, "tarred", ".hidden")), d)
hostile = {
    "a path above the folder": [("r/../../x", good, file)], "an absolute path": [("/etc/x", good, file)], "a link": [("r/metrics.json", None, link)],
    "two top folders": [("a/metrics.json", good, file), ("b/metrics.json", good, file)], "a file twice": [("r/metrics.json", good, file)] * 2,
    "no metrics.json": [("r/other", good, file)], "a metrics.json that is not one": [("r/metrics.json", b"{}", file)], "a hidden folder": [(".inferprof/metrics.json", good, file)],
    "a file as a folder": [("r/metrics.json", good, file), ("r/metrics.json/x", good, file)], "a line break in a name": [("r/a\nb", good, file)],
}
before = sorted(os.listdir(root))
for what, entries in hostile.items():
    status, _, d = post(tar_of(entries))
    check(f"an upload with {what} is rejected", status in (422, 503) and sorted(os.listdir(root)) == before, status, d)
check("bytes that are no tar stream are rejected", post(b"x" * 5000)[0] == 422 and post(b"")[0] == 422)
check("another media type is refused", s.ask("POST", "/api/v1/runs", body=b"x", headers={"Content-Type": "text/plain"})[0] == 415)
check("a wrong digest is rejected", s.ask("PUT", "/api/v1/uploads/" + "0" * 64, body=tar_of([("r/metrics.json", good, file)]))[0] == 422)
check("nothing is left of rejected uploads", os.listdir(os.path.join(root, ".inferprof", "uploads")) == [], os.listdir(os.path.join(root, ".inferprof", "uploads")))
# in two parts
import hashlib
stream = tar_of([("parts/metrics.json", good + b" " * 5000, file)])
name = "/api/v1/uploads/" + hashlib.sha256(stream).hexdigest()
half = len(stream) // 2
first = s.ask("PUT", name, body=stream[:half], headers={"Content-Range": f"bytes 0-{half - 1}/{len(stream)}"})
asked = s.get(name)
gap = s.ask("PUT", name, body=b"x", headers={"Content-Range": f"bytes {half + 5}-{half + 5}/{len(stream)}"})
rest = s.ask("PUT", name, body=stream[half:], headers={"Content-Range": f"bytes {half}-{len(stream) - 1}/{len(stream)}"})
check("an upload continues where it stopped", (first[0], asked[0], asked[2], gap[0], gap[1]["Upload-Offset"], rest[0]) == (202, 202, {"received": half}, 409, str(half), 201), first, asked, gap, rest)

# The next part may come as soon as the answer is there: the server must not hold the upload any more.
stream = tar_of([("pieces/metrics.json", good + b" " * 60000, file)])
name = "/api/v1/uploads/" + hashlib.sha256(stream).hexdigest()
piece, answers = len(stream) // 60, []
for at in range(0, len(stream), piece):
    end = min(at + piece, len(stream))
    answers.append(s.ask("PUT", name, body=stream[at:end], headers={"Content-Range": f"bytes {at}-{end - 1}/{len(stream)}"})[0])
check("an upload in many parts, one right after the other, is a run", answers == [202] * (len(answers) - 1) + [201], answers)

class Resuming(http.server.BaseHTTPRequestHandler):
    """A server that has the first 1,000 bytes of every upload."""
    seen = []

    def do_GET(self):
        self.reply(202, b'{"received": 1000}')

    def do_PUT(self):
        Resuming.seen.append((self.headers["Content-Range"], len(self.rfile.read(int(self.headers["Content-Length"])))))
        self.reply(201, b'{"run": "x"}')

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


other = http.server.HTTPServer(("127.0.0.1", 0), Resuming)
threading.Thread(target=other.serve_forever, daemon=True).start()
r = run_program("push", f"http://127.0.0.1:{other.server_port}", make_run(source, "resumed", padding=5000))
other.shutdown()
content_range, sent = Resuming.seen[0] if Resuming.seen else ("", 0)
total = int(content_range.rsplit("/", 1)[1]) if content_range else 0
check("push sends only the bytes that the server does not have", content_range == f"bytes 1000-{total - 1}/{total}" and sent == total - 1000 > 5000, Resuming.seen, r)

# ---- runs with the same start time
for name, version in (("twin-b", "0.3.0"), ("twin-a", "0.4.0"), ("twin-c", "0.2.0")):
    run_program("push", s.url, make_run(source, name, host="twins", version=version))
machine = [m for m in s.get("/api/v1/machines")[2]["machines"] if m["host"] == "twins"]
check("the last run of a machine and its version belong together", [(m["runs"], m["last_run"], m["inferprof_version"]) for m in machine] == [(3, "twin-c", "0.2.0")], machine)

# ---- a series of runs without a model, older than the others
folder = make_run(source, "nameless", model="", started_s=1770000000)
path = os.path.join(folder, "metrics.json")
with open(path, encoding="utf-8") as f:
    record = json.load(f)
record["stages"][0]["name"] = "embed"
for parent, ms in (("embed", 1.0), ("decode", 2.0)):
    record["stages"].append({"name": "attention", "parent": parent, "time_ms": ms})
with open(path, "w", encoding="utf-8") as f:
    json.dump(record, f)
run_program("push", s.url, folder)
page = s.get("/trends?model=&device=NVIDIA+H200&engine=native")[2]
check("the stages of a series without a model are its own", b'value="embed"' in page and b'value="prefill"' not in page, page[:200])
nameless = {"model": "", "device": "NVIDIA H200", "engine": "native"}
points = [[p["value"] for p in s.get("/api/v1/trends", stage=stage, metric="time", **nameless)[2]["points"]] for stage in ("attention", "decode/attention")]
check("two stages of the same name are two trends", points == [[1], [2]], points)
check("a run with two stages of the same name is listed once", [r["run"] for r in s.get("/api/v1/runs", stage="attention")[2]["runs"]] == ["nameless"])

# ---- a finding twice in one run
folder = make_run(source, "double", model="double")
with open(os.path.join(folder, "metrics.json"), encoding="utf-8") as f:
    d = json.load(f)
d["findings"] *= 2
with open(os.path.join(folder, "metrics.json"), "w", encoding="utf-8") as f:
    json.dump(d, f)
run_program("push", s.url, folder)
page = s.get("/findings", model="double")[2]
check("a run that has a finding twice is counted once", page.count(b"launch-bound") == 1 and b'<td class="n">1</td>' in page and b'<td class="n">2</td>' not in page)

# ---- concurrent deletes
results = []
threads = [threading.Thread(target=lambda: results.append(s.ask("DELETE", "/api/v1/runs/tarred")[0])) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
check("of eight deletions at once, one succeeds", results.count(204) >= 1 and set(results) <= {204, 404} and not os.path.exists(os.path.join(root, "tarred")), results)

check("SIGTERM ends the server", s.stop() == 0)
finish()
