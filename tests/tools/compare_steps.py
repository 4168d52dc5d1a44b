"""Compares the steps that a report recognised with the truth that the program logged.

    compare_steps.py REPORT_DIR TRUTH.jsonl

Prints counts. Exit status 1 if a certain step is wrong, if steps are missing, or if less than 95% are certain and exact. Truth without
steps: the report must claim no language model.
"""
import csv
import json
import os
import sys


def same(step, true):
    return step["kind"] == true["kind"] and all((float(step[k]) if step[k] else None) == true[k] for k in ("tokens", "requests"))


def main():
    folder, path = sys.argv[1:]
    truth = [json.loads(line) for line in open(path)]
    found = json.load(open(os.path.join(folder, "metrics.json"))).get("recognition")
    if not truth:
        print("claims a language model" if found and found["language_model"] else "claims no language model")
        sys.exit(bool(found and found["language_model"]))
    if not found:
        print("no steps")
        sys.exit(1)
    warm = found.get("phases", {}).get("warm_up_steps", 0)
    with open(os.path.join(folder, "steps.csv")) as f:
        steps = list(csv.DictReader(f))
    rest = truth[-len(steps):]  # what comes before is warm-up, of which a program need not log all
    total = len(steps)
    pairs = [(s, t) for s, t in zip(steps, rest) if s["kind"] != "warm-up"]
    steps, rest, warm = [s for s, _ in pairs], [t for _, t in pairs], warm - (total - len(pairs))
    exact = sum(s["confidence"] == "certain" and same(s, t) for s, t in zip(steps, rest))
    wrong = [(i, s, t) for i, (s, t) in enumerate(zip(steps, rest)) if s["confidence"] == "certain" and s["kind"] != "step" and not same(s, t)]
    unsure = [s for s in steps if s["confidence"] != "certain"]
    print(f"steps {len(steps)} + {warm + total - len(steps)} warm-up of {len(truth)}, certain and exact {exact}, certain and wrong {len(wrong)}, "
          f"uncertain {len(unsure)}, layers {found['layers']}")
    for i, s, t in wrong[:5]:
        print(f"  step {i}: {s['kind']} {s['tokens']} tokens {s['requests']} requests, truth {t['kind']} {t['tokens']} {t['requests']}")
    for reason in sorted({s["doubt"] for s in unsure}):
        print(f"  uncertain: {reason} ({sum(s['doubt'] == reason for s in unsure)})")
    sys.exit(bool(wrong) or total > len(truth) or total + warm < len(truth) or exact < 0.95 * len(steps))


if __name__ == "__main__":
    main()
