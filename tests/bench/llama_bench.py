#!/usr/bin/env python3
"""Compares the native engine with llama.cpp on the same GGUF files, in turn in one run, and prints a table.

    tests/bench/llama_bench.py --llama-bench PATH [--files DIR] [--layers 7] [--seconds 690] [--prompt 512,4096] [KIND or FILE.gguf]...

KIND: bf16, f16, f32, q8_0, q4_k_m (the default: all). Their files have the shape of Qwen3-0.6B with `--layers` of its 28 layers and
as large a part of its vocabulary; they are written to DIR if they are not there. Builds nothing: PATH is a llama-bench that was built
on this machine with -DGGML_NATIVE=ON.

A round measures, for every file and context, prefill and decode of both programs, one directly after the other. llama.cpp runs with
-fa 0 and -fa 1, and the better one counts; from the second round on, prompts of more than 1024 tokens use the setting that was better
in the first round. Printed: medians of tokens per second, the ratio ours / llama.cpp (geometric mean over the rounds) and its 95%
interval (Student's t of the logarithms). No round starts after --seconds. Run it on an idle machine: it warns if the load is above
0.5."""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

import make_gguf

# two-sided 95% quantiles of Student's t for 1, 2, ... degrees of freedom; 1.96 beyond
T95 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09]
LONG = 1024  # prompts above this are measured once per round and program


def ours(o, path, prompt):
    work = {"prompt_ids": [[i * 37 % 256 for i in range(prompt)]], "ignore_eos": True}
    warm = {"prompt_ids": [work["prompt_ids"][0][:min(prompt, LONG)]], "ignore_eos": True}
    requests = [{"op": "load", "model": path, "threads": o.threads, "max_context": prompt + o.new, "device": "cpu"},
                {"op": "warmup", "max_new_tokens": 2, **warm}, {"op": "infer", "max_new_tokens": o.new, **work}]
    text = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([o.inferprof, "engine"], input=text, capture_output=True, text=True, check=True)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    for r in replies:
        if "error" in r:
            sys.exit("%s: %s" % (path, r["error"]))
    o.isa = replies[0]["isa"]
    return prompt / replies[-1]["prefill_ms"] * 1e3, (o.new - 1) / replies[-1]["decode_ms"] * 1e3


def theirs(o, path, prompt, chosen):
    """Prefill of `prompt` tokens, and decode at that depth. chosen: the -fa setting of both, filled by the first call."""
    best = []
    for i, what in enumerate((["-p", str(prompt), "-n", "0"], ["-p", "0", "-n", str(o.new), "-d", str(prompt)])):
        flash = chosen[i] if prompt > LONG and chosen[i] else "0,1"
        quick = ["--no-warmup"] if prompt > LONG else []
        done = subprocess.run([o.llama_bench, "-m", path, "-t", str(o.threads), "-r", "1", "-fa", flash, "-ngl", "0", "-o", "json",
                               *quick, *what], capture_output=True, text=True, check=True)
        rows = json.loads(done.stdout)
        top = max(rows, key=lambda r: r["avg_ts"])
        chosen[i] = str(int(top["flash_attn"]))
        o.commit = o.llama_commit or top["build_commit"]
        best.append(top["avg_ts"])
    return best


def interval(ratios):
    """Geometric mean and the ends of its 95% interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(mean), math.nan, math.nan
    t = T95[len(logs) - 2] if len(logs) - 2 < len(T95) else 1.96
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def own_commit():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def cpu_name():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def print_table(o, rows, rounds, load):
    print("inferprof %s (%s), llama.cpp %s%s; %s, %d threads, %d rounds, load before %.1f" %
          (own_commit(), o.isa, o.commit, " (%s)" % o.llama_flags if o.llama_flags else "", cpu_name(), o.threads, rounds, load))
    print()
    print("| file | context | stage | ours, tokens/s | llama.cpp, tokens/s | -fa | ratio | 95% interval |")
    print("|---|---|---|---|---|---|---|---|")
    for (f, n), (samples, chosen) in rows.items():
        for i, stage in enumerate(("prefill", "decode")):
            mean, low, high = interval([a[i] / b[i] for a, b in samples])
            print("| %s | %d | %s | %.1f | %.1f | %s | %.3f | %.3f to %.3f |" %
                  (os.path.basename(f), n, stage, statistics.median(a[i] for a, _ in samples),
                   statistics.median(b[i] for _, b in samples), chosen[i], mean, low, high))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True, help="path of the llama-bench program")
    p.add_argument("--llama-commit", default="", help="its commit, if the program does not know it")
    p.add_argument("--llama-flags", default="", help="how it was built, for the table")
    p.add_argument("--inferprof", default="build/inferprof")
    p.add_argument("--files", default="/tmp", help="folder of the GGUF files")
    p.add_argument("--layers", type=int, default=7)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=690)
    p.add_argument("--prompt", default="512,4096", help="prompt tokens, also the context of decode")
    p.add_argument("--new", type=int, default=64, help="decoded tokens")
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("files_or_kinds", nargs="*", default=list(make_gguf.KINDS))
    return p.parse_args()


def main():
    o = options()
    load = os.getloadavg()[0]
    if load > 0.5:
        print("warning: the load is %.1f; ratios on a busy machine mean little" % load, file=sys.stderr)
    start = time.monotonic()
    files = [make_gguf.make(o.files, f, o.layers) if f in make_gguf.KINDS else f for f in o.files_or_kinds]
    rows = {(f, int(n)): ([], ["", ""]) for f in files for n in o.prompt.split(",")}
    rounds, longest = 0, 0.0
    while rounds < o.rounds and (rounds == 0 or time.monotonic() - start + longest < o.seconds):
        before = time.monotonic()
        for (f, n), (samples, chosen) in rows.items():
            samples.append((ours(o, f, n), theirs(o, f, n, chosen)))
            print("round %d, %.0f s: %s, %d" % (rounds + 1, time.monotonic() - start, os.path.basename(f), n), file=sys.stderr)
        rounds += 1
        longest = time.monotonic() - before
    print_table(o, rows, rounds, load)


if __name__ == "__main__":
    main()
