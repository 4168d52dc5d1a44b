"""ranks.py ROOT MAKE_RANKS: the nodes of a job push their folders; the server's folders are joined to one run."""
import glob
import os
import shutil
import subprocess
import sys
import time

from lib import Server, check, finish, run_program

root, make_ranks = sys.argv[1:]
source = root + "-source"
job = os.path.join(source, "all")
os.makedirs(root)
os.makedirs(source)
subprocess.run([make_ranks, job, "ranks=8", "per_node=4", "steps=20", "slow=5", "slow_percent=10", "offset_ms=50"], check=True)
s = Server(root)
for node in (0, 1):
    folder = os.path.join(source, f"job7-node{node}")
    os.makedirs(os.path.join(folder, "trace"))
    for trace in glob.glob(f"{job}/node{node}-*.ipt"):
        shutil.copy(trace, os.path.join(folder, "trace"))
    r = run_program("report", "-q", folder)
    check(f"the ranks of node {node} have a report of their own", r.returncode == 0 and "4 of 8 ranks" in r.stdout, r)
    r = run_program("push", s.url, folder)
    check(f"node {node} pushes its folder", r.returncode == 0 and r.stdout.startswith(f"job7-node{node}: stored"), r)
merged = os.path.join(root, "job7")
r = run_program("merge", os.path.join(root, "job7-node0"), os.path.join(root, "job7-node1"), "--output", merged)
check("the pushed folders are joined on the server", r.returncode == 0 and "8 of 8 ranks on 2 nodes" in r.stdout and "straggler: rank 5" in r.stdout, r)
r = run_program("report", "-q", merged)
end = time.time() + 20
while time.time() < end and s.get("/api/v1/runs/job7")[0] != 200:
    time.sleep(0.2)
status, _, d = s.get("/api/v1/runs/job7")
check("the joined job is listed as one run", status == 200 and len(s.get("/api/v1/runs")[2]["runs"]) == 3, d)
check("its page links the report of the ranks", b"/runs/job7/ranks" in s.get("/runs/job7")[2])
status, headers, body = s.get("/runs/job7/ranks")
check("the report of the ranks is shown in a sandbox", status == 200 and headers["Content-Security-Policy"].startswith("sandbox") and b"rank 5" in body, status)
s.ask("DELETE", "/api/v1/runs/job7-node0")
s.ask("DELETE", "/api/v1/runs/job7-node1")
r = run_program("report", "-q", merged, "-o", root + "-again")
check("the joined job does not need the folders of the nodes", r.returncode == 0 and "8 of 8 ranks" in r.stdout, r)
s.stop()
finish()
