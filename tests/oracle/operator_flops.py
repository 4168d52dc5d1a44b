#!/usr/bin/env python3
"""FLOPs and bytes from operator shapes equal TraceLens' tables and the formulas.

    operator_flops.py INFERPROF                     the tables in tests/data and in ../shared, if that exists
    operator_flops.py INFERPROF TABLES TRACES       TABLES/<trace>/<kind>.csv and TRACES/<trace>.json.gz

For each trace that AMD's TraceLens published tables for, imports the trace and compares operators.csv with the tables
row by row: calls, FLOPs and bytes; of GEMMs also kernel time and TFLOP/s. The formulas are computed here again from
TraceLens' own parameters.

TraceLens and inferprof differ in these points, which are checked as such:
- TraceLens adds M x N FLOPs for a bias. Here a GEMM is 2 M N K.
- A causal mask is half of the square in TraceLens: N^2/2 pairs. Here it is N (N + 1)/2.
- TraceLens counts an operator (aiter::gemm_a16w16) and the one it calls (aten::mm). Here the inner one alone is counted.
- TraceLens' kernel time includes memsets, ours does not; so does its TFLOP/s.
- TraceLens' TFLOP/s is the mean over calls. Here it is all FLOPs over all time.
- TraceLens' elements of attention have 2 bytes. Here they have the bytes of their type.
- TraceLens counts both gradients of a convolution, and reads the gradient of the result twice. Here only the
  gradients of the output mask count, and the gradient is read once.
- TraceLens leaves out the bytes of the bias of a convolution.
- TraceLens counts all layers of a server's attention alike. Here layers with different times have no FLOPs,
  because some of them have a sliding window that the trace does not contain.
"""
import ast
import csv
import glob
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

SHORT = {"c10::BFloat16": "bf16", "c10::Half": "f16", "float": "f32"}
BYTES = {"c10::BFloat16": 2, "c10::Half": 2, "float": 4}
SIZES = {"bf16": 2, "f16": 2, "f32": 4}
problems = []


def complain(where, what):
    problems.append(f"{where}: {what}")


def close(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def operators(program, trace):
    """{(name, detail): row} of operators.csv."""
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
    # TraceLens' mean is that of the calls' rates, not the rate of the sums. It is larger if the calls differ.
    least, most = (float(row.get(f"TFLOPS/s_{k}") or row["TFLOPS/s_mean"]) for k in ("min", "max"))
    if not least * 0.99 <= theirs <= most * 1.01:
        complain(where, f"{theirs:.2f} TFLOP/s, TraceLens {row['TFLOPS/s_mean']}")


def tensors(detail):
    """[([4, 3, 224, 224], "bf16"), ...] of a detail."""
    found = re.findall(r"\[([\d,]+)\](\w+)", detail.split(";")[0])
    return [([int(x) for x in dims.split(",")], kind) for dims, kind in found]


def counted(rows, words):
    """Operators with FLOPs whose name has one of the words: (name, detail, tensors, row)."""
    return [(n, d, tensors(d), r) for (n, d), r in rows.items() if r["flops"] and any(w in n for w in words)]


def as_list(text):
    return list(ast.literal_eval(text))


def conv_output(row):
    """[N, K, ...] of a convolution, by the definition in PyTorch's documentation."""
    x, w = as_list(row["param: input_shape"]), as_list(row["param: filter_shape"])
    stride, padding, dilation = (as_list(row[f"param: {k}"]) for k in ("stride", "padding", "dilation"))
    if row["param: transposed_conv"] == "True":
        extra = as_list(row["param: output_padding"])
        size = [(x[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w[i + 2] - 1) + extra[i] + 1
                for i in range(len(w) - 2)]
        return [x[0], w[1] * int(row["param: groups"])] + size
    size = [(x[i + 2] + 2 * padding[i] - dilation[i] * (w[i + 2] - 1) - 1) // stride[i] + 1 for i in range(len(w) - 2)]
    return [x[0], w[0]] + size


def check_conv(where, row, rows, calls):
    """`calls`: those of all rows with these shapes; TraceLens has more rows if it splits by other columns."""
    x, w, out = as_list(row["param: input_shape"]), as_list(row["param: filter_shape"]), conv_output(row)
    backward = row["name"].endswith("_backward")
    wanted = [out, x, w] if backward else [x, w]
    lists = ["[" + ",".join(map(str, as_list(row[f"param: {k}"]))) + "]" for k in ("stride", "padding", "dilation")]
    found = [r for r in counted(rows, ["convolution"]) if [t[0] for t in r[2]][:len(wanted)] == wanted and
             ("_backward" in r[0]) == backward and all(v in r[1].split(";")[1].split() for v in lists)]
    if len(found) != 1:
        return complain(where, f"{len(found)} operators have these shapes and FLOPs")
    _, detail, shapes, ours = found[0]
    size = SIZES[shapes[0][1]]
    one = 2 * math.prod(x if row["param: transposed_conv"] == "True" else out) * math.prod(w[1:])
    n = int(ours["calls"])
    flops, moved = float(ours["flops"]) / n, float(ours["bytes"]) / n
    if n != calls:
        complain(where, f"{n} calls, TraceLens {calls}")
    if not backward:
        theirs, bias = one, sum(math.prod(s) for s, _ in shapes[2:])
        expected = size * (math.prod(x) + math.prod(w) + math.prod(out) + bias)
        their_bytes = expected - size * bias
    else:
        mask = ast.literal_eval("[" + detail.rsplit("[", 1)[1])
        theirs, expected = 2 * one, size * (math.prod(out) + sum(mask[:2]) * (math.prod(x) + math.prod(w)))
        their_bytes = size * 2 * (math.prod(out) + math.prod(x) + math.prod(w))
        one *= sum(mask[:2])
    for what, a, b in (("FLOPs", flops, one), ("FLOPs of TraceLens", float(row["GFLOPS_first"]) * 1e9, theirs),
                       ("bytes", moved, expected),
                       ("bytes of TraceLens", float(row["Data Moved (MB)_first"]) * 2**20, their_bytes)):
        if not close(a, b):
            complain(where, f"{a} {what}, by the formula {b}")
    return None


def check_attention(where, row, rows):
    batch, heads, queries, keys = (int(row[f"param: {x}"]) for x in ("B", "H_Q", "N_Q", "N_KV"))
    size, value_size = int(row["param: d_h_qk"]), int(row["param: d_h_v"])
    causal = row["param: causal"] == "True"
    shapes = ([batch, queries, heads, size], [batch, heads, queries, size])
    found = [r for r in counted(rows, ["attention", "mha", "attn"]) if r[2][0][0] in shapes and
             keys in r[2][1][0] and "backward" not in r[0]]
    if len(found) != 1:
        return complain(where, f"{len(found)} operators have these shapes and FLOPs")
    _, _, kinds, ours = found[0]
    calls = int(ours["calls"])
    flops, moved = float(ours["flops"]) / calls, float(ours["bytes"]) / calls
    if "name_count" in row and calls != int(row["name_count"]):
        complain(where, f"{calls} calls, TraceLens {row['name_count']}")
    pairs = queries * (queries + 1) / 2 if causal else queries * keys
    if causal and queries != keys:
        complain(where, "a causal mask that is not square: not in these tables")
    if not close(flops, 2 * batch * heads * pairs * (size + value_size)):
        complain(where, f"{flops} FLOPs, by the formula {2 * batch * heads * pairs * (size + value_size)}")
    theirs = 2 * batch * heads * queries * keys * (size + value_size) / (2 if causal else 1)
    if not close(theirs, float(row["GFLOPS_first"]) * 1e9):
        complain(where, f"TraceLens {row['GFLOPS_first']} GFLOPs, its formula {theirs}")
    if not close(moved * 2 / SIZES[kinds[0][1]], float(row["Data Moved (MB)_first"]) * 2**20):
        complain(where, f"{moved} bytes, TraceLens {row['Data Moved (MB)_first']} MiB")
    return None


def check_server_attention(where, row, rows):
    """One call has all sequences of a step, whose sums are in its label (TraceLens' parameters)."""
    c_sq, c_sk, c_sqsq, c_sqsk, g_sq, g_sk, g_sqsq, g_sqsk = (
        float(row[f"param: {x}"]) for x in ("c_sq", "c_sk", "c_sqsq", "c_sqsk", "g_sq", "g_sk", "g_sqsq", "g_sqsk"))
    heads, kv_heads, size, value_size = (float(row[f"param: {x}"]) for x in ("H_Q", "H_KV", "d_h_qk", "d_h_v"))
    same = [r for (n, d), r in rows.items() if n == row["name"] and d.startswith(detail_start(row))]
    if len(same) != 1:
        return complain(where, f"{len(same)} operators have these shapes")
    ours = same[0]
    if row["name"].startswith("vllm::"):  # the layers of these traces (gpt-oss) take turns with a window
        if ours["flops"]:
            complain(where, "has FLOPs, although only some layers have a window")
        return None
    calls = int(ours["calls"])
    pairs = c_sqsk - (c_sqsq - c_sq) / 2 + g_sqsk - (g_sqsq - g_sq) / 2
    theirs = 2 * heads * (size + value_size) * (c_sqsk - c_sqsq / 2 + g_sqsk)
    moved = 2 * (size + value_size) * ((c_sq + g_sq) * heads + (c_sk + g_sk) * kv_heads)
    for what, a, b in (("calls", calls, int(row["name_count"])),
                       ("FLOPs", float(ours["flops"] or 0) / calls, 2 * heads * (size + value_size) * pairs),
                       ("FLOPs of TraceLens", float(row["GFLOPS_first"]) * 1e9, theirs),
                       ("bytes", float(ours["bytes"] or 0) / calls, moved),
                       ("bytes of TraceLens", float(row["Data Moved (MB)_first"]) * 2**20, moved)):
        if not close(a, b):
            complain(where, f"{a} {what}, by the formula {b}")
    return None


def detail_start(row):
    dims, types = ast.literal_eval(row["Input Dims_first"]), ast.literal_eval(row["Input type_first"])
    return "[" + ",".join(map(str, dims[0])) + "]" + SHORT[types[0]]


KINDS = ("GEMM", "SDPA_fwd", "CONV_fwd", "CONV_bwd", "InferenceAttention_fwd")


def tables_of(folder, traces):
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        trace = os.path.join(traces, os.path.basename(path) + ".json.gz")
        for kind in KINDS:
            table = os.path.join(path, f"{kind}.csv")
            if os.path.exists(table):
                yield trace, kind, list(csv.DictReader(open(table, newline="", encoding="utf-8")))


def tables():
    """(trace, kind, rows): the tables in tests/data, and all those in ../shared if it is there."""
    for path in sorted(glob.glob("tests/data/kineto/tracelens_*.csv")):
        by_trace = defaultdict(list)
        for row in csv.DictReader(open(path, newline="", encoding="utf-8")):
            by_trace[row["trace"]].append(row)
        for trace, rows in by_trace.items():
            found = [f"{d}/{trace}.json.gz" for d in ("tests/data/kineto", "../shared/data/kineto")]
            found = [f for f in found if os.path.exists(f)]
            if found:
                yield found[0], os.path.basename(path)[10:-4], rows
    yield from tables_of("../shared/data/kineto_ref_tracelens", "../shared/data/kineto")


def shapes_recorded(trace):
    """Names of operators with shapes in the trace: TraceLens adds those of a graph's capture."""
    with gzip.open(trace, "rb") as f:
        events = json.load(f)["traceEvents"]
    return {(e["name"], str(e["args"]["Input Dims"])) for e in events if "Input Dims" in e.get("args", {})}


def check_table(kind, table, rows, recorded, trace):
    checked, same_shapes = 0, defaultdict(int)
    for row in table:
        same_shapes[(row["name"], row["Input Dims_first"])] += int(row.get("name_count", 0) or 0)
    for row in table:
        where = f"{os.path.basename(trace)}: {row['name']} {row['Input Dims_first']}"
        if (row["name"], row["Input Dims_first"]) not in recorded or not float(row["GFLOPS_first"] or 0):
            continue
        checked += 1
        if kind.startswith("CONV"):
            check_conv(where, row, rows, same_shapes[(row["name"], row["Input Dims_first"])])
        elif kind == "SDPA_fwd":
            check_attention(where, row, rows)
        elif kind == "InferenceAttention_fwd":
            check_server_attention(where, row, rows)
        else:
            checked -= not check_gemm_row(where, row, rows)
    print(f"{trace}: {kind}, {checked} of {len(table)} rows compared")
    return checked


def check_gemm_row(where, row, rows):
    ours = rows.get((row["name"], detail_of(row)))
    if not ours:
        complain(where, "no such operator in operators.csv")
    elif not ours["flops"] and not row["name"].startswith("aten::"):
        return False  # the aten operator inside is counted
    elif not ours["flops"]:
        complain(where, "has no FLOPs")
    else:
        check_gemm(where, row, ours)
    return True


def main():
    checked, of_trace = 0, {}
    found = tables_of(sys.argv[2], sys.argv[3]) if len(sys.argv) > 2 else tables()
    for trace, kind, table in found:
        if trace not in of_trace:
            of_trace[trace] = operators(sys.argv[1], trace), shapes_recorded(trace)
        checked += check_table(kind, table, *of_trace[trace], trace)
    print("\n".join(problems))
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
