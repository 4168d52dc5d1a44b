#!/usr/bin/env python3
"""Compares greedy tokens of the default arithmetic with those of engine.exact=true, on one model.

    tests/bench/bf16_agreement.py [--inferprof build/inferprof] [--prompts 16] [--tokens 512] [--new 16] MODEL

Prompts are random ids. Prints the share of first tokens and of whole answers that are equal, and the time of prefill of both."""
import argparse
import json
import random
import statistics
import subprocess


def answers(o, exact, prompts):
    lines = [{"op": "load", "model": o.model, "weights": o.weights, "exact": exact, "max_context": o.tokens + o.new + 8}]
    lines += [{"op": "infer", "prompt_ids": p, "max_new_tokens": o.new, "ignore_eos": True} for p in prompts]
    text = "".join(json.dumps(x) + "\n" for x in lines)
    done = subprocess.run([o.inferprof, "engine"], input=text, capture_output=True, text=True, check=True)
    replies = [json.loads(x) for x in done.stdout.splitlines()]
    for r in replies:
        if "error" in r:
            raise SystemExit(r["error"])
    return replies[0]["isa"], replies[1:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inferprof", default="build/inferprof")
    p.add_argument("--prompts", type=int, default=16)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--new", type=int, default=16)
    p.add_argument("--weights", default="auto")
    p.add_argument("--vocabulary", type=int, default=32000)
    p.add_argument("model")
    o = p.parse_args()
    rng = random.Random(1)
    prompts = [[rng.randrange(o.vocabulary) for _ in range(o.tokens)] for _ in range(o.prompts)]
    isa, default = answers(o, False, prompts)
    _, exact = answers(o, True, prompts)
    first = sum(a["ids"][0] == b["ids"][0] for a, b in zip(default, exact))
    whole = sum(a["ids"] == b["ids"] for a, b in zip(default, exact))
    same = sum(next((i for i, (x, y) in enumerate(zip(a["ids"], b["ids"])) if x != y), o.new) for a, b in zip(default, exact))
    speed = [statistics.median(o.tokens / r["prefill_ms"] * 1e3 for r in v) for v in (default, exact)]
    print("%s, %d prompts of %d tokens, %d new: first tokens equal %d, whole answers equal %d, mean equal prefix %.1f" %
          (isa, o.prompts, o.tokens, o.new, first, whole, same / o.prompts))
    print("prefill, tokens/s (median): default %.1f, exact %.1f, ratio %.2f" % (speed[0], speed[1], speed[0] / speed[1]))


if __name__ == "__main__":
    main()
