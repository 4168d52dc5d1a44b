#!/usr/bin/env python3
"""check_ranks.py TRUTH DIGEST_FOLDER [--waits JSON]: compares the digests of a simulated job (tests/programs/make_ranks.c)
with what was simulated: computation and exposed communication of every rank, within 0.1%."""
import glob
import json
import sys

truth = {r["rank"]: r for r in json.load(open(sys.argv[1], encoding="utf-8"))}
bad = 0
found = set()
for path in sorted(glob.glob(sys.argv[2] + "/*.digest.json")):
    d = json.load(open(path, encoding="utf-8"))
    found.add(d["rank"])
    stages = [s for s in d["stages"] if s["parent"] is None]
    for key in ("compute_ns", "exposed_ns"):
        got, want = sum(s[key] for s in stages), truth[d["rank"]][key]
        if abs(got - want) > 1e-3 * want + 100:
            print(f"rank {d['rank']}: {key} is {got:.0f}, simulated {want:.0f}")
            bad += 1
    parts = sum(s["compute_ns"] + s["exposed_ns"] + s["copy_ns"] + s["idle_ns"] for s in stages) + d["unrecorded_ns"]
    if abs(parts - d["timeline_ns"]) > 1e-6 * d["timeline_ns"] + 10:
        print(f"rank {d['rank']}: the parts add up to {parts:.0f}, the timeline is {d['timeline_ns']:.0f}")
        bad += 1
if found != set(truth):
    print(f"ranks {sorted(found)}, expected {sorted(truth)}")
    bad += 1
sys.exit(1 if bad or not truth else 0)
