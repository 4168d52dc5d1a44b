"""hf_checks.py MODEL_DIR OUT.json [--image FILE | --prompt TEXT] [--new N] [--pairs N] [--after FILE]

Figures of one request made without inferprof's own instruments, for tests/gpu/hf_table.py to lay beside a run folder:
  rate     plain `generate`, timed from outside, in turns with the engine's own timing, in one process
  events   stage times by torch.cuda.Event, recorded by hooks of this script during requests that the engine times
  kernels  torch.profiler's calls and time of each kernel name
  flops    torch's FlopCounterMode, by module
--after waits, loaded and warm, until FILE is there: the machine belongs to somebody else until then.
"""
import argparse
import collections
import contextlib
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "engines", "hf"))
import worker  # noqa: E402

worker.import_libraries()
import torch  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


def request_of(args, new):
    image = {"inputs": [args.image], "image": {"mode": "gundam", "max_tiles": 9}} if args.image else {}
    return {"op": "infer", "prompt": args.prompt, "max_new_tokens": new, "ignore_eos": True,
            "sampling": {"no_repeat_ngram": args.no_repeat_ngram}, **image}


def plain(model, request):
    """The same call as the engine makes, without its clock among the logits processors."""
    with torch.no_grad():
        return model.model.generate(**model.inputs(request), **worker.generate_options(model, request))


def plain_s(model, request):
    inputs, options = model.inputs(request), worker.generate_options(model, request)
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.no_grad():
        model.model.generate(**inputs, **options)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def engine_s(model, request):
    reply = worker.infer(model, request)
    return (reply["prefill_ms"] + reply["decode_ms"]) / 1e3


def rates(model, args):
    """Turns of plain, engine, engine, plain: a drift of the machine meets both."""
    request, sides = request_of(args, args.new), {"plain": [], "engine": []}
    for i in range(args.pairs):
        for side in (("plain", "engine") if i % 2 == 0 else ("engine", "plain")):
            seconds = (plain_s if side == "plain" else engine_s)(model, request)
            sides[side].append(args.new * model.batch / seconds)
    out = {side: {"tokens_per_s": v, "median": statistics.median(v), "cv": statistics.stdev(v) / statistics.mean(v)}
           for side, v in sides.items()}
    ratios = [e / p for e, p in zip(sides["engine"], sides["plain"])]
    out["ratio_of_medians"] = out["engine"]["median"] / out["plain"]["median"]
    out["ratio_mean"], out["ratio_se"] = statistics.mean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    return out


class EventClock:
    """CUDA events at the ends of chosen modules' forwards, and of the whole model's."""

    def __init__(self, model):
        self.spans, self.forwards, self.handles = collections.defaultdict(list), [], []
        named = dict(model.model.named_modules())
        for stage, path in model.stage_modules.items():
            self.watch(named[path], self.spans[stage])
        self.watch(model.model, self.forwards)

    def watch(self, module, spans):
        def event():
            e = torch.cuda.Event(enable_timing=True)
            e.record()
            return e
        # in front of the engine's own hooks, and behind them
        self.handles += [module.register_forward_pre_hook(lambda m, a: spans.append([event(), None])),
                         module.register_forward_hook(lambda m, a, o: spans[-1].__setitem__(1, event()))]

    def results(self):
        torch.cuda.synchronize()
        ms = {stage: sum(a.elapsed_time(b) for a, b in spans) for stage, spans in self.spans.items()}
        first, last = self.forwards[0], self.forwards[-1]
        return {**ms, "prefill": first[0].elapsed_time(first[1]), "decode": first[1].elapsed_time(last[1])}

    def close(self):
        for h in self.handles:
            h.remove()


def events(model, args, rounds=3):
    seen = collections.defaultdict(lambda: {"engine_ms": [], "event_ms": []})
    for _ in range(rounds):
        clock = EventClock(model)
        try:
            reply = worker.infer(model, request_of(args, args.new))
            ours = {**reply["stages"], "prefill": reply["prefill_ms"], "decode": reply["decode_ms"]}
            for stage, ms in clock.results().items():
                seen[stage]["engine_ms"].append(ours[stage])
                seen[stage]["event_ms"].append(ms)
        finally:
            clock.close()
    return seen


def kernels(model, args):
    """{name: [calls, ns]} of one plain request; what is not a kernel (copies, memsets) is left out."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as p:
        plain(model, request_of(args, args.new))
        torch.cuda.synchronize()
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"hf_checks.{os.getpid()}.json")
    p.export_chrome_trace(path)
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    os.unlink(path)
    found = collections.defaultdict(lambda: [0, 0.0])
    for e in trace["traceEvents"]:
        if e.get("cat") == "kernel":
            found[e["name"]][0] += 1
            found[e["name"]][1] += e["dur"] * 1e3
    return found


@contextlib.contextmanager
def counted_experts(model):
    """The counter does not know grouped_mm: the experts run one after the other while it looks."""
    config = model.model.config
    before = getattr(config, "_experts_implementation", None)
    if before:
        model.model.set_experts_implementation("eager")
    try:
        yield
    finally:
        if before:
            model.model.set_experts_implementation(before)


def flops_once(model, args, new):
    with counted_experts(model), FlopCounterMode(display=False, depth=None) as counter:
        plain(model, request_of(args, new))
    root = type(model.model).__name__
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()
            if name == "Global" or name.removeprefix(root + ".") in model.stage_modules.values()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--image")
    parser.add_argument("--prompt")
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--no-repeat-ngram", type=int, default=0)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--after")
    args = parser.parse_args()
    model = worker.Model({"model": args.model, "weights": "synthetic:0", "device": args.device, "dtype": "auto"})
    worker.infer(model, request_of(args, 4))
    while args.after and not os.path.exists(args.after):
        time.sleep(0.2)
    cuda = model.device.type == "cuda"
    first = worker.infer(model, request_of(args, args.new))
    same = first["ids"] == plain(model, request_of(args, args.new))[0, -args.new:].tolist()
    result = {"versions": {"torch": torch.__version__, "transformers": worker.transformers.__version__,
                           "device": torch.cuda.get_device_name() if cuda else "cpu"},
              "prompt_tokens": first["prompt_tokens"], "new_tokens": args.new, "same_ids_as_plain_generate": same}
    parts = [("flops", lambda: {"prefill": flops_once(model, args, 1), "all": flops_once(model, args, args.new)})]
    if cuda:
        parts = [("rate", lambda: rates(model, args)), ("events", lambda: events(model, args)),
                 ("kernels", lambda: kernels(model, args))] + parts
    for name, make in parts:
        start = time.perf_counter()
        try:
            result[name] = make()
        except Exception as e:  # one check less is better than none
            result[name + "_error"] = f"{type(e).__name__}: {e}"
        print(f"{name}: {time.perf_counter() - start:.1f} s", result.get(name + "_error", ""), flush=True)
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(result, f)


if __name__ == "__main__":
    main()
