"""How long a launch of a kernel took, from a dump of launches as JSON lines: what the prices of --budget are measured in."""
import json
import statistics
import sys

with open(sys.argv[1]) as f:
    docs = map(json.loads, f)
    times_ns = [d["end_ns"] - d["start_ns"] for d in docs if d.get("api") in ("cuLaunchKernel", "cuLaunchKernelEx")]
kept = [t for t in times_ns if t <= 50000]
print(f"{len(times_ns)} launches took {statistics.fmean(kept):.0f} ns each, median {statistics.median(kept):.0f}, {len(times_ns) - len(kept)} that took over 50 us left out")
