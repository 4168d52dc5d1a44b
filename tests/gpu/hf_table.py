"""hf_table.py RUN_DIR CHECKS.json [INFERPROF]: compares the figures of a run folder with those of hf_checks.py, as a Markdown table."""
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
    """Calls per demangled name between the start of the last prefill and the end of the last decode."""
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
    """FLOPs of attention and of the rest. Eager attention is bmm; with sdpa, bmm is other work."""
    words = ATTENTION[1:] if dsocr else ATTENTION
    attention = sum(n for op, n in ops.items() if op.startswith(words))
    return attention, sum(ops.values()) - attention


def flop_rows(metrics, checks):
    """The counter multiplies every query with every key; causal attention needs (T + 1) / 2T of that."""
    tokens, peak = checks["prompt_tokens"], metrics["device"]["peak_flop_per_s"]
    prefill, everything = checks["flops"]["prefill"], checks["flops"]["all"]
    parts = {name.rsplit(".", 1)[-1]: ops for name, ops in prefill.items() if name != "Global"}
    dsocr = bool(parts)
    where = " on the meta device" if checks.get("flops_on") == "meta" else ""
    attention, rest = split(prefill["Global"], dsocr)
    in_vision = sum(split(ops, True)[0] for ops in parts.values())
    want = rest + in_vision + (attention - in_vision) * (tokens + 1) / (2 * tokens)
    both = {"prefill": want, "decode": sum(everything["Global"].values()) - sum(prefill["Global"].values())}
    both.update({s: sum(parts[m].values()) for s, m in (("sam", "sam_model"), ("clip", "vision_model"), ("projector", "projector"))
                 if m in parts})
    for name, theirs in both.items():
        ours = stage(metrics, name)["flops"]
        if ours and theirs:
            yield f"model FLOPs of {name}", "FlopCounterMode" + where, f"{ours / 1e9:.2f} G", f"{theirs / 1e9:.2f} G", percent(ours, theirs)
    for name in ("prefill", "decode"):
        s = stage(metrics, name)
        mfu = both[name] / (s["time_ms"] / 1e3) / peak
        yield f"MFU of {name}", f"the counter's FLOPs over the median time and {peak / 1e12:.1f} TF/s", f"{100 * s['mfu']:.4g}%", f"{100 * mfu:.4g}%", percent(s["mfu"], mfu)


def rate_rows(checks):
    r = checks["rate"]
    x = r["wall"]
    p, mean = x["median"], x["mean"]
    yield (f"tokens/s, {4 * p['n']} requests of {r['new_tokens']} tokens in turns", "plain generate, no hooks", f"{x['engine']:.2f}",
           f"{x['plain']:.2f}", f"{p['value']:+.2f}% (95% interval {p['low']:+.2f} to {p['high']:+.2f}%; mean {mean['value']:+.2f}%)")


def long_rows(metrics, checks):
    """The figure of the report, which comes from other requests in another process at another time."""
    times = [stage(metrics, n)["repeats_ms"] for n in ("prefill", "decode")]
    ours = [checks["new_tokens"] * 1e3 / sum(t) for t in zip(*times)]
    theirs = [checks["new_tokens"] / s for s in checks["long"]]
    mine, plain = statistics.median(ours), statistics.median(theirs)
    spread = " and ".join(f"{100 * statistics.stdev(v) / statistics.fmean(v):.1f}%" for v in (ours, theirs))
    yield (f"tokens/s of the report, {len(ours)} repeats", f"plain generate, {len(theirs)} requests of {checks['new_tokens']} tokens afterwards",
           f"{mine:.2f}", f"{plain:.2f}", f"{percent(mine, plain)} (CV {spread})")


def memory_rows(metrics, checks):
    ours = next((f["stats"]["median"] for f in metrics["figures"] if f["key"] == "peak_memory"), None)
    m = checks["memory"]
    if ours is None:
        return
    allocated, used = m["max_memory_allocated"] / 1e9, m.get("nvidia_smi_used")
    yield "peak device memory, GB", "max_memory_allocated of a plain request", f"{ours:.3f}", f"{allocated:.3f}", percent(ours, allocated)
    if used:
        yield ("peak device memory, GB", "nvidia-smi: with the allocator's spare and the CUDA context", f"{ours:.3f}", f"{used / 1e9:.3f}",
               f"{ours - used / 1e9:+.3f} GB")


def id_rows(checks):
    for tried in checks["ids"]:
        same = "the same" if tried["engine_as_plain"] else "not the same"
        if not tried["plain_repeats_itself"]:
            same += "; plain generate does not repeat its own logits"
        yield f"{tried.get('new_tokens', checks['new_tokens'])} new ids, {tried['setting']}", "plain generate", "", "", same


def main():
    run, checks = sys.argv[1], load(sys.argv[2])
    inferprof = sys.argv[3] if len(sys.argv) > 3 else "inferprof"
    metrics = load(os.path.join(run, "metrics.json"))
    makers = {"rate": lambda: rate_rows(checks), "long": lambda: long_rows(metrics, checks), "events": lambda: event_rows(checks),
              "kernels": lambda: [*kernel_rows(metrics, checks), *name_rows(run, checks, inferprof)],
              "flops": lambda: flop_rows(metrics, checks), "memory": lambda: memory_rows(metrics, checks), "ids": lambda: id_rows(checks)}
    print("| figure | against | inferprof | independent | difference |\n|---|---|---|---|---|")
    for part, rows in makers.items():
        for row in rows() if part in checks else ():
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
