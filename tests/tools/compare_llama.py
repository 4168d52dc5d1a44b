"""Compares the decode steps of a report with what llama-bench printed in the same run (-o json).

    compare_llama.py REPORT_DIR LLAMA_BENCH.json

Prints both times per token. Exit status 1 if they differ by more than 1%, if steps or tokens are not those of the benchmark, or if the
report found two models or no roofline time of a decode step: the trace names the model's file.
"""
import csv
import json
import os
import sys


def main():
    folder, path = sys.argv[1:]
    rows = json.load(open(path))
    with open(os.path.join(folder, "steps.csv")) as f:
        steps = list(csv.DictReader(f))
    decode = [s for s in steps if s["kind"] == "decode" and s["confidence"] == "certain"]
    prefill = [s for s in steps if s["kind"] == "prefill" and s["confidence"] == "certain"]
    metrics = json.load(open(os.path.join(folder, "metrics.json")))
    found = metrics["recognition"]
    floors = [s["floor_ms"] for s in metrics["stages"] if s["name"] == "decode"]
    print(f"layers: {found['layers']}, of another model: {found['other_layers']}; roofline time of a decode step: {floors} ms")
    bad = ["layers"] if not found["layers"] or found["other_layers"] else []
    bad += [] if floors and all(floors) else ["roofline time"]
    for row in rows:
        repeats = len(row["samples_ts"])
        if row["n_gen"]:
            # The benchmark generates one token to warm up, which is in no total, and times n_gen of each repeat.
            want, times = row["n_gen"] * repeats, sorted(float(s["time_ms"]) for s in decode)
            ours = sum(float(s["time_ms"]) for s in decode) / max(len(decode), 1)
            theirs = sum(1e-6 * ns for ns in row["samples_ns"]) / want
            print(f"decode: {len(decode)} certain steps of {want}; {ours:.4f} ms per token (median {times[len(times) // 2] if times else 0:.4f}), "
                  f"llama-bench {theirs:.4f} ms: {100 * (ours / theirs - 1):+.2f}%")
            bad += [] if len(decode) == want else ["decode steps"]
            bad += [] if abs(ours / theirs - 1) <= 0.01 else ["time per token"]
        else:
            tokens = {float(s["tokens"]) for s in prefill}
            print(f"prefill: {len(prefill)} certain steps of {repeats}, of {sorted(tokens)} tokens, the prompt has {row['n_prompt']}")
            bad += [] if tokens == {row["n_prompt"]} and len(prefill) == repeats else ["prompts"]
    print("differs: " + ", ".join(bad) if bad else "as the benchmark says")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
