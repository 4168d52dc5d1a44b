#!/usr/bin/env python3
"""rank_time.py INFERPROF RUN_DIR SCRATCH_DIR: computes the time of the ranks of a job a second time and compares it
with the digests and with ranks.json. Shares no code with inferprof except `trace dump`, which prints records.

Definitions (docs/ranks.md), for the GPU of each rank:
  compute  union of the kernels that do not communicate
  exposed  union of the communication kernels, minus compute
  copies   union of copies and memsets, minus all kernels
  waiting  per collective: the exposed part between its start and the last start on any rank. If several
           communication kernels run at once, the time belongs to the one that started first.
Collectives are matched by communicator, operation and sequence number. Clocks are not corrected: waiting is compared
only for jobs on one node."""
import collections
import glob
import json
import re
import shutil
import subprocess
import sys

UNKNOWN = 2**64 - 1
COMMUNICATION = re.compile(r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv", re.IGNORECASE)


def records(inferprof, path, kind):
    out = subprocess.run([inferprof, "trace", "dump", "--json", "--kind", kind, path], capture_output=True, check=True)
    return [json.loads(line) for line in out.stdout.decode().splitlines()]


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def minus(intervals, others):
    """Both are unions."""
    out, i = [], 0
    for start, end in intervals:
        while i < len(others) and others[i][1] <= start:
            i += 1
        k = i
        while k < len(others) and others[k][0] < end:
            if others[k][0] > start:
                out.append([start, others[k][0]])
            start = max(start, others[k][1])
            k += 1
        if start < end:
            out.append([start, end])
    return out


class Rank:
    def __init__(self, inferprof, path):
        meta = {m["key"]: m["value"] for m in records(inferprof, path, "meta")}
        self.number, self.node = int(meta["rank"]), meta.get("node", meta.get("host"))
        kernels = records(inferprof, path, "kernel")
        comm = [k for k in kernels if COMMUNICATION.search(k["name"])]
        span = lambda rows: [(k["start_ns"], k["end_ns"]) for k in rows]
        self.compute = union(span([k for k in kernels if not COMMUNICATION.search(k["name"])]))
        self.exposed = minus(union(span(comm)), self.compute)
        self.copies = minus(union(span(records(inferprof, path, "copy"))), union(span(kernels)))
        self.own = self.own_parts(sorted(comm, key=lambda k: k["start_ns"]))
        self.collectives = {}
        for c in records(inferprof, path, "collective"):
            if UNKNOWN not in (c["communicator"], c["sequence"]):
                self.collectives[c["communicator"], c["op"], c["sequence"]] = c

    def own_parts(self, comm):
        """The exposed parts of each communication kernel, by correlation id."""
        parts, taken = collections.defaultdict(list), []
        for k in comm:
            mine = minus(minus([[k["start_ns"], k["end_ns"]]], self.compute), union(taken))
            parts[k["correlation"]] += mine
            taken = [t for t in taken if t[1] > k["start_ns"]] + [[k["start_ns"], k["end_ns"]]]
        return parts


def waiting(ranks):
    """{rank: (waiting, exposed time of matched collectives)}"""
    starts = collections.defaultdict(list)
    for r in ranks:
        for key, c in r.collectives.items():
            starts[key].append(c["kernel_start_ns"])
    out = {}
    for r in ranks:
        wait = matched = 0
        for key, c in r.collectives.items():
            if len(starts[key]) < 2:
                continue
            parts = r.own[c["correlation"]]
            wait += length([[a, min(b, max(starts[key]))] for a, b in parts if a < max(starts[key])])
            matched += length(parts)
        out[r.number] = (wait, matched)
    return out


def main():
    inferprof, run, scratch = sys.argv[1:]
    shutil.rmtree(scratch, ignore_errors=True)
    subprocess.run([inferprof, "merge", "-q", run, "--output", scratch], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    paths = sorted(glob.glob(run + "/*.ipt") or glob.glob(run + "/trace/*.ipt"))
    ranks = [Rank(inferprof, p) for p in paths]
    bad = compared = 0

    def same(what, got, want, limit):
        nonlocal bad, compared
        compared += 1
        if got is None or abs(got - want) > limit:
            print(f"{run}: {what} is {got}, the oracle says {want}")
            bad += 1

    for r in ranks:
        d = json.load(open(f"{scratch}/digest/rank-{r.number:05}.digest.json", encoding="utf-8"))
        top = [s for s in d["stages"] if s["parent"] is None]
        for name, parts in (("compute_ns", r.compute), ("exposed_ns", r.exposed), ("copy_ns", r.copies)):
            same(f"rank {r.number} {name}", sum(s[name] for s in top), length(parts), 2 + 1e-9 * length(parts))
    waits = waiting(ranks)
    if len({r.node for r in ranks}) == 1 and any(m for _, m in waits.values()):
        subprocess.run([inferprof, "report", "-q", scratch], check=True, stdout=subprocess.DEVNULL)
        rows = {r["rank"]: r for r in json.load(open(scratch + "/ranks.json", encoding="utf-8"))["ranks"]}
        for number, (wait, matched) in waits.items():
            row = rows[number].get("time", rows[number])
            want = row["exposed_ns"] * wait / matched if matched else 0
            same(f"rank {number} wait_ns", row["wait_ns"], want, 5 + 1e-6 * want)
    print(f"{run}: {len(ranks)} ranks, {compared} values compared, {bad} differ")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
