"""shared.py ROOT DATABASE_URL: two servers on one database, and a database that stops and starts meanwhile."""
import os
import sys
import time

from lib import Server, check, finish, make_run, run_program

root, url = sys.argv[1], sys.argv[2]
make_run(root, "one", started_s=1790000000)
a, b = Server(root, "--database", url), Server(root, "--database", url)


def names(s):
    d = s.get("/api/v1/runs", limit=1000)[2]
    return sorted(r["run"] for r in d["runs"]) if isinstance(d, dict) and "runs" in d else None


def wait_for(condition, seconds=20):
    end = time.time() + seconds
    while time.time() < end and not condition():
        time.sleep(0.1)
    return condition()


check("both servers list the run", wait_for(lambda: "one" in (names(a) or []) and "one" in (names(b) or [])))
run_program("push", a.url, make_run(root + "-source", "two"))
check("a run pushed to one server is listed by the other", "two" in names(b), names(b))
b.ask("POST", "/api/v1/runs/two/tags", body='{"add": ["shared"]}')
check("a tag of one server is seen by the other", a.get("/api/v1/runs/two")[2]["tags"] == ["shared"])


def database(action):
    """Asks serve.sh to stop or start the database, and waits until it did."""
    path = f"{root}.{action}"
    open(path, "w", encoding="utf-8").close()
    wait_for(lambda: not os.path.exists(path), 30)


database("stop")
status, headers, d = a.get("/api/v1/runs?limit=7")
check("without its database the server answers 503", status == 503 and headers["Retry-After"] and "does not answer" in d["detail"], d)
check("the message has no address of the database", "tester" not in d["detail"])
database("start")
check("both servers go on when the database is back", wait_for(lambda: "two" in (names(a) or []) and "two" in (names(b) or [])))
r = run_program("push", b.url, make_run(root + "-source", "three"))
check("and accept runs", r.returncode == 0 and "three" in names(a), r)
a.stop()
b.stop()
finish()
