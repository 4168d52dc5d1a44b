"""query.py DUMP [EXPRESSION VALUE]...: checks expressions over the records of `inferprof trace dump --json`.

An expression may use: kernel, launch, range_, copy, sync, token, gemm, lost, power, model_file (lists of records), meta (key -> list
of values), counts (collector.counts), and the functions below. Prints the first difference and exits 1.
"""
import json
import sys


def main():
    records = {k: [] for k in "kernel launch range copy sync token gemm lost power meta sample replay model_file".split()}
    with open(sys.argv[1]) as f:
        for line in f:
            r = json.loads(line)
            records[r["kind"]].append(r)
    meta = {}
    for m in records.pop("meta"):
        meta.setdefault(m.get("key"), []).append(m.get("value"))
    words = meta.get("collector.counts", [""])[-1].split()
    counts = dict(zip(words[::2], map(int, words[1::2])))
    launches = {l["correlation"]: l for l in records["launch"]}
    names = dict(records, range_=records["range"], meta=meta, counts=counts, launches=launches)

    def orphans():
        return sum(k["correlation"] not in launches for k in records["kernel"] + records["copy"])

    def early():
        return sum(k["start_ns"] < launches[k["correlation"]]["start_ns"] for k in records["kernel"])

    def problem(words):
        return any(words in p for p in meta.get("problem", []))

    def windows():
        return [w for w in meta.get("capture.window", []) if " " in w]

    def inside():
        """Every launch is inside a window, and every kernel has a launch."""
        spans = [tuple(map(int, w.split())) for w in windows()]
        return all(any(a <= l["start_ns"] <= b for a, b in spans) for l in records["launch"]) and orphans() == 0

    def lost(kind, reason):
        want = ({"range": 3, "launch": 4, "kernel": 5}[kind], ["memory", "disk", "source", "untrusted"].index(reason))
        return sum(l["count"] for l in records["lost"] if (l["lost_kind"], l["reason"]) == want)

    names.update(orphans=orphans, early=early, problem=problem, lost_of=lost, windows=windows, inside=inside)
    safe = {"__builtins__": {f.__name__: f for f in (len, sorted, sum, set, abs, max, min, any, all, float, int, str)}}
    for expression, want in zip(sys.argv[2::2], sys.argv[3::2]):
        got = str(eval(expression, {**names, **safe}))
        if got != want:
            print(f"{expression} is {got[:300]}, expected {want}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
