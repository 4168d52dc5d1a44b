#!/usr/bin/env python3
"""native_table.py OUT RUNS: the speed table of docs/engine.md from the results of native.sh. A dash: not measured."""
import glob
import json
import os
import sys

out, runs = sys.argv[1:3]


def read(name):
    try:
        with open(os.path.join(out, name)) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def run(name):
    """The stages and figures of a profile run."""
    found = sorted(glob.glob(os.path.join(runs, name, "*", "metrics.json")))
    if not found:
        return {}
    with open(found[-1]) as f:
        d = json.load(f)
    v = {s["name"]: s["time_ms"] for s in d["stages"]}
    v.update({f["key"]: f["stats"]["median"] for f in d["figures"]})
    return v


def batch(name, size):
    return next((r for r in read(name).get("rows", []) if r["batch"] == size), {})


def llama(model, prompt, new, depth):
    """Tokens per second of llama-bench."""
    try:
        with open(os.path.join(out, "llama.jsonl")) as f:
            rows = [json.loads(line) for line in f if line.startswith("{")]
    except OSError:
        rows = []
    for r in rows:
        if model in r["model_filename"] and (r["n_prompt"], r["n_gen"], r["n_depth"]) == (prompt, new, depth):
            return r["avg_ts"]
    return None


def batched(size):
    """Decode tokens per second of llama-batched-bench: columns PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, T, S."""
    try:
        with open(os.path.join(out, "batched-bench.txt")) as f:
            for line in f:
                cells = [c.strip() for c in line.strip().strip("|").split("|")]
                if len(cells) == 10 and cells[2] == str(size):
                    return float(cells[7])
    except (OSError, ValueError):
        pass
    return None


def text(v, unit, digits=0):
    return "–" if v is None else f"{v:,.{digits}f} {unit}"


def ratio(a, b):
    return "–" if not a or not b else f"{a / b:.2f}x"


hf, graph, resident = run("hf"), run("graph"), run("persistent")
rate = "decode_tokens_per_s"
rows = [
    ("DeepSeek-OCR, decode, graphs", "tokens/s", graph.get(rate), llama("dsocr", 0, 128, 951), hf.get(rate), 1),
    ("DeepSeek-OCR, decode, persistent kernel", "tokens/s", resident.get(rate), llama("dsocr", 0, 128, 951), hf.get(rate), 1),
    ("DeepSeek-OCR, a page with tiles, prefill", "ms", resident.get("prefill"), None, hf.get("prefill"), -1),
    ("Qwen3-8B, decode after 512 tokens", "tokens/s", batch("qwen-batch.json", 1).get(rate), llama("qwen3-8b", 0, 64, 512), None, 1),
    ("Qwen3-8B, decode of 32 sequences after 512 tokens", "tokens/s", batch("qwen-batch.json", 32).get(rate), batched(32), None, 1),
    ("Qwen3-8B, prompt of 2,048 tokens", "tokens/s", batch("qwen-prompt.json", 1).get("prefill_tokens_per_s"), llama("qwen3-8b", 2048, 0, 0),
     batch("hf-prompt.json", 1).get("prefill_tokens_per_s"), 1),
]
print("| what | native | llama.cpp | Hugging Face | native is faster by |")
print("|---|---|---|---|---|")
for name, unit, own, cpp, other, sense in rows:
    best = [v for v in (cpp, other) if v]
    peer = (max(best) if sense > 0 else min(best)) if best else None
    faster = ratio(own, peer) if sense > 0 else ratio(peer, own)
    digits = 1 if unit == "ms" else 0
    print(f"| {name} | {text(own, unit, digits)} | {text(cpp, unit, digits)} | {text(other, unit, digits)} | {faster} |")
