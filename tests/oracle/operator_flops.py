#!/usr/bin/env python3
"""operator_flops.py INFERPROF: FLOPs and bytes from operator shapes equal TraceLens' tables and the formulas.

For each trace that AMD's TraceLens published tables for (tests/data/kineto/tracelens_*.csv; all columns in
../shared/data/kineto_ref_tracelens if that exists), imports the trace and compares operators.csv with the tables row by
row: calls, FLOPs, bytes, kernel time and TFLOP/s. The formulas are computed here again from TraceLens' own parameters.

TraceLens and inferprof differ in these points, which are checked as such:
- TraceLens adds M x N FLOPs for a bias. Here a GEMM is 2 M N K.
- A causal mask is half of the square in TraceLens: N^2/2 pairs. Here it is N (N + 1)/2.
- TraceLens counts an operator (aiter::gemm_a16w16) and the one it calls (aten::mm). Here the inner one alone is counted.
- TraceLens' kernel time includes memsets, ours does not; so does its TFLOP/s.
"""
import ast
import csv
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

SHORT = {"c10::BFloat16": "bf16", "c10::Half": "f16", "float": "f32"}
BYTES = {"c10::BFloat16": 2, "c10::Half": 2, "float": 4}
problems = []


def complain(where, what):
    problems.append(f"{where}: {what}")


def close(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def operators(program, trace):
    """{(name, detail): row} of operators.csv, with numbers for those that have FLOPs."""
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "run")
        subprocess.run([program, "import", "-q", "-o", folder, trace], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "operators.csv"), newline="", encoding="utf-8") as f:
            return {(r["operator"], r["detail"]): r for r in csv.DictReader(f) if r["detail"]}


def detail_of(row):
    dims, types = ast.literal_eval(row["Input Dims_first"]), ast.literal_eval(row["Input type_first"])
    return " ".join("[" + ",".join(map(str, d)) + "]" + SHORT[t] for d, t in zip(dims, types) if d)


def kernel_and_memset_us(row):
    """Kernel time and memset time, all calls together, of TraceLens' list of kernels."""
    text = re.sub(r"np\.float64\(([^)]*)\)", r"\1", row["kernel_details__summarize_kernel_stats"])
    kernels = ast.literal_eval(text)
    memsets = sum(k["total_duration_us"] for k in kernels if k["name"].startswith("Mem"))
    return sum(k["total_duration_us"] for k in kernels) - memsets, memsets


def check_gemm(where, row, ours):
    b, m, n, k = (int(row[f"param: {x}"]) for x in "BMNK")
    bias = row["param: bias"] == "True"
    types = ast.literal_eval(row["Input type_first"])
    size = BYTES[types[1 if row["name"] == "aten::addmm" else 0]]
    calls = int(ours["calls"])
    flops, moved = float(ours["flops"]) / calls, float(ours["bytes"]) / calls
    if calls != int(row["name_count"]):
        complain(where, f"{calls} calls, TraceLens {row['name_count']}")
    if not close(flops, 2 * b * m * n * k):
        complain(where, f"{flops} FLOPs, 2BMNK is {2 * b * m * n * k}")
    if not close(flops + (b * m * n if bias else 0), float(row["GFLOPS_first"]) * 1e9):
        complain(where, f"{flops} FLOPs, TraceLens {row['GFLOPS_first']} G")
    if not close(moved, size * (b * m * k + b * k * n + b * m * n + (n if bias else 0))):
        complain(where, f"{moved} bytes by the formula")
    if not close(moved, float(row["Data Moved (MB)_first"]) * 2**20):
        complain(where, f"{moved} bytes, TraceLens {row['Data Moved (MB)_first']} MiB")
    check_rate(where, row, float(ours["flops"]), float(ours["device_ns"]), bias * b * m * n * calls)


def check_rate(where, row, flops, device_ns, bias_flops):
    """TFLOP/s: ours is over kernels alone. With memsets and bias added, it is TraceLens' rate."""
    kernels_us, memsets_us = kernel_and_memset_us(row)
    if not close(device_ns / 1000, kernels_us, 1e-4):
        complain(where, f"{device_ns / 1000:.3f} us on the device, TraceLens' kernels {kernels_us:.3f}")
    theirs = (flops + bias_flops) / ((device_ns / 1000 + memsets_us) * 1e6)
    if not close(theirs, float(row["TFLOPS/s_mean"]), 0.01):  # the mean of the calls' rates, not the rate of the sums
        complain(where, f"{theirs:.2f} TFLOP/s, TraceLens {row['TFLOPS/s_mean']}")


def check_attention(where, row, ours):
    batch, heads, queries, keys = (int(row[f"param: {x}"]) for x in ("B", "H_Q", "N_Q", "N_KV"))
    size = int(row["param: d_h_qk"]) + int(row["param: d_h_v"])
    causal = row["param: causal"] == "True"
    calls = int(ours["calls"])
    flops, moved = float(ours["flops"]) / calls, float(ours["bytes"]) / calls
    pairs = queries * (queries + 1) / 2 if causal else queries * keys
    if causal and queries != keys:
        complain(where, "a causal mask that is not square: not in these tables")
    if not close(flops, 2 * batch * heads * pairs * size):
        complain(where, f"{flops} FLOPs, by the formula {2 * batch * heads * pairs * size}")
    theirs = 2 * batch * heads * queries * keys * size / (2 if causal else 1)
    if not close(theirs, float(row["GFLOPS_first"]) * 1e9):
        complain(where, f"TraceLens {row['GFLOPS_first']} GFLOPs, its formula {theirs}")
    if not close(moved, float(row["Data Moved (MB)_first"]) * 2**20):
        complain(where, f"{moved} bytes, TraceLens {row['Data Moved (MB)_first']} MiB")


def attention_row(rows, row):
    """TraceLens names the outer operator; ours is the one it calls, with [batch, tokens, heads, size]."""
    b, h, n, d = (row[f"param: {x}"] for x in ("B", "H_Q", "N_Q", "d_h_qk"))
    for (name, detail), ours in rows.items():
        if name == "aten::_flash_attention_forward" and detail.startswith(f"[{b},{n},{h},{d}]"):
            return ours
    return None


def tables():
    """(trace, kind, rows), of the folder of published tables if it is there, else of the copies in tests/data."""
    shared = "../shared/data/kineto_ref_tracelens"
    for folder in sorted(glob.glob(os.path.join(shared, "*"))):
        trace = f"../shared/data/kineto/{os.path.basename(folder)}.json.gz"
        for kind in ("GEMM", "SDPA_fwd"):
            path = os.path.join(folder, f"{kind}.csv")
            if os.path.exists(path):
                yield trace, kind, list(csv.DictReader(open(path, newline="", encoding="utf-8")))
    if os.path.isdir(shared):
        return
    for path in sorted(glob.glob("tests/data/kineto/tracelens_*.csv")):
        by_trace = defaultdict(list)
        for row in csv.DictReader(open(path, newline="", encoding="utf-8")):
            by_trace[row["trace"]].append(row)
        for trace, rows in by_trace.items():
            yield f"tests/data/kineto/{trace}.json.gz", os.path.basename(path)[10:-4], rows


def shapes_recorded(trace):
    """Names of operators with shapes in the trace: TraceLens adds those of a graph's capture."""
    with gzip.open(trace, "rb") as f:
        events = json.load(f)["traceEvents"]
    return {(e["name"], str(e["args"]["Input Dims"])) for e in events if "Input Dims" in e.get("args", {})}


def check_table(program, trace, kind, table):
    rows, recorded, checked = operators(program, trace), shapes_recorded(trace), 0
    for row in table:
        where = f"{os.path.basename(trace)}: {row['name']} {row['Input Dims_first']}"
        if kind == "SDPA_fwd":
            ours = attention_row(rows, row)
        elif (row["name"], row["Input Dims_first"]) not in recorded:
            continue
        else:
            ours = rows.get((row["name"], detail_of(row)))
        if not ours:
            complain(where, "no such operator in operators.csv")
        elif not ours["flops"] and not row["name"].startswith("aten::"):
            continue  # the aten operator inside is counted
        elif not ours["flops"]:
            complain(where, "has no FLOPs")
        else:
            (check_gemm if kind == "GEMM" else check_attention)(where, row, ours)
            checked += 1
    print(f"{trace}: {kind}, {checked} of {len(table)} rows compared")
    return checked


def main():
    checked = sum(check_table(sys.argv[1], *t) for t in tables())
    print("\n".join(problems))
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
