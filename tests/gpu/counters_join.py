"""counters_join.py NCU.csv RUN_FOLDER...: compares fitted counters of runs of counters_classes.py with Nsight Compute's.

NCU.csv is `ncu --csv --page raw --nvtx --print-kernel-base mangled` of the same program. Classes are joined by section, demangled name,
grid and block. Prints for each run the median absolute difference over classes with more than 1 ms of exposure, and a Markdown table:
every operator of the section micro, the most exposed classes of the other sections, and every class with a figure more than 5 points
from ncu's, with the reason. Reasons are derived from the figures of the two tools alone (reason()), in this order:

ncu's window  ncu's duration of a kernel starts before its first block and ends after its last (by how much: window()); the figures
              agree within 5 points when that is subtracted
ncu's time    the kernel took longer or shorter under ncu; the figures agree when ncu's is divided by the run's own duration
shapes        launches of the class differ in duration by more than 1.3 times under ncu: it has several shapes, which the two tools
              weigh differently
our error     within three of our own standard errors
L2            an operator of micro, repeated in the run and launched once under ncu, moves less data than the L2 cache holds: its
              memory traffic depends on what ran before
"""
import collections
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
SECTIONS = ["micro", "dense-prefill", "dense-decode", "dense-graph", "moe-prefill", "moe-decode", "moe-graph"]
ENOUGH_NS = 1e6
FAR = 5  # points
SHORT_NS = 12e3
SHOWN = 7  # classes shown per section other than micro, whatever their difference
L2_BYTES, DRAM_BYTES_PER_S = 50e6, 4.8e12  # H200
FIGURES = {"sm": "SM", "tensor": "tensor", "dram": "DRAM"}
ERRORS = {"sm": ["sm_pct"], "tensor": ["tensor_pct"], "dram": ["dram_read_pct", "dram_write_pct"]}


def short(name):
    """Removes return type, call arguments and spaces, in which the tools differ."""
    depth, end = 0, len(name)
    for i, c in enumerate(name):
        if c == "(" and depth == 0 and not name.startswith("(anonymous", i):
            end = i
            break
        depth += (c == "<") - (c == ">")
    return re.sub(r"^void|\s|\(anonymousnamespace\)::", "", re.sub(r"\s", "", name[:end]))


def demangle(names):
    """Demangles as inferprof does: with the C++ library's demangler."""
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
    """Mean over launches weighted by duration, as in the fit."""
    out = {"n": len(launches), "ns": statistics.fmean(v["ns"] for v in launches), "longest": max(v["ns"] for v in launches),
           "shortest": min(v["ns"] for v in launches)}
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
                    "ns": r["mean_ns"], "exposure_ns": r["exposure_ns"], "quality": r["quality"], "sm": r["sm_pct"], "tensor": r["tensor_pct"],
                    "dram": r["dram_pct"], "clock": r["sm_clock_hz"], "error": r["standard_error"]})
    return trace["counters"], out


def number(v, digits=1):
    return "-" if v is None else f"{v:.{digits}f}"


def pair(ours, theirs):
    return f"{number(ours)} / {number(theirs)}"


def error_of(r, m):
    parts = [r["error"][e] for e in ERRORS[m]]
    return None if None in parts else sum(e * e for e in parts) ** 0.5


def over_own_time(r, n, m):
    return min(n[m] * n["ns"] / r["ns"], 100)


def window(both):
    """By how many ns ncu's durations are longer: median over short kernels, where the effect is largest."""
    return statistics.median(n["ns"] - r["ns"] for r, n, _ in both if n["ns"] < SHORT_NS and n["longest"] < 1.3 * n["shortest"])


def reason(r, n, m, window_ns):
    """Why figure m is far from ncu's; None if no known reason applies."""
    if abs(r[m] - min(n[m] * n["ns"] / max(n["ns"] - window_ns, 1), 100)) <= FAR:
        return f"ncu's window {100 * window_ns / (n['ns'] - window_ns):+.0f}%"
    if abs(r[m] - over_own_time(r, n, m)) <= FAR:
        return f"ncu's time {100 * (n['ns'] / r['ns'] - 1):+.0f}%"
    if n["longest"] > 1.3 * n["shortest"]:
        return f"shapes: {n['shortest'] / 1e3:.0f} to {n['longest'] / 1e3:.0f} us"
    error = error_of(r, m)
    if error is not None and abs(r[m] - over_own_time(r, n, m)) <= 3 * error:
        return f"our error {error:.1f}"
    moved = max(r["dram"] or 0, n["dram"] or 0) / 100 * DRAM_BYTES_PER_S * n["ns"] / 1e9
    if m == "dram" and r["key"][0] == "micro" and moved < L2_BYTES:
        return f"L2: {moved / 1e6:.1f} MB per launch"
    return None


def differences(rows, ncu):
    """(row, ncu's values, {figure: points}) of classes with enough exposure in both tools; rows that ncu lacks"""
    both, alone = [], []
    for r in rows:
        if r["exposure_ns"] < ENOUGH_NS:
            continue
        n = ncu.get(r["key"])
        if n:
            both.append((r, n, {m: abs(r[m] - n[m]) for m in FIGURES if r[m] is not None and n[m] is not None}))
        else:
            alone.append(r)
    return both, alone


def reasons(r, n, points, window_ns):
    return "; ".join(f"{FIGURES[m]}: {reason(r, n, m, window_ns) or 'unexplained'}" for m, d in points.items() if d > FAR)


def line(r, n, points, window_ns):
    values = " | ".join(pair(r[m], n[m]) for m in FIGURES)
    return (f"| {r['key'][0]} | `{r['name'][:60]}` | {','.join(map(str, r['key'][2]))} | {pair(r['ns'] / 1e3, n['ns'] / 1e3)} | "
            f"{r['exposure_ns'] / 1e6:.1f} | {values} | {number(r['error']['sm_pct'], 2)} | {reasons(r, n, points, window_ns)} |")


def chosen(both):
    """The rows to show; `both` is in order of exposure."""
    seen = {}
    for r, n, points in both:
        section = r["key"][0]
        seen[section] = seen.get(section, 0) + bool(points)
        if points and (section == "micro" or seen[section] <= SHOWN or max(points.values()) > FAR):
            yield r, n, points


def kind(why):
    return "unexplained" if why is None else " ".join(why.split(":")[0].split()[:2])


def summary(both, alone, window_ns):
    unknown = sum(not points for _, _, points in both)
    print(f"{len(both)} classes with more than 1 ms of exposure in both; {unknown} of them too uncertain in the fit; "
          f"{len(alone)} more not seen by ncu; ncu's times are longer by {window_ns / 1e3:.2f} us")
    for m, name in FIGURES.items():
        v = sorted(p[m] for _, _, p in both if m in p)
        own = [abs(r[m] - over_own_time(r, n, m)) for r, n, p in both if m in p]
        far = [reason(r, n, m, window_ns) for r, n, p in both if p.get(m, 0) > FAR]
        kinds = dict(collections.Counter(kind(why) for why in far))
        print(f"{name}: {len(v)} classes, median absolute difference {statistics.median(v):.2f} points, 90% within {v[int(0.9 * (len(v) - 1))]:.2f}, "
              f"largest {v[-1]:.2f}; over the run's own durations {statistics.median(own):.2f}; more than {FAR} points: {len(far)} {kinds}")


def table(run, rows, ncu):
    both, alone = differences(rows, ncu)
    print(f"\n### {run}\n")
    window_ns = window(both)
    summary(both, alone, window_ns)
    order = {s: i for i, s in enumerate(SECTIONS)}
    print("\n| section | kernel | grid | us, ours / ncu | exposure ms | SM %, ours / ncu | tensor % | DRAM % | error of SM | differs because |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(chosen(both), key=lambda x: (order[x[0]["key"][0]], -x[0]["exposure_ns"])):
        print(line(*row, window_ns))
    for r in alone[:12]:
        print(f"<!-- not seen by ncu: {r['key'][0]} {r['key'][1][:100]} {r['key'][2:]} {r['exposure_ns'] / 1e6:.1f} ms -->")


def main():
    ncu = read_ncu(sys.argv[1], SECTIONS)
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
