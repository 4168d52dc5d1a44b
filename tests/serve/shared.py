"""shared.py ROOT DATABASE_URL: two servers on one database, and a database that stops and starts meanwhile."""
import os
import shutil
import subprocess
import sys
import threading
import time

from lib import Server, check, finish, make_run, run_program

root, url = sys.argv[1], sys.argv[2]
make_run(root, "one", started_s=1790000000)
other = root + "-other"
os.makedirs(other)
a, b = Server(root, "--database", url, "--allow-jobs"), Server(root, "--database", url)
c = Server(other, "--database", url)


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
two = os.path.join(root + "-source", "two")
r = run_program("push", c.url, two)
check("a server with another store keeps a copy of its own", r.returncode == 0 and "stored" in r.stdout and os.listdir(os.path.join(other, "two")), r)
c.stop()
shutil.rmtree(os.path.join(root, "two"))
r = run_program("push", a.url, two)
check("a run whose folder was deleted is stored again", "stored" in r.stdout and os.path.isdir(os.path.join(root, "two")), r)


# ---- jobs
def post():
    return a.ask("POST", "/api/v1/profiles", body='{"repeats": 1, "max_new_tokens": 2, "device": "cpu", "profiling": "min"}')[2]["run_id"]


def job(run_id):
    d = a.get("/api/v1/profiles/" + run_id)[2]
    return d.get("status"), d.get("attempts")


with_jobs = "san" not in os.environ.get("BUILD", "") # sanitizers make a profile too slow
if with_jobs:
    psql = subprocess.Popen(["psql", "-qAt", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    cancelled = post()
    psql.stdin.write("BEGIN; LOCK TABLE jobs IN EXCLUSIVE MODE; SELECT 'locked';\n") # most often before the server starts the job
    psql.stdin.flush()
    psql.stdout.readline()
    answer = []
    client = threading.Thread(target=lambda: answer.append(a.ask("DELETE", "/api/v1/profiles/" + cancelled)[2]["status"]))
    client.start()
    time.sleep(0.4)
    psql.stdin.close() # ends the transaction
    psql.wait(10)
    client.join(20)
    check("a cancelled job does not start", answer[0] in ("cancelled", "cancelling") and wait_for(lambda: job(cancelled)[0] == "cancelled")
          and (answer[0] == "cancelling" or job(cancelled)[1] == 0), answer, job(cancelled))
    interrupted = post()
    check("a job runs", wait_for(lambda: job(interrupted)[0] == "running"))
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
if with_jobs: # the job ends while its database is away
    wait_for(lambda: not subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(a.process.pid)], capture_output=True, text=True, check=False).stdout.replace("Z", "").strip()
             or os.path.exists(os.path.join(root, interrupted, "metrics.json")), 60)
    time.sleep(0.5)
database("start")
if with_jobs:
    check("a job that ended while the database was away is done, after one attempt", wait_for(lambda: job(interrupted) == ("done", 1), 60), job(interrupted))
check("both servers go on when the database is back", wait_for(lambda: "two" in (names(a) or []) and "two" in (names(b) or [])))
r = run_program("push", b.url, make_run(root + "-source", "three"))
check("and accept runs", r.returncode == 0 and "three" in names(a), r)
a.stop()
b.stop()
finish()
