"""Compares the steps that a report recognised with the truth that the program logged.

    compare_steps.py [--partial] REPORT_DIR TRUTH.jsonl

Prints counts. Exit status 1 if a certain step is wrong, if steps are missing, or if less than 95% are certain and exact. Truth without
steps: the report must claim no language model. --partial: the trace contains only some stretches of the program (`run` with its
defaults records 50 replays of each CUDA graph and detaches), so that steps may be missing.
"""
import csv
import json
import os
import sys

GAP = 2  # cost of a gap between two stretches; more than that of a wrong step, so that no gap hides a wrong step


def same(step, true):
    return step["kind"] == true["kind"] and all((float(step[k]) if step[k] else None) == true[k] for k in ("tokens", "requests"))


def place(steps, truth):
    """The true step of each step: the order is kept, and gaps and differences are as few as possible."""
    cost = [0.0] * len(truth)  # of the steps so far, if the last of them is truth[j]
    came = []
    for i, s in enumerate(steps):
        now, back, best = [], [], None
        for j, t in enumerate(truth):
            if i and j >= 2 and (best is None or cost[j - 2] < cost[best]):
                best = j - 2
            before, of = (0.0, None) if not i else (cost[j - 1], j - 1) if j else (float("inf"), None)
            if i and best is not None and cost[best] + GAP < before:
                before, of = cost[best] + GAP, best
            differs = not same(s, t) and s["kind"] != "warm-up"
            now.append(before + differs * (1 if s["confidence"] == "certain" else 0.5))
            back.append(of)
        cost = now
        came.append(back)
    j = min(range(len(truth)), key=lambda k: cost[k])
    places = []
    for back in reversed(came):
        places.append(j)
        j = back[j]
    return places[::-1]


def stretches(places):
    first = [i for i, j in enumerate(places) if i == 0 or j != places[i - 1] + 1] + [len(places)]
    return [f"{places[a]} to {places[b - 1]}" for a, b in zip(first, first[1:])]


def main():
    partial = "--partial" in sys.argv
    folder, path = [a for a in sys.argv[1:] if a != "--partial"]
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
    total = len(steps)
    if partial and total < len(truth):
        places = place(steps, truth)
        rest = [truth[j] for j in places]
        print("stretches " + ", ".join(stretches(places)), end="; ")
    else:
        rest = truth[-total:]  # what comes before is warm-up, of which a program need not log all
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
    missing = not partial and total + warm < len(truth)
    sys.exit(bool(wrong) or total > len(truth) or missing or exact < 0.95 * len(steps))


if __name__ == "__main__":
    main()
