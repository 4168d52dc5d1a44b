"""hf_checks.py MODEL_DIR OUT.json [--image FILE | --prompt TEXT] [--new N] [--pairs N] [--only PARTS] [--after FILE]

Figures of one request made without inferprof's own instruments, for tests/gpu/hf_table.py to lay beside a run folder:
  ids      the engine's answer against that of plain `generate`
  rate     plain `generate`, timed from outside, in turns with the engine's own timing, in one process; short requests, many
           turns, because the machine's own speed drifts by 10% within seconds
  events   stage times by torch.cuda.Event, recorded by hooks of this script during requests that the engine times
  kernels  torch.profiler's calls and time of each kernel name
  flops    torch's FlopCounterMode, by module
--device meta counts the FLOPs of a dense text model alone, without a GPU.
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
    """The same call as the engine makes, without its clock among the logits processors, ready to be made."""
    inputs, options = model.inputs(request), worker.generate_options(model, request)

    def call():
        with torch.no_grad():
            return model.model.generate(**inputs, **options)
    return call


def plain_s(model, request):
    call = plain(model, request)
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def engine_s(model, request):
    reply = worker.infer(model, request)
    return (reply["prefill_ms"] + reply["decode_ms"]) / 1e3


def ids(model, args):
    """What the engine answers, against plain `generate`, and that against itself: not every GPU kernel repeats its sums."""
    engine = worker.infer(model, request_of(args, args.new))["ids"]
    twice = [plain(model, request_of(args, args.new))()[0, -args.new:].tolist() for _ in range(2)]
    return {"engine_as_plain": engine == twice[0], "plain_repeats_itself": twice[0] == twice[1]}


def rates(model, args):
    """Turns of plain, engine, engine, plain: a drift of the machine meets both."""
    request, sides = request_of(args, args.rate_new), {"plain": [], "engine": []}
    for i in range(args.pairs):
        for side in (("plain", "engine") if i % 2 == 0 else ("engine", "plain")):
            seconds = (plain_s if side == "plain" else engine_s)(model, request)
            sides[side].append(args.rate_new * model.batch / seconds)
    out = {side: {"tokens_per_s": v, "median": statistics.median(v), "cv": statistics.stdev(v) / statistics.mean(v)}
           for side, v in sides.items()}
    ratios = [e / p for e, p in zip(sides["engine"], sides["plain"])]
    out["new_tokens"], out["ratio_median"] = args.rate_new, statistics.median(ratios)
    out["ratio_mean"], out["ratio_se"] = statistics.mean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    return out


class EventClock:
    """CUDA events at the start of `generate`, at the ends of its forwards and around chosen modules."""

    def __init__(self, model):
        self.model, self.spans, self.forwards, self.handles = model.model, collections.defaultdict(list), [], []
        named = dict(model.model.named_modules())
        for stage, path in model.stage_modules.items():
            self.watch(named[path], self.spans[stage])
        self.watch(model.model, self.forwards)
        generate = model.model.generate

        def started(*args, **kwargs):
            self.start = self.event()
            return generate(*args, **kwargs)
        model.model.generate = started

    @staticmethod
    def event():
        e = torch.cuda.Event(enable_timing=True)
        e.record()
        return e

    def watch(self, module, spans):
        self.handles += [module.register_forward_pre_hook(lambda m, a: spans.append([self.event(), None])),
                         module.register_forward_hook(lambda m, a, o: spans[-1].__setitem__(1, self.event()))]

    def results(self):
        torch.cuda.synchronize()
        ms = {stage: sum(a.elapsed_time(b) for a, b in spans) for stage, spans in self.spans.items()}
        first, last = self.forwards[0][1], self.forwards[-1][1]
        return {**ms, "prefill": self.start.elapsed_time(first), "decode": first.elapsed_time(last)}

    def close(self):
        del self.model.generate  # the instance's own; the class has the real one
        for h in self.handles:
            h.remove()


def events(model, args, rounds=2):
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
    call = plain(model, request_of(args, args.new))
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        call()
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
def countable(model):
    """The counter knows neither grouped_mm nor attention with fewer key heads: plain products while it looks."""
    m, config = model.model, model.model.config
    experts = getattr(config, "_experts_implementation", None)
    attention = config._attn_implementation if not model.dsocr else None
    if experts:
        m.set_experts_implementation("eager")
    if attention:
        m.set_attn_implementation("eager")
    try:
        yield
    finally:
        if experts:
            m.set_experts_implementation(experts)
        if attention:
            m.set_attn_implementation(attention)


def flops_once(model, args, new):
    with countable(model), FlopCounterMode(display=False, depth=None) as counter:
        plain(model, request_of(args, new))()
    root = type(model.model).__name__
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()
            if name == "Global" or name.removeprefix(root + ".") in model.stage_modules.values()}


def flops_on_meta(args):
    """The same count for a dense text model where there is no GPU: nothing is computed on the meta device."""
    config = worker.transformers.AutoConfig.from_pretrained(args.model)
    with torch.device("meta"):
        model = worker.transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    tokens, cache = len(args.prompt.encode()) + 1, worker.transformers.DynamicCache()

    def count(n):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, n, dtype=torch.long, device="meta"), past_key_values=cache, logits_to_keep=1)
        return {str(op): flops for op, flops in counter.get_flop_counts()["Global"].items()}

    prefill, steps = count(tokens), args.new - 1
    count((steps - 1) // 2)
    middle = count(1)  # a step's FLOPs grow evenly with its context: the middle one is their mean
    both = {op: prefill.get(op, 0) + steps * n for op, n in middle.items()}
    return tokens, {"prefill": {"Global": prefill}, "all": {"Global": both}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--image")
    parser.add_argument("--prompt")
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--rate-new", type=int, default=8, help="new tokens of the requests that rates are taken from")
    parser.add_argument("--only", help="ids,rate,events,kernels,flops: which, and in which order")
    parser.add_argument("--no-repeat-ngram", type=int, default=0)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--after")
    args = parser.parse_args()
    if args.device == "meta":
        tokens, counts = flops_on_meta(args)
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump({"prompt_tokens": tokens, "new_tokens": args.new, "flops": counts}, f)
        return
    model = worker.Model({"model": args.model, "weights": "synthetic:0", "device": args.device, "dtype": "auto"})
    first = worker.infer(model, request_of(args, 4))
    while args.after and not os.path.exists(args.after):
        time.sleep(0.2)
    cuda = model.device.type == "cuda"
    result = {"versions": {"torch": torch.__version__, "transformers": worker.transformers.__version__,
                           "device": torch.cuda.get_device_name() if cuda else "cpu"},
              "prompt_tokens": first["prompt_tokens"], "new_tokens": args.new}
    parts = {"ids": lambda: ids(model, args), "rate": lambda: rates(model, args), "events": lambda: events(model, args),
             "kernels": lambda: kernels(model, args),
             "flops": lambda: {"prefill": flops_once(model, args, 1), "all": flops_once(model, args, args.new)}}
    wanted = args.only.split(",") if args.only else list(parts) if cuda else ["ids", "flops"]
    for name in wanted:
        start = time.perf_counter()
        try:
            result[name] = parts[name]()
        except Exception as e:  # one check less is better than none
            result[name + "_error"] = f"{type(e).__name__}: {e}"
        print(f"{name}: {time.perf_counter() - start:.1f} s", result.get(name + "_error", ""), flush=True)
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(result, f)


if __name__ == "__main__":
    main()
