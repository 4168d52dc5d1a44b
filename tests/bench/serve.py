"""serve.py: the server with many generated runs, on SQLite and on PostgreSQL.

    make bench-serve                    100,000 runs; takes about 8 minutes on an idle machine with 2 cores
    python3 tests/bench/serve.py --runs 10000 --seconds 2

Prints the time to index the runs, the time of `inferprof runs`, the latency of every page and of the main API calls
with 8 clients that send the next request at once (wrk), requests per second, CPU time of the server (and of the
PostgreSQL processes), and the memory of the server. "varied" requests have many URLs: the first 600 of them are
requested once before the clients start ("first ms" is the slowest of these), the others are not in the server's cache. The last lines are the table of docs/serve.md; UPDATE=1 writes it there:

    make bench-serve UPDATE=1
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
os.environ.setdefault("INFERPROF", os.path.abspath("build/inferprof"))
import lib  # noqa: E402

MODELS = ["llama-3-8b", "llama-3-70b", "qwen3-8b", "qwen3-30b-a3b", "deepseek-ocr", "gemma-3-27b", "phi-4", "mistral-7b", "gpt-oss-20b", "embedded"]
WARM_URLS = 600
DEVICES = ["NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "cpu"]
ENGINES = ["native", "hf"]
MARK = "<!-- make bench-serve UPDATE=1 writes the rest of this file -->"
P99_MS, RUNS_MS, MEMORY_MB = 100, 50, 200 # targets; a value above its target is printed in bold
postgres_folder = None


def generate(root, runs):
    """Run folders with a metrics.json each, 1,000 per folder."""
    random.seed(1)
    for i in range(runs):
        folder = os.path.join(root, f"{i // 1000:03}", f"run-{i:06}")
        os.makedirs(folder)
        decode_ms = 640 * (1 + 0.01 * random.gauss(0, 1)) * (1.05 if i > runs / 2 else 1)
        d = lib.metrics(f"run-{i:06}", model=MODELS[i % 10], started_s=1700000000 + i * 300, decode_ms=decode_ms, host=f"node{i % 23}")
        d["device"]["name"] = DEVICES[i // 10 % 5]
        d["run"]["engine"] = ENGINES[i // 50 % 2]
        with open(os.path.join(folder, "metrics.json"), "w", encoding="utf-8") as f:
            json.dump(d, f)
        if i % 10 == 0:
            with open(os.path.join(folder, ".tags"), "w", encoding="utf-8") as f:
                f.write("nightly\n" + ("release\n" if i % 5000 == 0 else ""))


def start_postgres(folder):
    """A server as the user nobody, on a socket in `folder`; returns its URL and the words that stop it."""
    binaries = sorted(os.listdir("/usr/lib/postgresql"))[-1]
    binaries = f"/usr/lib/postgresql/{binaries}/bin/"
    prefix = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    os.chmod(folder, 0o755)
    data = os.path.join(folder, "pg")
    os.mkdir(data)
    if prefix:
        shutil.chown(data, "nobody", "nogroup")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, "check": True}
    subprocess.run([*prefix, binaries + "initdb", "-D", data + "/data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"], **quiet)
    global postgres_folder
    postgres_folder = data + "/data"
    control = [*prefix, binaries + "pg_ctl", "-w", "-s", "-m", "fast", "-D", data + "/data", "-l", data + "/log", "-o",
               f"-c listen_addresses= -c unix_socket_directories={data}"]
    subprocess.run([*control, "start"], **quiet)
    return f"postgresql:///postgres?host={data}&user=tester", [*control, "stop"]


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


def time_command(words, times=30):
    taken = []
    for _ in range(times):
        start = time.monotonic()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        taken.append((time.monotonic() - start) * 1e3)
    return percentile(taken, 0.5), max(taken)


SORT_KEYS = ["name", "model", "device", "engine", "time_per_token", "tokens_per_s", "time_to_first_token", "mfu", "mbu"]
STAGE_KEYS = ["time", "time_per_token", "tokens_per_s", "mfu", "mbu", "distance"]

LUA = """
local urls = {%s}
local at = %d
request = function()
  at = at %% #urls + 1
  return wrk.format("GET", urls[at])
end
"""


def milliseconds(text):
    number, unit = re.match(r"([0-9.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def measure(server, urls, seconds, scratch):
    """(requests per second, p50, p99, CPU time of the server per request in ms, failed requests) of 8 clients, and the
    time of the slowest first request of an address in ms."""
    script = os.path.join(scratch, "urls.lua")
    with open(script, "w", encoding="ascii") as f:
        f.write(LUA % (",".join(json.dumps(u) for u in urls), random.randrange(len(urls))))
    first = 0 # slowest of the requests that fill the server's cache: one client, one after the other
    for u in urls[:WARM_URLS]:
        start = time.monotonic()
        server.ask("GET", u, raw=True)
        first = max(first, (time.monotonic() - start) * 1e3)
    before = cpu_ms(server.process.pid) + postgres_cpu_ms()
    out = subprocess.run(["wrk", "-t1", "-c8", f"-d{seconds}s", "--latency", "-s", script, server.url], capture_output=True, text=True, check=True).stdout
    rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", out)[1])
    at = lambda p: milliseconds(re.search(rf"\s{p}%\s+(\S+)", out)[1])
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    done = int(re.search(r"(\d+) requests in", out)[1])
    return rate, at(50), at(99), (cpu_ms(server.process.pid) + postgres_cpu_ms() - before) / max(done, 1), int(failed[1]) if failed else 0, first


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e3


def postgres_cpu_ms():
    """CPU time of the processes of our PostgreSQL server; 0 without one."""
    if not postgres_folder:
        return 0
    with open(os.path.join(postgres_folder, "postmaster.pid"), encoding="ascii") as f:
        first = f.readline().strip()
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", first], capture_output=True, text=True, check=False).stdout.split()
    total = 0
    for pid in [first, *children]:
        try:
            total += cpu_ms(pid)
        except OSError:
            pass # it ended meanwhile
    return total


def requests(runs):
    """(name, URLs): every page, and the main calls of the API. Names with 'varied' have many URLs."""
    some = [f"run-{random.randrange(runs):06}" for _ in range(3000)]
    series = [f"model={m}&device={d.replace(' ', '+')}&engine={e}" for m in MODELS for d in DEVICES for e in ENGINES]
    words = ["llama", "qwen", "H100", "node7", "node11", "deepseek", "run-0000", "run-00012", "mi300", "gemma"]
    return [
        ("page runs", ["/runs"]),
        ("page runs, one model", ["/runs?model=" + m for m in MODELS]),
        ("page runs, by a figure", ["/runs?stage=decode&sort=time_per_token"]),
        ("page runs, search, varied", [f"/runs?search={w}{c}" for w in words for c in ["", "+", "-", "a", "0", "1", "2", "3", "4", "5"]]),
        ("page runs, older, varied", [f"/runs?until=20{24 + i // 330}-{1 + i // 28 % 12:02}-{1 + i % 28:02}" for i in range(600)]),
        ("page runs, every order, varied", ["/runs?sort=" + k + o for k in SORT_KEYS for o in ("", "&order=reverse")]
         + [f"/runs?stage=decode&sort={k}&model={m}" for k in STAGE_KEYS for m in MODELS]),
        ("page runs, two filters, varied", [f"/runs?device={d.replace(' ', '+')}&host=node{i}" for d in DEVICES for i in range(23)]),
        ("page runs, tag, varied", [f"/runs?tag={t}&model={m}" for t in ("nightly", "release") for m in ["", "qwen*", *MODELS]]),
        ("page runs, tag or time in other orders, varied", [f"/runs?{f}&{k}" for f in ("tag=nightly", "tag=nightly&model=qwen*", "tag=release", "since=2024-10-25",
         "since=2024-10-20", "until=2023-12-01") for k in ("sort=name", "sort=mfu", "sort=time_per_token", "stage=decode&sort=time", "search=node7")]),
        ("page run, varied", ["/runs/" + r for r in some]),
        ("page compare, varied", [f"/compare?a={a}&b={b}" for a, b in zip(some[::2], some[1::2])]),
        ("page trends", ["/trends"]),
        ("page trends of a stage, varied", ["/trends?stage=decode&metric=time&" + s for s in series]),
        ("page findings", ["/findings"]),
        ("page machines", ["/machines"]),
        ("page jobs", ["/jobs"]),
        ("API runs", ["/api/v1/runs"]),
        ("API runs, varied", [f"/api/v1/runs?model={MODELS[i % 10]}&until=20{24 + i // 330}-{1 + i // 28 % 12:02}-{1 + i % 28:02}" for i in range(600)]),
        ("API run, varied", ["/api/v1/runs/" + r for r in some]),
        ("API figures, varied", [f"/api/v1/runs/{r}/figures" for r in some]),
        ("API compare, varied", [f"/api/v1/compare?a={a}&b={b}" for a, b in zip(some[::2], some[1::2])]),
        ("API trends, varied", ["/api/v1/trends?stage=decode&metric=time&" + s for s in series]),
        ("API findings", ["/api/v1/findings"]),
        ("API health", ["/api/v1/health"]),
    ]


def memory_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        values = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in f if line.startswith(("VmHWM", "RssAnon", "RssFile"))}
    return values["VmHWM"], values["RssAnon"]


def one_database(name, root, url, o, scratch):
    """Measures one database; returns {name of the measurement: values}."""
    program = os.environ["INFERPROF"]
    database = ["--database", url] if url else []
    results = {}
    if not url: # left by an earlier measurement with --keep
        shutil.rmtree(os.path.join(root, ".inferprof"), ignore_errors=True)
    start = time.monotonic()
    subprocess.run([program, "runs", "-q", root, *database], stdout=subprocess.DEVNULL, check=True)
    print(f"\n## {name}, {o.runs:,} runs\n")
    results["indexing, s"] = time.monotonic() - start
    print(f"indexing: {results['indexing, s']:.1f} s")
    for words in ([], ["--model", "qwen3-8b"], ["--stage", "decode", "--sort", "time_per_token"], ["--search", "node11"]):
        median, most = time_command([program, "runs", root, *words, *database], 20)
        results[" ".join(["inferprof runs", *words])] = median
        print(f"`inferprof runs {' '.join(words)}`: median {median:.0f} ms, slowest of 20: {most:.0f} ms")
    s = lib.Server(root, "--rate", "1000000", "--allow-jobs", *database)
    time.sleep(1)
    print("\n| request | requests/s | p50 ms | p99 ms | CPU ms per request | slowest first request, ms |\n|---|---|---|---|---|---|")
    for what, urls in requests(o.runs):
        rate, p50, p99, cpu, failed, first = measure(s, urls, o.seconds, scratch)
        results[what] = (rate, p50, p99, cpu, first)
        print(f"| {what} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {cpu:.2f} | {first:.1f} |{f' {failed} requests failed' if failed else ''}", flush=True)
    peak, anonymous = memory_mb(s.process.pid)
    results["memory"] = peak
    print(f"\nmemory of the server: peak {peak:.0f} MB, of it not file pages {anonymous:.0f} MB at the end")
    s.stop()
    return results


def mark(value, target, digits):
    text = f"{value:,.{digits}f}"
    return f"**{text}**" if value > target else text


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return f"{os.cpu_count()} cores ({names[0] if names else 'unknown processor'})"


def commit():
    r = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return r.stdout.strip() or "unknown"


def table(o, databases):
    """The Markdown of the last part of docs/serve.md."""
    names = list(databases)
    above = 0
    lines = ["| request | " + " | ".join(f"{n}: requests/s | p50 ms | p99 ms | CPU ms | first ms" for n in names) + " |", "|---|" + "---|---|---|---|---|" * len(names)]
    for what, _ in requests(o.runs):
        cells = []
        for n in names:
            rate, p50, p99, cpu, first = databases[n][what]
            above += (p99 > P99_MS) + (first > P99_MS)
            cells.append(f"{rate:,.0f} | {p50:.1f} | {mark(p99, P99_MS, 1)} | {cpu:.2f} | {mark(first, P99_MS, 0)}")
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    lines += ["", "| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for what in [k for k in databases[names[0]] if k.startswith("inferprof runs")]:
        above += sum(databases[n][what] > RUNS_MS for n in names)
        lines.append(f"| `{what}`, median | " + " | ".join(mark(databases[n][what], RUNS_MS, 0) + " ms" for n in names) + " |")
    above += sum(databases[n]["memory"] > MEMORY_MB for n in names)
    lines.append("| memory of the server, peak | " + " | ".join(mark(databases[n]["memory"], MEMORY_MB, 0) + " MB" for n in names) + " |")
    lines.append("| first index of all runs | " + " | ".join(f"{databases[n]['indexing, s']:.0f} s" for n in names) + " |")
    text = (f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit()}: {o.runs:,} generated runs, 8 clients, {machine()}, shared with the clients and "
            f"PostgreSQL; load average before the start: {o.load:.1f}. The targets are {P99_MS} ms for the p99 of a page, {RUNS_MS} ms for `runs` and "
            f"{MEMORY_MB} MB of memory. " + ("No value is above its target." if above == 0 else f"{above} {'value is' if above == 1 else 'values are'} above the target (bold)."))
    return textwrap.fill(text, 118, break_long_words=False) + "\n\n" + "\n".join(lines) + "\n"


def update(path, text):
    """Replaces the rest of the file after the line with MARK."""
    with open(path, encoding="utf-8") as f:
        before = f.read()
    at = before.index(MARK) + len(MARK)
    with open(path, "w", encoding="utf-8") as f:
        f.write(before[:at] + "\n\n" + text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=100000)
    p.add_argument("--seconds", type=int, default=3, help="per kind of request")
    p.add_argument("--only", choices=["sqlite", "postgresql"])
    p.add_argument("--update", metavar="FILE", help="write the table to this file, after the line with the mark")
    p.add_argument("--keep", metavar="DIR", help="generate the runs here, or use those that are there")
    o = p.parse_args()
    o.load = os.getloadavg()[0]
    scratch = tempfile.mkdtemp(prefix="inferprof-bench.", dir="/tmp")
    os.environ["TMPDIR"] = scratch
    os.mkdir(os.path.join(scratch, "work"))
    stop, databases = None, {}
    try:
        root = o.keep or os.path.join(scratch, "runs")
        if not os.path.isdir(root):
            generate(root, o.runs)
        print(f"load average {o.load:.1f}, {os.cpu_count()} cores", flush=True)
        if o.only != "postgresql":
            databases["SQLite"] = one_database("SQLite", root, None, o, scratch)
        if o.only != "sqlite":
            url, stop = start_postgres(scratch)
            databases["PostgreSQL"] = one_database("PostgreSQL", root, url, o, scratch)
        text = table(o, databases)
        print("\n## Table of docs/serve.md\n\n" + text)
        if o.update:
            update(o.update, text)
    finally:
        if stop:
            subprocess.run(stop, cwd="/tmp", check=False)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
