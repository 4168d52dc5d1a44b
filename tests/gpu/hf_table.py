"""hf_table.py RUN_DIR CHECKS.json [INFERPROF]: what a run folder says beside what hf_checks.py found without inferprof, as Markdown."""
import collections
import glob
import json
import os
import statistics
import subprocess
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def percent(ours, theirs):
    return f"{100 * (ours / theirs - 1):+.2f}%"


def stage(metrics, name):
    return next(s for s in metrics["stages"] if s["name"] == name)


def kernel_rows(metrics, checks):
    stages = [stage(metrics, n)["trace"] for n in ("prefill", "decode")]
    calls, ms = sum(s["kernels"] for s in stages), sum(s["gpu_owned_ns"] for s in stages) / 1e6
    want_calls, want_ms = (sum(v[i] for v in checks["kernels"].values()) for i in (0, 1))
    want_ms /= 1e6
    yield "kernels of the request", "torch.profiler", f"{calls:,}", f"{want_calls:,}", percent(calls, want_calls)
    yield "their time, ms", "torch.profiler", f"{ms:.2f}", f"{want_ms:.2f}", percent(ms, want_ms)


def dump(inferprof, trace, kind):
    out = subprocess.run([inferprof, "trace", "dump", "--json", "-k", kind, trace], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def names_of_request(inferprof, run):
    """Calls by demangled name between the start of the last prefill and the end of the last decode."""
    for trace in glob.glob(os.path.join(run, "trace", "*.ipt")):
        ranges = [r for r in dump(inferprof, trace, "range") if r["category"] == 1]
        if not ranges:
            continue
        start = max(r["start_ns"] for r in ranges if r["name"] == "prefill")
        end = max(r["end_ns"] for r in ranges if r["name"] == "decode")
        found = collections.Counter(k["name"] for k in dump(inferprof, trace, "kernel") if start <= k["start_ns"] <= end)
        plain = subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True).stdout.split("\n")
        merged = collections.Counter()
        for mangled, name in zip(found, plain):
            merged[name] += found[mangled]
        return merged
    return None


def name_rows(run, checks, inferprof):
    ours = names_of_request(inferprof, run)
    if not ours:
        return
    theirs = {name: calls for name, (calls, _) in checks["kernels"].items()}
    differ = [n for n in set(ours) | set(theirs) if ours.get(n, 0) != theirs.get(n, 0)]
    yield ("kernel names", "torch.profiler", str(len(ours)), str(len(theirs)),
           f"{len(differ)} with other calls" if differ else "the same calls of each")
    for n in sorted(differ):
        print(f"    {n[:150]}: {ours.get(n, 0)} here, {theirs.get(n, 0)} there", file=sys.stderr)


def event_rows(checks):
    for name, times in checks["events"].items():
        ours, theirs = (statistics.median(times[k]) for k in ("engine_ms", "event_ms"))
        yield f"time of {name}, ms", "torch.cuda.Event, same requests", f"{ours:.3f}", f"{theirs:.3f}", percent(ours, theirs)


ATTENTION = ("aten.bmm", "aten._scaled_dot_product")


def split(ops, dsocr):
    """FLOPs of attention and of all else. Eager attention is bmm; where sdpa runs, bmm is other work."""
    words = ATTENTION[1:] if dsocr else ATTENTION
    attention = sum(n for op, n in ops.items() if op.startswith(words))
    return attention, sum(ops.values()) - attention


def flop_rows(metrics, checks):
    """The counter multiplies every query with every key; causal attention needs (T + 1) / 2T of that."""
    tokens = checks["prompt_tokens"]
    prefill, everything = checks["flops"]["prefill"], checks["flops"]["all"]
    parts = {name.rsplit(".", 1)[-1]: ops for name, ops in prefill.items() if name != "Global"}
    dsocr = bool(parts)
    attention, rest = split(prefill["Global"], dsocr)
    in_vision = sum(split(ops, True)[0] for ops in parts.values())
    want = rest + in_vision + (attention - in_vision) * (tokens + 1) / (2 * tokens)
    both = {"prefill": want, "decode": sum(everything["Global"].values()) - sum(prefill["Global"].values())}
    both.update({s: sum(parts[m].values()) for s, m in (("sam", "sam_model"), ("clip", "vision_model"), ("projector", "projector"))
                 if m in parts})
    for name, theirs in both.items():
        ours = stage(metrics, name)["flops"]
        if ours and theirs:
            yield f"model FLOPs of {name}", "FlopCounterMode", f"{ours / 1e9:.2f} G", f"{theirs / 1e9:.2f} G", percent(ours, theirs)


def rate_rows(metrics, checks):
    r = checks["rate"]
    turns = len(r["plain"]["tokens_per_s"])
    yield (f"tokens/s, {turns} turns of {r['new_tokens']} tokens", "plain generate, no hooks", f"{r['engine']['median']:.2f}",
           f"{r['plain']['median']:.2f}", f"{100 * (r['ratio_mean'] - 1):+.2f}% ± {196 * r['ratio_se']:.2f}% of the turns")


def main():
    run, checks = sys.argv[1], load(sys.argv[2])
    inferprof = sys.argv[3] if len(sys.argv) > 3 else "inferprof"
    metrics = load(os.path.join(run, "metrics.json"))
    makers = {"rate": lambda: rate_rows(metrics, checks), "events": lambda: event_rows(checks),
              "kernels": lambda: [*kernel_rows(metrics, checks), *name_rows(run, checks, inferprof)],
              "flops": lambda: flop_rows(metrics, checks)}
    print("| figure | against | inferprof | independent | difference |\n|---|---|---|---|---|")
    for part, rows in makers.items():
        for row in rows() if part in checks else ():
            print("| " + " | ".join(row) + " |")
    ids = checks.get("ids")
    if ids:
        same = "the same" if ids["engine_as_plain"] else "not the same" + (
            ", but plain generate does not repeat itself either" if ids.get("plain_repeats_itself") is False else "")
        print(f"| {checks['new_tokens']} new ids | plain generate | | | {same} |")


if __name__ == "__main__":
    main()
