"""perfetto_check.py FILE: decodes a Perfetto trace and prints one JSON object: slices per category and their total time,
slices that never end, flows from launch to kernel, counters."""
import collections
import json
import struct
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = data[at:at + 8], at + 8
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "truncated field"
        else:
            raise ValueError(f"wire type {wire}")
        yield key >> 3, value


names, tracks, events = {}, {}, []
for number, packet in fields(open(sys.argv[1], "rb").read()):
    assert number == 1
    packet = list(fields(packet))
    known = dict(packet)
    for n, value in packet:
        if n == 60:
            tracks[dict(fields(value))[1]] = dict(fields(value))
        if n == 12:
            for kind, entry in fields(value):
                entry = dict(fields(entry))
                if kind == 2:
                    names[entry[1]] = entry[2].decode()
        if n == 11:
            events.append((known[8], dict(fields(value))))
events = [e for _, e in sorted(enumerate(events), key=lambda pair: (pair[1][0], pair[0]))]  # the viewer sorts the same way
stacks, count, total = collections.defaultdict(list), collections.Counter(), collections.Counter()
flows = collections.defaultdict(set)
counters = 0
for at, e in events:
    assert e[11] in tracks, "an event without a track"
    if e[9] == 1:
        assert e[10] in names, "a name that was not defined"
        category = e[22].decode()
        stacks[e[11]].append((at, category))
        count[category] += 1
        if 47 in e:
            flows[struct.unpack("<Q", e[47])[0]].add(category)
    elif e[9] == 2:
        start, category = stacks[e[11]].pop()
        total[category] += at - start
    else:
        struct.unpack("<d", e[44])
        counters += 1
print(json.dumps({"open": sum(len(s) for s in stacks.values()), "count": count, "total_ns": total, "counters": counters,
                  "flows": sum(1 for f in flows.values() if f >= {"launch", "kernel"}), "tracks": len(tracks),
                  "Stages": list(collections.Counter(t[5] for t in tracks.values() if t.get(2) == b"Stages" and 5 in t).values()),
                  "track_names": sorted(t[2].decode() for t in tracks.values() if 2 in t)}))
