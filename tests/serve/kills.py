"""kills.py ROOT [DATABASE_URL]: kill -9 of the server during uploads.

    make test-kills                 1,000 kills; took 12 minutes on 2 busy cores
    make test-kills KILLS=100

Each upload is the only one of a new server, which is killed at a moment that is uniformly distributed between the start of
the upload and twice its usual duration. The duration is measured again after every 20 kills, because the load of the machine
may change. So about half of the uploads are acknowledged before the kill, on any machine.
"""
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from lib import PROGRAM, Server, check, finish, make_run, run_program

root, kills = sys.argv[1], int(os.environ.get("SERVE_KILLS", "12"))
options = ["--database", sys.argv[2]] if len(sys.argv) > 2 else []
source, uploads = root + "-source", os.path.join(root, ".inferprof", "uploads")
BYTES = 400_000 # size of a trace, plus the number of the run: every run has another size


def start_push(server, folder):
    return subprocess.Popen([PROGRAM, "push", server.url, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def measure(n):
    """Seconds of an upload to a new server that is not killed."""
    s = Server(root, *options)
    start = time.monotonic()
    out = start_push(s, make_run(source, f"warm{n}", padding=BYTES + n)).communicate()[0]
    taken = time.monotonic() - start
    s.stop()
    return taken if "stored" in out else None


def entries():
    return set(os.listdir(uploads)) if os.path.isdir(uploads) else set()


def has_folder(name):
    return os.path.isdir(os.path.join(root, name))


def kill_once(name, folder, moment_s):
    """Pushes one run, kills the server, and returns what the kill left."""
    s = Server(root, *options)
    before, start = entries(), time.monotonic()
    p = start_push(s, folder)
    time.sleep(max(0, start + moment_s - time.monotonic()))
    s.stop(signal.SIGKILL)
    # The answer may be on its way. A client without an answer tries again half a second later; no server listens then.
    try:
        out = p.communicate(timeout=0.4)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        out = p.communicate()[0]
    if "stored" in out:
        return "acknowledged"
    if has_folder(name):
        return "stored, not acknowledged"
    return "half-written" if entries() - before else "nothing written"


random.seed(7)
durations = [d for d in map(measure, range(5)) if d]
results = {}
for i in range(kills):
    if i % 20 == 19:
        durations.append(measure(1000 + i) or durations[-1])
    folder = make_run(source, f"k{i}", padding=BYTES + i)
    results[f"k{i}"] = kill_once(f"k{i}", folder, random.uniform(0, 2 * statistics.median(durations[-5:])))

s = Server(root, *options)
time.sleep(0.5)


def all_runs():
    """Every run of the test, page by page."""
    runs, cursor = {}, None
    while True:
        page = s.get("/api/v1/runs", limit=1000, **({"cursor": cursor} if cursor else {}))[2]
        runs.update({r["run"]: r for r in page["runs"] if r["run"].startswith("k")})
        if not (cursor := page["next"]):
            return runs


listed = all_runs()
acknowledged = [n for n, r in results.items() if r == "acknowledged"]
kinds = ["acknowledged", "stored, not acknowledged", "half-written", "nothing written"]
print(f"# {kills} kills: " + "; ".join(f"{list(results.values()).count(k)} {k}" for k in kinds)
      + f"; an upload takes {statistics.median(durations) * 1e3:.0f} ms (median of {len(durations)})")
check("a third of the uploads were acknowledged before the kill", kills < 100 or len(acknowledged) * 3 >= kills, len(acknowledged))
check("uploads were interrupted, too", kills < 100 or list(results.values()).count("half-written") * 20 >= kills, results)
check(f"after {kills} kills no acknowledged run is lost", all(n in listed for n in acknowledged), acknowledged, list(listed))
whole = lambda n: os.path.getsize(os.path.join(root, n, "trace", "a.ipt")) == BYTES + int(n[1:])
check("no partial run is shown", all(whole(n) and not r["incomplete"] for n, r in listed.items()), list(listed))
r = run_program("push", s.url, *(os.path.join(source, n) for n in results), seconds=120 + 5 * kills)
check("pushing again completes every run", r.returncode == 0 and len(all_runs()) == kills and all(map(whole, results)), r)
s.stop()
finish()
