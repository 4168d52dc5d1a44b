#!/usr/bin/env python3
"""Compares the native engine with llama.cpp on the same GGUF files, in turn in one run, and prints a table.

    tests/bench/llama_bench.py --llama-bench PATH [--files DIR] [--seconds 600] [--contexts 512,512,4096] [KIND or FILE.gguf]...

KIND: bf16, f16, f32, q8_0, q4_k_m (the default: all). Their files have the shape of Qwen3-0.6B with 4 of its 28 layers (2 for contexts
above 1024; --layers, --long-layers) and as large a part of its vocabulary; they are written to DIR if they are not there. These files
and the cache are larger than a last-level cache of 32 MiB. Builds nothing: PATH is a llama-bench that was built on this machine with
-DGGML_NATIVE=ON.

A round measures, for every context and file, prefill and decode of both programs, one directly after the other; the order alternates
from round to round. A context that is listed twice is measured twice per round. A pair is the median of one process of each program.
llama.cpp runs with -fa 0 and -fa 1 in its first pair, and then with the better one. Printed: medians of tokens per second, the ratio
ours / llama.cpp (geometric mean over the pairs) and its 95% interval (Student's t of the logarithms), and the number of
rows whose interval begins at 0.98 or above. No round starts if it would
probably end after --seconds. The files are first removed from the page cache and read by the engine, so that both programs map huge
pages where the file system has them. Run it on an idle machine: it warns if the load is above 0.5."""
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
import startup

# two-sided 95% quantiles of Student's t for 1, 2, ... degrees of freedom; beyond, the last one is an upper limit
T95 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09]
ENOUGH = 0.98  # the lower end of an interval is compared with it
LONG = 1024  # longer prompts are measured once per process
WARM = 256   # tokens of the prompt that warms up the engine
BURST = 16   # decoded tokens per sample


def ask(o, path, context, requests):
    load = {"op": "load", "model": path, "threads": o.threads, "max_context": context + o.new, "device": "cpu"}
    text = "".join(json.dumps(r) + "\n" for r in [load, *requests])
    done = subprocess.run([o.inferprof, "engine"], input=text, capture_output=True, text=True, check=True)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    for r in replies:
        if "error" in r:
            sys.exit("%s: %s" % (path, r["error"]))
    o.isa = replies[0]["isa"]
    return replies


def bursts(times_ms):
    """Tokens per second of every BURST tokens."""
    return [BURST * 1e3 / sum(times_ms[i:i + BURST]) for i in range(0, len(times_ms) - BURST + 1, BURST)]


def ours(o, path, context):
    """Medians of prefill and decode, in tokens per second."""
    ids = [i * 37 % 256 for i in range(context)]
    work = {"op": "infer", "prompt_ids": [ids], "max_new_tokens": o.new + 1, "ignore_eos": True}
    warm = {"op": "warmup", "prompt_ids": [ids[:WARM]], "max_new_tokens": 2, "ignore_eos": True}
    replies = ask(o, path, context + 1, [warm] + [work] * (1 if context > LONG else o.repeats))[2:]
    decode = [speed for r in replies for speed in bursts(r["token_ms"][1:])]
    return [statistics.median(context / r["prefill_ms"] * 1e3 for r in replies), statistics.median(decode)]


def theirs(o, path, context, chosen):
    """The same of llama-bench. chosen: the -fa settings of prefill and decode, which the first call sets."""
    best = []
    quick = context > LONG
    decode = ["-p", "0", "-n", str(BURST), "-d", str(context), "-r", str(o.new // BURST)]
    prefill = ["-p", str(context), "-n", "0", "-r", "1" if quick else str(o.repeats)] + (["--no-warmup"] if quick else [])
    for i, what in enumerate((prefill, decode)):
        done = subprocess.run([o.llama_bench, "-m", path, "-t", str(o.threads), "-fa", chosen[i] or "0,1", "-ngl", "0", "-o", "json",
                               *what], capture_output=True, text=True, check=True)
        rows = json.loads(done.stdout)
        top = max(rows, key=lambda r: statistics.median(r["samples_ts"]))
        chosen[i] = str(int(top["flash_attn"]))
        o.commit = o.llama_commit or top["build_commit"]
        best.append(statistics.median(top["samples_ts"]))
    return best


def interval(ratios):
    """Geometric mean and the ends of its 95% interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(mean), math.nan, math.nan
    t = T95[min(len(logs) - 2, len(T95) - 1)]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def own_commit():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def cpu_name():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def print_table(o, rows, load):
    print("inferprof %s (%s), llama.cpp %s%s; %s, %d threads, load before %.1f" %
          (own_commit(), o.isa, o.commit, " (%s)" % o.llama_flags if o.llama_flags else "", cpu_name(), o.threads, load))
    print()
    print("| weights | context | stage | ours, tokens/s | llama.cpp, tokens/s | -fa | ratio | 95% interval | pairs |")
    print("|---|---|---|---|---|---|---|---|---|")
    cells = enough = 0
    for (kind, n), (samples, chosen) in rows.items():
        for i, stage in enumerate(("prefill", "decode")):
            mean, low, high = interval([a[i] / b[i] for a, b in samples])
            cells += 1
            enough += low >= ENOUGH
            print("| %s | %d | %s | %.1f | %.1f | %s | %.3f | %.3f to %.3f | %d |" %
                  (os.path.basename(kind), n, stage, statistics.median(a[i] for a, _ in samples),
                   statistics.median(b[i] for _, b in samples), chosen[i], mean, low, high, len(samples)))
    print()
    print("Lower end of the interval at least %.2f: %d of %d rows." % (ENOUGH, enough, cells))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True, help="path of the llama-bench program")
    p.add_argument("--llama-commit", default="", help="its commit, if the program does not know it")
    p.add_argument("--llama-flags", default="", help="how it was built, for the table")
    p.add_argument("--inferprof", default="build/inferprof")
    p.add_argument("--files", default="/tmp", help="folder of the GGUF files")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--long-layers", type=int, default=2, help="layers of the files for contexts above %d" % LONG)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=600)
    p.add_argument("--contexts", default="512,512,4096", help="prompt tokens, also the context of decode")
    p.add_argument("--new", type=int, default=64, help="decoded tokens, a multiple of %d" % BURST)
    p.add_argument("--repeats", type=int, default=2, help="prompts per process")
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("files_or_kinds", nargs="*", default=list(make_gguf.KINDS))
    o = p.parse_args()
    if o.new < BURST or o.new % BURST:
        p.error("--new must be a multiple of %d" % BURST)
    return o


def measure(o, path, context, samples, chosen):
    """Measures one pair. Every second pair starts with llama.cpp."""
    if len(samples) % 2:
        b = theirs(o, path, context, chosen)
        samples.append((ours(o, path, context), b))
    else:
        a = ours(o, path, context)
        samples.append((a, theirs(o, path, context, chosen)))


def main():
    o = options()
    load = os.getloadavg()[0]
    if load > 0.5:
        print("warning: the load is %.1f; ratios on a busy machine mean little" % load, file=sys.stderr)
    contexts = [int(n) for n in o.contexts.split(",")]
    rows = {(f, n): ([], ["", ""]) for n in dict.fromkeys(contexts) for f in o.files_or_kinds}
    paths = {(f, n): make_gguf.make(o.files, f, o.long_layers if n > LONG else o.layers) if f in make_gguf.KINDS else f for f, n in rows}
    start = time.monotonic()
    for path in sorted(set(paths.values())):
        startup.evict(path)
        ask(o, path, WARM, [{"op": "warmup", "prompt_ids": [[1] * WARM], "max_new_tokens": 1, "ignore_eos": True}])
    rounds, longest = 0, 0.0
    while rounds < o.rounds and (rounds == 0 or time.monotonic() - start + longest < o.seconds):
        before = time.monotonic()
        for n in contexts:
            for f in o.files_or_kinds:
                measure(o, paths[f, n], n, *rows[f, n])
                print("round %d, %.0f s: %s, %d" % (rounds + 1, time.monotonic() - start, os.path.basename(f), n), file=sys.stderr)
        rounds += 1
        longest = time.monotonic() - before
    print_table(o, rows, load)


if __name__ == "__main__":
    main()
