#!/usr/bin/env python3
"""Checks a Perfetto export against Perfetto's message definitions and against the CSV export of the same run.

    perfetto_trace.py TRACE.perfetto-trace CSV_FOLDER

Needs the `perfetto` package for Python, which contains the official descriptors. Every packet must parse without unknown
fields. The numbers of tracks, slices, counters and flows and the slice durations must match the CSV export.
"""
import collections
import csv
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def unknown_fields(message, path="Trace"):
    found = [f"{path}: field {f.field_number}" for f in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type:
            many = value if isinstance(value, collections.abc.Sequence) or hasattr(value, "__iter__") else [value]
            for item in many:
                found += unknown_fields(item, f"{path}.{field.name}")
    return found


def rows(folder, name):
    with open(f"{folder}/{name}.csv", newline="") as f:
        return list(csv.DictReader(f))


class Reader:
    """Interprets the packets as a viewer does: names by number, slices as stacks per track, in order of time."""

    def __init__(self, trace):
        self.names, self.tracks, self.events = {}, {}, []
        cleared = set()
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.sequence_flags & pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
                cleared.add(sequence)
            if packet.sequence_flags & pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE:
                assert sequence in cleared, "incremental state before it was cleared"
            for name in packet.interned_data.event_names:
                self.names[name.iid] = name.name
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks, "a track twice"
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                self.events.append((packet.timestamp, len(self.events), packet.track_event))
        self.events.sort(key=lambda e: e[:2])
        self.play()

    def play(self):
        event = pb.TrackEvent
        self.slices, self.counters, self.flows = collections.defaultdict(list), collections.defaultdict(list), collections.defaultdict(list)
        stacks = collections.defaultdict(list)
        for at, _, e in self.events:
            assert e.track_uuid in self.tracks, "an event on no track"
            if e.type == event.TYPE_SLICE_BEGIN:
                assert e.name_iid in self.names, "a name that was never sent"
                stacks[e.track_uuid].append((at, e.categories[0], self.names[e.name_iid]))
                for flow in e.flow_ids:
                    self.flows[flow].append(e.categories[0])
            elif e.type == event.TYPE_SLICE_END:
                start, category, name = stacks[e.track_uuid].pop()
                self.slices[category].append((name, at - start))
            elif e.type == event.TYPE_COUNTER:
                assert self.tracks[e.track_uuid].HasField("counter"), "a counter on a track of slices"
                self.counters[self.tracks[e.track_uuid].name].append(e.double_counter_value)
            else:
                raise AssertionError(f"an event of type {e.type}")
        assert not any(stacks.values()), "slices that never end"
        for uuid, track in self.tracks.items():
            assert not track.parent_uuid or track.parent_uuid in self.tracks, f"track {uuid} has no parent"


def longer_than_nothing(row):
    """Perfetto draws nothing for a slice of 0 ns; the export makes it 1 ns."""
    return max(1, int(row["duration_ns"]))


def compare(what, mine, theirs):
    print(f"{what}: {theirs}" if mine == theirs else f"{what}: {mine}, but the CSV export has {theirs}")
    return mine == theirs


def main(path, folder):
    trace = pb.Trace()
    with open(path, "rb") as f:
        trace.ParseFromString(f.read())
    unknown = unknown_fields(trace)
    assert not unknown, unknown[:5]
    r = Reader(trace)
    good = True
    kernels = rows(folder, "kernels")
    expected = collections.Counter((k["name"], longer_than_nothing(k)) for k in kernels)
    good &= compare("kernels", len(r.slices["kernel"]), len(kernels))
    good &= compare("kernels of other names or lengths", sum((collections.Counter(r.slices["kernel"]) - expected).values()), 0)
    for category, name in (("copy", "copies"), ("launch", "launches"), ("sync", "syncs")):
        table = rows(folder, name)
        good &= compare(name, len(r.slices[category]), len(table))
        good &= compare(f"ns of {name}", sum(ns for _, ns in r.slices[category]), sum(map(longer_than_nothing, table)))
    launched = {k["correlation"] for k in kernels if k["correlation"] != "0"}
    whole = [kinds for kinds in r.flows.values() if "launch" in kinds and "kernel" in kinds]
    good &= compare("flows from a launch to its kernels", len(whole), len(launched))
    good &= compare("kernels at the end of a flow", sum(kinds.count("kernel") for kinds in whole), sum(k["correlation"] != "0" for k in kernels))
    power, counters = rows(folder, "power"), [c for c in rows(folder, "counters") if c["value"]]
    good &= compare("power samples", len(r.counters["Power"]), sum(bool(p["watts"]) for p in power))
    good &= compare("clock samples", len(r.counters["SM clock"]), sum(bool(p["sm_mhz"]) for p in power))
    good &= compare("counter values", sum(map(len, r.counters.values())) - len(r.counters["Power"]) - len(r.counters["SM clock"]), len(counters))
    print(f"{len(trace.packet)} packets, {len(r.tracks)} tracks, {len(r.slices['stage'])} stage slices, no unknown field")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]) if len(sys.argv) == 3 else __doc__)
