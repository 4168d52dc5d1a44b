"""Prints how long kernel launches took, from a dump of launches as JSON lines. The costs of --budget are relative to it."""
import json
import statistics
import sys

with open(sys.argv[1]) as f:
    docs = map(json.loads, f)
    times_ns = [d["end_ns"] - d["start_ns"] for d in docs if d.get("api") in ("cuLaunchKernel", "cuLaunchKernelEx")]
kept = [t for t in times_ns if t <= 50000]
print(f"{len(times_ns)} launches: mean {statistics.fmean(kept):.0f} ns, median {statistics.median(kept):.0f} ns, without {len(times_ns) - len(kept)} over 50 us")
