"""lists.py ROOT [DATABASE_URL]: lists of 11,000 runs with every kind of filter and order, compared with the same lists computed here.

The number of matching runs decides which index the program reads: each way must give the same list.
"""
import datetime
import itertools
import os
import sqlite3
import subprocess
import sys

from lib import Server, check, finish, make_run, run_program

root, url = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
RUNS, STAGE_MOD, START_NS = 11000, 997, 1_700_000_000_000_000_000
options = ["--database", url] if url else []

# The folders of these runs are in another store, so that the program does not look for them.
NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS - 1}) "
SQL = [
    NUMBERS + "INSERT INTO runs (store, path, name, title, model, device, engine, host, version, started_ns, incomplete, unstable, missing, mfu,"
    " metrics_mtime_ns, metrics_bytes) SELECT 'elsewhere', 'r' || (100000 + i), 'r' || (100000 + i), 'title', 'm' || (i % 3), 'd' || (i % 2), 'e', 'h' || (i % 50),"
    f" '0.1.0', {START_NS} + CAST(i / 2 AS BIGINT) * 1000000000, 0, 0, 0, CASE WHEN i % 7 = 0 THEN NULL ELSE i * 37 % 101 END, 0, 0 FROM n ORDER BY i",
    f"INSERT INTO stages (run, position, name, time_ms) SELECT id, 0, 'decode', (id * 53) % {STAGE_MOD} FROM runs WHERE store = 'elsewhere'",
    "INSERT INTO findings (run, position, rule, stage) SELECT id, 0, 'rule-' || (id % 250), 'decode' FROM runs WHERE store = 'elsewhere'",
    "INSERT INTO tags (run, tag, started_ns, model, device, engine, host) SELECT id, 'many', started_ns, model, device, engine, host FROM runs"
    " WHERE store = 'elsewhere' AND id % 2 = 0",
    "INSERT INTO tags (run, tag, started_ns, model, device, engine, host) SELECT id, 'few', started_ns, model, device, engine, host FROM runs"
    " WHERE store = 'elsewhere' AND id % 500 = 0",
    "INSERT INTO tags (run, tag, started_ns, model, device, engine, host) SELECT id, 'old', started_ns, model, device, engine, host FROM runs"
    f" WHERE store = 'elsewhere' AND started_ns < {START_NS + 1000 * 10**9}",
]
if url:
    SQL.append("ANALYZE") # the program does this after it has indexed many runs
else:
    SQL.append("INSERT INTO runs_text(rowid, search) SELECT id, search FROM runs WHERE store = 'elsewhere'")


def fill():
    """Adds the rows; returns (id, name, started_ns, mfu) of the runs."""
    query = "SELECT id, name, started_ns, mfu FROM runs WHERE store = 'elsewhere' ORDER BY id"
    if url:
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", *(w for s in SQL for w in ("-c", s)), url], check=True)
        out = subprocess.run(["psql", "-qAt", "-c", query, url], check=True, capture_output=True, text=True).stdout
        rows = [line.split("|") for line in out.splitlines()]
        return [(int(r[0]), r[1], int(r[2]), float(r[3]) if r[3] else None) for r in rows]
    with sqlite3.connect(os.path.join(root, ".inferprof", "index.sqlite")) as c:
        for s in SQL:
            c.execute(s)
        return c.execute(query).fetchall()


make_run(root, "own", started_s=1_600_000_000)
run_program("runs", root, *options)
runs = []
for id_, name, started_ns, mfu in fill():
    i = int(name[1:]) - 100000
    runs.append({"id": id_, "name": name, "started": started_ns, "mfu": mfu, "model": f"m{i % 3}", "device": f"d{i % 2}", "host": f"h{i % 50}", "time": id_ * 53 % STAGE_MOD,
                 "tags": {t for t, has in (("many", id_ % 2 == 0), ("few", id_ % 500 == 0), ("old", started_ns < START_NS + 1000 * 10**9)) if has}})


def at(seconds):
    return datetime.datetime.fromtimestamp(START_NS // 10**9 + seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


TAGS = [None, "many", "few", "old", "none"]
FILTERS = [{}, {"model": "m1"}, {"model": "m*"}, {"device": "d1", "host": "h7"}, {"model": "m2", "device": "d*"}, {"model": "nothing"}]
TIMES = [0, 5300, 1500] # --since so many seconds after the first run: all, few and many runs
ORDERS = [("started", None), ("name", None), ("mfu", None), ("time", "decode"), ("started", "decode")]
ASCENDING = {"name", "time"}


def expected(tag, f, since, sort):
    def matches(r):
        same = all(r[k].startswith(v[:-1]) if v.endswith("*") else r[k] == v for k, v in f.items())
        return same and (not tag or tag in r["tags"]) and r["started"] >= START_NS + since * 10**9
    found = [r for r in runs if matches(r)]
    ordered = sorted((r for r in found if r[sort] is not None), key=lambda r: (r[sort], r["id"]), reverse=sort not in ASCENDING)
    return [r["name"] for r in ordered], len(found)


def listed(tag, f, since, sort, stage, cursor=None):
    arguments = dict(f, since=at(since), sort=sort, limit=7)
    arguments.update({k: v for k, v in (("tag", tag), ("stage", stage), ("cursor", cursor)) if v})
    status, _, d = s.get("/api/v1/runs", **arguments)
    return d if status == 200 else {"runs": [], "total": d, "next": None}


s = Server(root, "--rate", "100000", *options)
wrong, compared = [], 0
for tag, f, since, (sort, stage) in itertools.product(TAGS, FILTERS, TIMES, ORDERS):
    if (TAGS.index(tag) + FILTERS.index(f) + TIMES.index(since) + ORDERS.index((sort, stage))) % 3 != 0: # a third of all combinations
        continue
    names, total = expected(tag, f, since, sort)
    page = listed(tag, f, since, sort, stage)
    got = [r["run"] for r in page["runs"]]
    if page["next"]:
        second = listed(tag, f, since, sort, stage, page["next"])
        got += [r["run"] for r in second["runs"]]
    compared += 1
    if got != names[:14] or page["total"] not in (total, None if total > 500 else total):
        wrong.append((tag, f, since, sort, stage, got[:3], names[:3], page["total"], total))
check(f"{compared} lists have the right runs in the right order", not wrong and compared == 150, len(wrong), wrong[:3])
page = s.ask("GET", "/findings?runs=500", raw=True)[2].decode() # rule, model and device of these runs are all different
check("the page of findings says how many are not shown", "The first 200 of 500 findings" in page and page.count("<tr>") == 201, page.count("<tr>"))
s.stop()
finish()
