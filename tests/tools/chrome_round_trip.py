#!/usr/bin/env python3
"""chrome_round_trip.py INFERPROF TRACE...: checks that `import` and `export --format chrome` keep a Kineto trace.

Compares the events of each file before and after: phase, category, name, process, thread, start, duration and all
arguments of slices, instants and names; category, id, place and time of both ends of all flows. Prints one line per file. Exit status 1 on any difference."""
import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile
from decimal import Decimal

def load(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as f:
        document = json.load(f, parse_float=Decimal)
    events = document["traceEvents"] if isinstance(document, dict) else document
    base = document.get("baseTimeNanoseconds", 0) if isinstance(document, dict) else 0
    return [e for e in events if isinstance(e, dict) and e.get("ph")], int(base)


def ns(micros):
    return int((Decimal(micros) * 1000).to_integral_value())


def number(v):
    return float(v) if isinstance(v, Decimal) else v


def frozen(args):
    return json.dumps({k: v for k, v in sorted((args or {}).items())}, sort_keys=True, default=number)


def place(e, base):
    """Process, thread and start: what a flow uses to find its slice."""
    return (str(e.get("pid")), str(e.get("tid")), ns(e["ts"]) + base)


def described(events, base):
    """Returns the multisets of slices and of flow ends."""
    slices, flows = collections.Counter(), collections.Counter()
    for e in events:
        ph, cat = e["ph"], e.get("cat", "")
        if ph in "sft":
            flows[(ph, cat, e["name"], e["id"]) + place(e, base)] += 1
        elif ph == "M":
            slices[(ph, e["name"], str(e.get("pid")), str(e.get("tid")), frozen(e.get("args")))] += 1
        elif ph != "C" and "ts" in e and (ph != "X" or Decimal(e.get("dur", -1)) >= 0):
            slices[(ph, cat, e["name"], ns(e["dur"]) if ph == "X" else 0, frozen(e.get("args"))) + place(e, base)] += 1
    return slices, flows


def round_trip(program, path, folder):
    trace, result = os.path.join(folder, "a.ipt"), os.path.join(folder, "b.json")
    for words in (["import", path, "-o", trace], ["export", trace, "--format", "chrome", "-o", result]):
        done = subprocess.run([program, *words, "-q"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{path}: {' '.join(words[:1])}: {done.stderr.strip()}")
    return result


def main():
    program, *paths = sys.argv[1:]
    failed = False
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            result = round_trip(program, path, folder)
            before, after = described(*load(path)), described(*load(result))
        counts = [sum(x.values()) for x in before]
        lost = [sum((b - a).values()) for b, a in zip(before, after)]
        added = [sum((a - b).values()) for b, a in zip(before, after)]
        bad = sum(lost) + sum(added)
        failed |= bool(bad)
        print(f"{'DIFFERENT' if bad else 'same'} {os.path.basename(path)}: {counts[0]} events, {counts[1]} flow ends; "
              f"lost {lost}, added {added}")
        for b, a in zip(before, after):
            for sign, rows in (("-", b - a), ("+", a - b)):
                for row in list(rows)[:3] if bad else []:
                    print("   ", sign, str(row)[:400])
    sys.exit(failed)


main()
