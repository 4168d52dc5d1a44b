"""Reads lines "ARM START JSON END" of run_all.sh and says what whole processes took with and without the collector."""
import json
import statistics
import sys

arms = {"on": [], "off": []}
for line in sys.stdin:
    arm, start, rest = line.split(" ", 2)
    doc, end = rest.rsplit(" ", 1)
    arms[arm].append((json.loads(doc)["seconds"], float(end) - float(start)))
for i, what in enumerate(("measured", "process")):
    n, off, on = len(arms["on"]), *(statistics.median(x[i] for x in arms[a]) for a in ("off", "on"))
    print(f"{what:<10} off {off:.3f} s  on {on:.3f} s  {100 * (on / off - 1):+.2f}%  ({n} runs each)")
