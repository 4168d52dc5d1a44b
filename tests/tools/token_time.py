"""Tables of tests/gpu/token_time.sh.

    token_time.py line PROGRAM MODE ROUND STATUS OUTPUT    prints one JSON line about a process
    token_time.py table LINES RUNS_DIR                     prints overhead, and the reports' times per token against the programs' own
"""
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
from bootstrap import bootstrap

DRAWS = 10000


def line(program, mode, number, status, path):
    out = {"program": program, "mode": mode, "round": int(number), "status": int(status)}
    try:
        data = json.load(open(path))
        if isinstance(data, list):  # llama-bench
            row = next(r for r in data if r["n_gen"])
            ms = [ns * 1e-6 / row["n_gen"] for ns in row["samples_ns"]]
            out.update(mean_ms=statistics.mean(ms), later_ms=statistics.mean(ms[1:] or ms), first_ms=ms[0])
        else:
            out.update({k: data[k] for k in ("mean_ms", "later_ms")})
    except (OSError, ValueError, StopIteration, KeyError) as e:
        out["error"] = str(e)
    print(json.dumps(out))


def reported(folder):
    """The report's time per token in ms: not recorded, of the whole run, and while kernels were recorded."""
    try:
        metrics = json.load(open(os.path.join(folder, "metrics.json")))
    except (OSError, ValueError):
        return None, None, None
    for stage in metrics["stages"]:
        if stage["name"] in ("decode", "step"):
            u = stage.get("unrecorded") or {}
            return u.get("mean_ms"), u.get("all_ms"), u.get("recorded_ms", stage["time_ms"])
    return None, None, None


def show(v, fmt="%.4f"):
    return "-" if v is None else fmt % v


def table(lines, runs):
    rows = [json.loads(x) for x in open(lines)]
    failed = [r for r in rows if r["status"] or "mean_ms" not in r]
    rows = [r for r in rows if r not in failed]
    for program in dict.fromkeys(r["program"] for r in rows):
        plain = [r["mean_ms"] for r in rows if r["program"] == program and r["mode"] == "plain"]
        for mode in dict.fromkeys(r["mode"] for r in rows if r["program"] == program):
            v = [r for r in rows if r["program"] == program and r["mode"] == mode]
            ms, later = statistics.median(r["mean_ms"] for r in v), statistics.median(r["later_ms"] for r in v)
            over = 100 * (ms / statistics.median(plain) - 1) if plain else None
            rounds = {r["round"]: r["mean_ms"] for r in rows if r["program"] == program and r["mode"] == "plain"}
            pairs = [100 * (r["mean_ms"] / rounds[r["round"]] - 1) for r in v if r["round"] in rounds]
            figures = [bootstrap(pairs, f, DRAWS) if pairs else (None,) * 3 for f in (statistics.median, statistics.mean)]
            print("%-10s %-22s %2d processes  %.4f ms per token  %s  later %.4f  pairs of a round: median %s [%s, %s], mean %s [%s, %s], 95%% intervals" %
                  (program, mode, len(v), ms, show(over, "%+.2f%%"), later, *(show(x, "%+.2f%%") for f in figures for x in f)))
    for r in rows:
        if not r["mode"].startswith("run"):
            continue
        name = r["program"] + "-" + "".join(c for c in r["mode"] if c.islower() or c.isdigit()) + "-%d" % r["round"]  # as token_time.sh
        ours, whole, recorded = reported(os.path.join(runs, name))
        off = [None if a is None else 100 * (a / r[k] - 1) for a, k in ((ours, "later_ms"), (whole, "mean_ms"))]
        print("%-17s report: not recorded %s ms (program after the first repeat %.4f: %s), all %s (program %.4f: %s), recorded %s" %
              (name, show(ours), r["later_ms"], show(off[0], "%+.2f%%"), show(whole), r["mean_ms"], show(off[1], "%+.2f%%"), show(recorded)))
    for r in failed:
        print("failed:", json.dumps(r))


if __name__ == "__main__":
    {"line": line, "table": table}[sys.argv[1]](*sys.argv[2:])
