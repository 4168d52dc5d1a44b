"""perfetto_protos.py FILE CSV_FOLDER PROCESS_NAME: decodes a Perfetto trace with the protobuf classes of the `perfetto`
package and compares every slice, each of its annotations and every counter value with the CSV export of the same
trace. Prints one line with the counts."""
import collections
import csv
import math
import os
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def rows(name):
    path = os.path.join(sys.argv[2], name + ".csv")
    return list(csv.DictReader(open(path, encoding="utf-8", newline=""))) if os.path.exists(path) else []


def value(a):
    if a.array_values:
        return [x.uint_value for x in a.array_values]
    return getattr(a, a.WhichOneof("value"))


def without_unknown(members):
    """CSV has 0 or nothing for an unknown id; such annotations are omitted."""
    return {k: v for k, v in members.items() if v not in ("", None)}


def known(number):
    return int(number) or None


def lane(r):
    return {"device": int(r["device"]), "stream": int(r["stream"]), "correlation": known(r["correlation"])}


def kernel(r):
    grid, block = ([int(r[k + "_" + axis]) for axis in "xyz"] for k in ("grid", "block"))
    return r["name"], {**lane(r), "context": int(r["context"]), "category": r["category"], "library": r["library"],
                       "stage": r["stage"], "grid": grid if grid[0] else None, "block": block if block[0] else None,
                       "registers per thread": int(r["registers"]), "graph id": known(r["graph"]),
                       "shared memory": int(r["static_smem_bytes"]) + int(r["dynamic_smem_bytes"])}


def copy(r):
    return r["kind"], {**lane(r), "bytes": int(r["bytes"])}


KINDS = {"kernels": ("kernel", kernel), "copies": ("copy", copy),
         "launches": ("launch", lambda r: (r["api"], {"correlation": int(r["correlation"])})),
         "syncs": ("sync", lambda r: (r["kind"], {"cuda_sync_kind": r["kind"]}))}
# Annotations that the CSV files do not have.
MORE = {"copies": {"context"}, "syncs": {"context", "stream"}, "kernels": {"graph node id"},
        "ranges": {"FLOPs", "bytes", "payload", "stack"}}


def compare(kind, expected, seen):
    """Each expected slice (start, name, annotations) occurs in the trace; each annotation has the expected value."""
    checked = 0
    by_start = collections.defaultdict(list)
    for start, name, annotations in seen:
        by_start[start].append((name, annotations))
    for start, name, annotations in expected:
        same = [s for s in by_start[start] if s[0] == (name or "(no name)")]
        want = without_unknown(annotations)
        for s in same:
            got = {k: v for k, v in s[1].items() if k not in MORE.get(kind, ())}
            if got == want:
                by_start[start].remove(s)
                checked += len(want)
                break
        else:
            sys.exit(f"{kind} at {start}: expected {name} {want}, found {by_start[start]}")
    assert len(expected) == len(seen), (kind, len(expected), len(seen))
    return checked


trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
names, annotation_names, tracks, slices, counts = {}, {}, {}, collections.defaultdict(list), collections.defaultdict(list)
depth = collections.Counter()
for p in trace.packet:
    names.update({e.iid: e.name for e in p.interned_data.event_names})
    annotation_names.update({e.iid: e.name for e in p.interned_data.debug_annotation_names})
    if p.HasField("track_descriptor"):
        tracks[p.track_descriptor.uuid] = p.track_descriptor
    e = p.track_event
    if e.type == TrackEvent.TYPE_SLICE_BEGIN:
        annotations = {annotation_names[a.name_iid]: value(a) for a in e.debug_annotations}
        assert len(annotations) == len(e.debug_annotations), "an annotation occurs twice"
        name = names[e.name_iid].replace("\u2028", "\ufffd")  # as in CSV files
        slices[e.categories[0]].append((p.timestamp, name, annotations))
        depth[e.track_uuid] += 1
    elif e.type == TrackEvent.TYPE_SLICE_END:
        depth[e.track_uuid] -= 1
    elif e.type == TrackEvent.TYPE_COUNTER:
        counts[tracks[e.track_uuid].name].append((p.timestamp, e.double_counter_value))
assert not any(depth.values()), "slices that never end"

checked = 0
for kind, (category, of) in KINDS.items():
    expected = [(int(r["start_ns"]), *of(r)) for r in rows(kind)]
    checked += compare(kind, expected, slices[category])
ranges = [(int(r["start_ns"]), r["name"], {"shapes": r["detail"]}) for r in rows("ranges")]
host = [s for c in ("user", "module", "op") for s in slices[c]]
of_stages = [s for s in slices["stage"] if "shapes" in s[2]]
stage_starts = collections.Counter((int(r["start_ns"]), r["name"]) for r in rows("ranges") if r["category"] == "stage")
checked += compare("ranges", [x for x, r in zip(ranges, rows("ranges")) if r["category"] != "stage"], host)
stages = collections.Counter(s[:2] for s in slices["stage"])
assert not stage_starts - stages and not of_stages, "a stage is missing"

expected = collections.defaultdict(list)
for r in rows("counters"):
    expected[r["metric"]].append((int(r["start_ns"]), float(r["value"])))
for r in rows("power"):
    for name, column in (("Power", "watts"), ("SM clock", "sm_mhz")):
        if r[column]:
            expected[name].append((int(r["time_ns"]), float(r[column])))
assert set(expected) == set(counts), (set(expected), set(counts))
for name in expected:
    for (t, v), (at, got) in zip(sorted(expected[name]), sorted(counts[name])):
        assert t == at and math.isclose(v, got, rel_tol=1e-6), (name, t, v, at, got)
    assert len(expected[name]) == len(counts[name]), name

processes = [t.process for t in tracks.values() if t.HasField("process")]
threads = [t.thread for t in tracks.values() if t.HasField("thread")]
assert [p.process_name for p in processes] == [sys.argv[3]] and all(p.pid for p in processes), processes
assert {t.tid for t in threads} >= {int(r["tid"]) for r in rows("launches")} and all(t.pid == processes[0].pid for t in threads)
print(f"{sum(map(len, slices.values()))} slices, {checked} annotations, {sum(map(len, counts.values()))} counter values, "
      f"threads {sorted(t.thread_name for t in threads if t.thread_name)[:3]}")
