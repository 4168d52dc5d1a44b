#!/usr/bin/env python3
"""Roofline time and hard bound of a server's steps, computed a second time from the model's config and the trace's labels.

    stage_floor.py INFERPROF SCRATCH_DIR CONFIG TRACE...

CONFIG is the config.json of a dense decoder with Qwen3's layers in bf16, TRACE a torch.profiler file whose steps have vLLM's
labels. Shares no code with inferprof: formulas in docs/metrics.md. Compared with metrics.json and stages.csv, for one GPU
and for tensor and pipeline parallel ranks: FLOPs, bytes, roofline time, hard bound, MFU, MBU and distance."""
import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

PEAK, BANDWIDTH = 1000e12, 4e12  # FLOP/s and bytes/s, given to the report
LABEL = re.compile(r"execute_\d+_context_(\d+)\(sq(\d+)sk(\d+)sqsq\d+sqsk\d+\)_generation_(\d+)\(sq(\d+)sk(\d+)sqsq\d+sqsk\d+\)")


def operators(c, batch, tokens, keys, tp):
    """(FLOPs, bytes) of every operator of a pass on one of `tp` GPUs: `tokens` new tokens per sequence, which has `keys` keys
    afterwards. Matrices, heads and vocabulary are divided, norms are not."""
    for flops, size, divided in all_operators(c, batch, tokens, keys):
        yield (flops / tp, size / tp) if divided else (flops, size)


def all_operators(c, batch, tokens, keys):
    hidden, inner, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    rows, past, size = batch * tokens, keys - tokens, 2
    yield 0, size * rows * hidden, True  # embedding: the rows of the tokens
    for _ in range(c["num_hidden_layers"]):
        for n in (hidden, d, d, hidden):  # norms: input, queries, keys, after attention
            yield 0, size * n, False
        for inputs, outputs in ((hidden, heads * d), (hidden, kv * d), (hidden, kv * d), (heads * d, hidden),
                                (hidden, inner), (hidden, inner), (inner, hidden)):
            yield 2 * rows * inputs * outputs, size * inputs * outputs, True
        pairs = sum(past + i for i in range(1, tokens + 1))
        yield 4 * batch * heads * d * pairs, size * 2 * kv * d * batch * (past + tokens), True  # cache read, and written
    yield 0, size * hidden, False
    yield 2 * batch * hidden * vocab, size * hidden * vocab, True  # the last token of each sequence


def steps_of(path):
    with gzip.open(path) as f:
        events = json.load(f)["traceEvents"]
    for e in events:
        m = LABEL.match(e.get("name", "")) if e.get("cat") == "user_annotation" else None
        if m:
            context, tokens, keys, generation, made, made_keys = map(int, m.groups())
            if not generation:
                yield "prefill", context, tokens, keys
            elif not context:
                yield "decode", generation, made, made_keys


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def check(label, stage, row, costs, share):
    n = len(costs)
    flops = share * sum(f for ops in costs for f, _ in ops) / n
    size = share * sum(b for ops in costs for _, b in ops) / n
    floor = share * sum(max(f / PEAK, b / BANDWIDTH) for ops in costs for f, b in ops) / n
    seconds = stage["time_ms"] / 1e3
    want = {"flops": flops, "bytes": size, "floor_ms": floor * 1e3, "hard_bound_ms": max(flops / PEAK, size / BANDWIDTH) * 1e3,
            "mfu": flops / PEAK / seconds, "mbu": size / BANDWIDTH / seconds, "distance": seconds / floor}
    for key, value in want.items():
        if not near(stage[key], value) or not near(float(row[key]), value):
            raise SystemExit(f"{label}: {key}: {stage[key]} in metrics.json, {row[key]} in stages.csv, {value} computed here")
    if want["hard_bound_ms"] > want["floor_ms"] * (1 + 1e-9):
        raise SystemExit(f"{label}: the hard bound is above the roofline time")


def run(inferprof, scratch, config, path):
    with open(config, encoding="utf-8") as f:
        model = json.load(f)
    steps = {}
    for name, batch, tokens, keys in steps_of(path):
        steps.setdefault(name, []).append((batch, tokens // batch, round(keys / batch)))
    folder = os.path.join(scratch, "stage_floor")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([inferprof, "import", "-q", "-o", folder, path], check=True, stdout=subprocess.DEVNULL)
    for options, tp, pp in ([], 1, 1), (["--tp", "4"], 4, 1), (["--tp", "2", "--pp", "3"], 2, 3):
        subprocess.run([inferprof, "report", "-q", "-o", folder, "--model", config, "--peak-tflops", str(PEAK / 1e12), "--peak-gbps",
                        str(BANDWIDTH / 1e9), *options, folder], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "metrics.json"), encoding="utf-8") as f:
            stages = {s["name"]: s for s in json.load(f)["stages"]}
        with open(os.path.join(folder, "stages.csv"), encoding="utf-8") as f:
            rows = {r["stage"]: r for r in csv.DictReader(f)}
        for name, passes in steps.items():
            costs = [list(operators(model, *one, tp)) for one in passes]
            check(f"{os.path.basename(path)} {' '.join(options)} {name}", stages[name], rows[name], costs, 1 / pp)
    print(f"{os.path.basename(path)}: {', '.join(f'{len(c)} {n}' for n, c in steps.items())}")


def main():
    inferprof, scratch, config, *traces = sys.argv[1:]
    for path in traces:
        run(inferprof, scratch, config, path)


main()
