"""serve.py: the server with many generated runs, on SQLite and on PostgreSQL.

    make bench-serve                    100,000 runs; takes about 10 minutes
    python3 tests/bench/serve.py --runs 10000 --seconds 2

Prints the time to index the runs, the time of `inferprof runs`, the latency of every page and of the main API calls
with 8 clients that send the next request at once (wrk), requests per second, CPU time, and the memory of the server. "varied"
requests have a different URL each time, so that the server's cache of answers does not help.
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
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
os.environ.setdefault("INFERPROF", os.path.abspath("build/inferprof"))
import lib  # noqa: E402

MODELS = ["llama-3-8b", "llama-3-70b", "qwen3-8b", "qwen3-30b-a3b", "deepseek-ocr", "gemma-3-27b", "phi-4", "mistral-7b", "gpt-oss-20b", "embedded"]
DEVICES = ["NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "cpu"]
ENGINES = ["native", "hf"]


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
    """(requests per second, p50, p99, CPU time of the server per request in ms, failed requests) of 8 clients."""
    script = os.path.join(scratch, "urls.lua")
    with open(script, "w", encoding="ascii") as f:
        f.write(LUA % (",".join(json.dumps(u) for u in urls), random.randrange(len(urls))))
    for u in urls[:3]: # warm
        server.ask("GET", u, raw=True)
    before = cpu_ms(server.process.pid)
    out = subprocess.run(["wrk", "-t1", "-c8", f"-d{seconds}s", "--latency", "-s", script, server.url], capture_output=True, text=True, check=True).stdout
    rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", out)[1])
    at = lambda p: milliseconds(re.search(rf"\s{p}%\s+(\S+)", out)[1])
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    done = int(re.search(r"(\d+) requests in", out)[1])
    return rate, at(50), at(99), (cpu_ms(server.process.pid) - before) / max(done, 1), int(failed[1]) if failed else 0


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e3


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
    program = os.environ["INFERPROF"]
    database = ["--database", url] if url else []
    start = time.monotonic()
    subprocess.run([program, "runs", "-q", root, *database], stdout=subprocess.DEVNULL, check=True)
    print(f"\n## {name}, {o.runs:,} runs\n")
    print(f"indexing: {time.monotonic() - start:.1f} s")
    for words in ([], ["--model", "qwen3-8b"], ["--stage", "decode", "--sort", "time_per_token"]):
        median, most = time_command([program, "runs", root, *words, *database])
        print(f"`inferprof runs {' '.join(words)}`: median {median:.0f} ms, slowest of 30: {most:.0f} ms")
    s = lib.Server(root, "--rate", "1000000", "--allow-jobs", *database)
    time.sleep(1)
    print("\n| request | requests/s | p50 ms | p99 ms | CPU ms per request |\n|---|---|---|---|---|")
    for what, urls in requests(o.runs):
        rate, p50, p99, cpu, failed = measure(s, urls, o.seconds, scratch)
        print(f"| {what} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {cpu:.2f} |{f' {failed} requests failed' if failed else ''}", flush=True)
    peak, anonymous = memory_mb(s.process.pid)
    print(f"\nmemory of the server: peak {peak:.0f} MB, of it not file pages {anonymous:.0f} MB at the end")
    s.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=100000)
    p.add_argument("--seconds", type=int, default=5, help="per kind of request")
    p.add_argument("--only", choices=["sqlite", "postgresql"])
    p.add_argument("--keep", metavar="DIR", help="generate the runs here, or use those that are there")
    o = p.parse_args()
    scratch = tempfile.mkdtemp(prefix="inferprof-bench.", dir="/tmp")
    os.environ["TMPDIR"] = scratch
    os.mkdir(os.path.join(scratch, "work"))
    stop = None
    try:
        root = o.keep or os.path.join(scratch, "runs")
        if not os.path.isdir(root):
            generate(root, o.runs)
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        if o.only != "postgresql":
            one_database("SQLite", root, None, o, scratch)
        if o.only != "sqlite":
            url, stop = start_postgres(scratch)
            one_database("PostgreSQL", root, url, o, scratch)
    finally:
        if stop:
            subprocess.run(stop, cwd="/tmp", check=False)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
