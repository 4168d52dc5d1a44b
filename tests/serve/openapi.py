"""openapi.py ROOT SCHEMATHESIS: runs schemathesis on a server with a few runs and jobs allowed."""
import os
import re
import subprocess
import sys

from lib import Server, check, finish, make_run

root, program = sys.argv[1:3]
# make test-long sets more of both
SEEDS, EXAMPLES = os.environ.get("OPENAPI_SEEDS", "7 101 202").split(), os.environ.get("OPENAPI_EXAMPLES", "3")
for i in range(12):
    make_run(root, f"run-{i:02}", started_s=1790000000 + i * 86400)
s = Server(root, "--rate", "100000", "--allow-jobs", "--job-root", root)
here = os.path.dirname(os.path.abspath(__file__))
env = dict(os.environ, SCHEMATHESIS_HOOKS="schemathesis_hooks", PYTHONPATH=here, PYTHONDONTWRITEBYTECODE="1")
words = [program, "--config-file", os.path.join(here, "schemathesis.toml"), "run", s.url + "/api/v1/openapi.json",
         "--max-examples", EXAMPLES, "--generation-database", "none", "--request-timeout", "20", "--suppress-health-check", "all", "--no-color"]
for seed in SEEDS:
    try:
        r = subprocess.run([*words, "--seed", seed], cwd=os.environ["TMPDIR"], env=env, capture_output=True, text=True, timeout=280, check=False)
        code, text = r.returncode, r.stdout + r.stderr
    except subprocess.TimeoutExpired as e:
        code, text = -1, (e.stdout or b"").decode(errors="replace") + "timed out"
    counts = re.search(r"(\d+) generated, (\d+) passed", text)
    failures = re.sub(r"(\\x00)+", "...", text[text.find("FAILURES"):])
    check(f"the server keeps to its OpenAPI document, seed {seed}", code == 0 and counts and int(counts[1]) >= 100 and counts[1] == counts[2],
          *failures.splitlines()[:40])
check("and answers afterwards", s.get("/api/v1/health")[0] == 200)
check("and ends", s.stop() == 0)
finish()
