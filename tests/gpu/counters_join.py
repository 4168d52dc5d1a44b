"""counters_join.py NCU.csv RUN_FOLDER...: fitted counters of runs of counters_classes.py beside Nsight Compute's.

NCU.csv is `ncu --csv --page raw --nvtx --print-kernel-base mangled` of the same program. Classes meet by section, demangled name, grid and block.
Prints a Markdown table for each run and the median absolute difference over classes with more than 1 ms of exposure.
"""
import csv
import json
import re
import statistics
import subprocess
import sys

METRICS = {
    "sm": ["sm__cycles_active.avg.pct_of_peak_sustained_elapsed"],
    "tensor": ["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"],
    "read": ["dram__read_throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes_read.sum.pct_of_peak_sustained_elapsed"],
    "write": ["dram__write_throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes_write.sum.pct_of_peak_sustained_elapsed"],
    "clock": ["gpc__cycles_elapsed.avg.per_second"],
    "ns": ["gpu__time_duration.sum"],
}
SCALE = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9, "Ghz": 1e9, "GHz": 1e9, "Mhz": 1e6, "MHz": 1e6,
         "cycle/nsecond": 1e9, "cycle/usecond": 1e6}
ENOUGH_NS = 1e6


def short(name):
    """Without return type, arguments of the call and spaces: tools differ in those."""
    depth, end = 0, len(name)
    for i, c in enumerate(name):
        if c == "(" and depth == 0 and not name.startswith("(anonymous", i):
            end = i
            break
        depth += (c == "<") - (c == ">")
    return re.sub(r"^void|\s|\(anonymousnamespace\)::", "", re.sub(r"\s", "", name[:end]))


def demangle(names):
    """As the run's own names were made: by the C++ library's demangler."""
    try:
        text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return dict(zip(names, names))
    return dict(zip(names, text.split("\n")))


def dims(text):
    return tuple(int(x) for x in re.findall(r"\d+", text))


def read_ncu(path, sections):
    lines = [line for line in open(path, newline="") if line.startswith('"')]
    rows = list(csv.reader(lines))
    head, units, rows = rows[0], rows[1], rows[2:]
    at = {}
    for key, names in METRICS.items():
        found = [head.index(n) for n in names if n in head]
        at[key] = found[0] if found else None
    nvtx = [i for i, h in enumerate(head) if "Range" in h]
    classes, name_at = {}, head.index("Kernel Name")
    plain = demangle(sorted({r[name_at] for r in rows}))
    for r in rows:
        r += [""] * (len(head) - len(r))
        here = " ".join(r[i] for i in nvtx)
        section = next((s for s in sections if s in here), None)
        key = (section, short(plain[r[name_at]]), dims(r[head.index("Grid Size")]), dims(r[head.index("Block Size")]))
        values = {}
        for m, i in at.items():
            try:
                values[m] = float(r[i].replace(",", "")) * SCALE.get(units[i], 1)
            except (TypeError, ValueError):
                values[m] = None
        classes.setdefault(key, []).append(values)
    return {key: pool(v) for key, v in classes.items()}


def pool(launches):
    """Mean over launches by their time, as the fit weighs them."""
    out = {"n": len(launches), "ns": statistics.fmean(v["ns"] for v in launches)}
    total = sum(v["ns"] for v in launches)
    for m in ("sm", "tensor", "read", "write", "clock"):
        out[m] = None if any(v[m] is None for v in launches) else sum(v[m] * v["ns"] for v in launches) / total
    out["dram"] = None if out["read"] is None or out["write"] is None else out["read"] + out["write"]
    return out


def read_run(folder):
    doc = json.load(open(folder + "/metrics.json"))
    trace = doc.get("trace_data") or doc
    kernels = trace["kernels"]
    out = []
    for r in trace["counters"]["kernels"]:
        k = kernels[r["kernel"]]
        out.append({"key": (r["stage"], short(k["name"]), tuple(k["grid"] or ()), tuple(k["block"] or ())), "name": k["short_name"],
                    "ns": k["mean_ns"], "exposure_ns": r["exposure_ns"], "quality": r["quality"], "sm": r["sm_pct"], "tensor": r["tensor_pct"],
                    "dram": r["dram_pct"], "clock": r["sm_clock_hz"], "error": r["standard_error"]})
    return trace["counters"], out


def number(v, digits=1):
    return "-" if v is None else f"{v:.{digits}f}"


def pair(ours, theirs):
    return f"{number(ours)} / {number(theirs)}"


def table(run, rows, ncu):
    differences = {"sm": [], "tensor": [], "dram": []}
    print(f"\n### {run}\n")
    print("| section | kernel | grid | us ours / ncu | exposure ms | SM ours / ncu | tensor ours / ncu | DRAM ours / ncu | error SM | clock GHz ours / ncu |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    alone, left = [], 0
    for r in rows:
        n = ncu.get(r["key"])
        if r["exposure_ns"] < ENOUGH_NS:
            continue
        if not n:
            alone.append(r)
            continue
        if r["quality"] == "unknown":
            left += 1
        for m, d in differences.items():
            if r[m] is not None and n[m] is not None:
                d.append((abs(r[m] - n[m]), r, n))
        ghz = pair(*(None if v is None else v / 1e9 for v in (r["clock"], n["clock"])))
        print(f"| {r['key'][0]} | `{r['name'][:60]}` | {','.join(map(str, r['key'][2]))} | {pair(r['ns'] / 1e3, n['ns'] / 1e3)} | "
              f"{r['exposure_ns'] / 1e6:.1f} | {pair(r['sm'], n['sm'])} | {pair(r['tensor'], n['tensor'])} | {pair(r['dram'], n['dram'])} | "
              f"{number(r['error']['sm_pct'], 2)} | {ghz} |")
    print(f"\n{len(alone)} classes with enough exposure were not seen by ncu; {left} are left out by the fit as too uncertain.")
    for r in alone[:12]:
        print(f"    not seen: {r['key'][0]} {r['key'][1][:100]} {r['key'][2:]} {r['exposure_ns'] / 1e6:.1f} ms")
    for m, d in differences.items():
        v = sorted(x[0] for x in d)
        same = [abs(r[m] - n[m] * n["ns"] / r["ns"]) for _, r, n in d]
        if v:
            print(f"{m}: over the run's own durations instead of ncu's: median {statistics.median(same):.2f} points")
        if v:
            print(f"{m}: {len(v)} classes, median absolute difference {statistics.median(v):.2f} points, "
                  f"90% within {v[int(0.9 * (len(v) - 1))]:.2f}, largest {v[-1]:.2f}")
        over = [x for x in d if x[0] > 5]
        for diff, r, n in sorted(over, key=lambda x: -x[0]):
            print(f"    {m} {diff:5.1f}  {r['key'][0]} {r['name'][:70]} {r['key'][2]} ours {number(r[m])} ncu {number(n[m])}, "
                  f"{r['ns'] / 1e3:.1f} / {n['ns'] / 1e3:.1f} us")


def main():
    sections = ["micro", "dense-prefill", "dense-decode", "dense-graph", "moe-prefill", "moe-decode", "moe-graph"]
    ncu = read_ncu(sys.argv[1], sections)
    print(f"ncu: {len(ncu)} classes, {sum(v['n'] for v in ncu.values())} launches; metrics read:",
          [m for m in METRICS if any(v.get(m) is not None for v in ncu.values())])
    for folder in sys.argv[2:]:
        try:
            counters, rows = read_run(folder)
        except (OSError, KeyError, ValueError) as e:
            print(f"{folder}: {e!r}")
            continue
        table(f"{folder}: every {counters['interval_ns'] / 1e3:.0f} us, {counters['samples']} samples", rows, ncu)


if __name__ == "__main__":
    main()
