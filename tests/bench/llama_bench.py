#!/usr/bin/env python3
"""Compares the native engine with llama.cpp on the same GGUF files, interleaved in one run.

    tests/bench/llama_bench.py --llama-bench PATH [--threads N] [--prompt 512,4096] [--new 32] [--rounds 8] FILE.gguf...

Builds nothing; tests/bench/make_gguf.py writes files. Each round runs, for every file and context, our engine and llama-bench with
-fa 0 and -fa 1, in turn, each after a warm-up; llama.cpp's better setting counts. Prints tokens per second (medians) and the ratio
ours / llama.cpp of prefill and decode with its 95% interval: bootstrap over the rounds' ratios. --seconds ends after the round in
which that time has passed. Run it on an idle machine: it warns if the load is above 0.5."""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

STEPS = 2000  # bootstrap samples


def ours(binary, path, threads, prompt, new):
    work = {"prompt_ids": [[i * 37 % 256 for i in range(prompt)]], "ignore_eos": True}
    requests = [{"op": "load", "model": path, "threads": threads, "max_context": prompt + new},
                {"op": "warmup", "max_new_tokens": 2, **work}, {"op": "infer", "max_new_tokens": new, **work}]
    text = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([binary, "engine"], input=text, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        sys.exit("%s: %s" % (path, answer["error"]))
    return prompt / answer["prefill_ms"] * 1e3, (new - 1) / answer["decode_ms"] * 1e3


def theirs(binary, path, threads, prompt, new):
    """Prefill of `prompt` tokens, and decode at that depth; the better of both attention kernels."""
    best = []
    for what in (["-p", str(prompt), "-n", "0"], ["-p", "0", "-n", str(new), "-d", str(prompt)]):
        done = subprocess.run([binary, "-m", path, "-t", str(threads), "-r", "1", "-fa", "0,1", "-o", "json", *what],
                              capture_output=True, text=True, check=True)
        best.append(max(r["avg_ts"] for r in json.loads(done.stdout)))
    return best


def interval(ratios):
    random.seed(1)
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(STEPS))
    return medians[int(STEPS * 0.025)], medians[int(STEPS * 0.975) - 1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True, help="path of the llama-bench program")
    p.add_argument("--inferprof", default="build/inferprof")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=float("inf"))
    p.add_argument("--prompt", default="512,4096", help="prompt tokens, also the context of decode")
    p.add_argument("--new", type=int, default=32, help="decoded tokens")
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("files", nargs="+")
    o = p.parse_args()
    if os.getloadavg()[0] > 0.5:
        print("warning: the load is %.1f; ratios on a busy machine mean little" % os.getloadavg()[0], file=sys.stderr)
    cases = [(f, int(n)) for f in o.files for n in o.prompt.split(",")]
    rows = {c: [] for c in cases}
    start = time.monotonic()
    for r in range(o.rounds):
        if time.monotonic() - start > o.seconds:
            print("stopped after %d rounds" % r, file=sys.stderr)
            break
        for f, n in cases:
            rows[f, n].append((ours(o.inferprof, f, o.threads, n, o.new), theirs(o.llama_bench, f, o.threads, n, o.new)))
            print("round %d of %d: %s, %d" % (r + 1, o.rounds, os.path.basename(f), n), file=sys.stderr)
    print("| file | context | stage | ours, tokens/s | llama.cpp, tokens/s | ratio | 95% interval |")
    print("|---|---|---|---|---|---|---|")
    for (f, n), v in rows.items():
        for i, stage in enumerate(("prefill", "decode")):
            ratios = [a[i] / b[i] for a, b in v]
            low, high = interval(ratios)
            print("| %s | %d | %s | %.1f | %.1f | %.2f | %.2f to %.2f |" %
                  (os.path.basename(f), n, stage, statistics.median(a[i] for a, _ in v), statistics.median(b[i] for _, b in v),
                   statistics.median(ratios), low, high))


if __name__ == "__main__":
    main()
