"""counters_means.py PHASES.json SAMPLES.jsonl: prints the time-weighted mean of each metric in each phase."""
import json
import sys

phases = json.load(open(sys.argv[1]))
samples = [json.loads(line) for line in open(sys.argv[2])]
for p in phases:
    inside = [s for s in samples if s["start_ns"] >= p["start_ns"] and s["end_ns"] <= p["end_ns"]]
    if not inside:
        print(p["name"], "no samples;", "samples from", samples[0]["start_ns"] if samples else None, "phase from", p["start_ns"])
        continue
    names = inside[0]["metrics"].split(";")
    weight = sum(s["end_ns"] - s["start_ns"] for s in inside)
    print(p["name"], len(inside), "samples, covering %.1f%%" % (100 * weight / (p["end_ns"] - p["start_ns"])))
    for i, name in enumerate(names):
        mean = sum((s["v%d" % i] or 0) * (s["end_ns"] - s["start_ns"]) for s in inside) / weight
        print("   %-70s %12.2f" % (name, mean))
