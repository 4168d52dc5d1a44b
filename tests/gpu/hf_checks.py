"""hf_checks.py MODEL_DIR OUT.json [--image FILE | --prompt TEXT] [--new N] [--rate-seconds S] [--only PARTS] [--after FILE]

Measures one request without inferprof's instruments, for tests/gpu/hf_table.py to compare with a run folder:
  ids      the engine's answer against that of plain `generate` (hf_ids.py)
  rate     plain `generate`, timed from outside, alternating with requests timed by the engine (hf_rates.py)
  long     plain requests as long as the report's
  memory   peak device memory of a plain request, according to torch and the driver
  events   stage times by torch.cuda.Event, recorded by hooks of this script during requests that the engine times
  kernels  torch.profiler's calls and time per kernel name
  flops    torch's FlopCounterMode, by module
--device meta counts only the FLOPs of a text model, without a GPU; if OUT.json exists, they are added to it.
torch.profiler slows down launches for the rest of the process, so `kernels` runs after everything that is timed.
--after FILE loads and warms up, then waits until FILE exists: until then another process uses the machine.
"""
import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "engines", "hf"))
sys.path.insert(0, HERE)
import worker  # noqa: E402

worker.import_libraries()
import torch  # noqa: E402
from hf_ids import ids  # noqa: E402
from hf_rates import alternate, long_requests, plain_call  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


def request_of(args, new):
    image = {"inputs": [args.image], "image": {"mode": "gundam", "max_tiles": 9}} if args.image else {}
    return {"op": "infer", "prompt": args.prompt, "max_new_tokens": new, "ignore_eos": True,
            "sampling": {"no_repeat_ngram": args.no_repeat_ngram}, **image}


def memory_of_process():
    """Bytes that the driver counts for this process; None if unknown."""
    smi = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                         check=False)
    rows = [line.split(", ") for line in smi.stdout.splitlines()]
    return next((int(mib) << 20 for pid, mib in rows if int(pid) == os.getpid() and mib.isdigit()), None)


def memory(model, args):
    """Bytes: the allocator's peak, what it reserved from the driver, and what the driver counts including the CUDA context."""
    call = plain_call(model, request_of(args, args.new))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return {"max_memory_allocated": torch.cuda.max_memory_allocated(), "max_memory_reserved": torch.cuda.max_memory_reserved(),
            "nvidia_smi_used": memory_of_process()}


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
        del self.model.generate  # removes the instance's wrapper; the class has the original
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
    """{name: [calls, ns]} of one plain request; copies and memsets are left out."""
    call = plain_call(model, request_of(args, args.new))
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
    """The counter supports neither grouped_mm nor attention with fewer key heads: uses plain products while it counts."""
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
        plain_call(model, request_of(args, new))()
    root = type(model.model).__name__
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()
            if name == "Global" or name.removeprefix(root + ".") in model.stage_modules.values()}


def flops_on_meta(args):
    """The same count for a text model without a GPU: nothing is computed on the meta device. Experts use the implementation
    whose shapes do not depend on the routing: k products per token."""
    config = worker.transformers.AutoConfig.from_pretrained(args.model)
    config._experts_implementation = "batched_mm"
    with torch.device("meta"):
        model = worker.transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    tokens, cache = len(args.prompt.encode()) + 1, worker.transformers.DynamicCache()

    def count(n):
        """Separates products of attention from those of experts: torch calls both bmm."""
        with torch.no_grad(), FlopCounterMode(display=False, depth=None) as counter:
            model(torch.zeros(1, n, dtype=torch.long, device="meta"), past_key_values=cache, logits_to_keep=1)
        counts = counter.get_flop_counts()
        ops = {str(op): flops for op, flops in counts["Global"].items()}
        attention = sum(n for name, ops in counts.items() if name.endswith(".self_attn") for op, n in ops.items() if "bmm" in str(op))
        return {**ops, "aten.bmm": attention, "bmm of experts": ops["aten.bmm"] - attention}

    prefill, steps = count(tokens), args.new - 1
    count((steps - 1) // 2)
    middle = count(1)  # a step's FLOPs grow linearly with its context: the middle step is the mean
    both = {op: prefill.get(op, 0) + steps * n for op, n in middle.items()}
    return tokens, {"prefill": {"Global": prefill}, "all": {"Global": both}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--image")
    parser.add_argument("--prompt")
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rate-seconds", type=float, default=40)
    parser.add_argument("--rate-new", type=int, default=4, help="new tokens of the alternating requests")
    parser.add_argument("--ids-new", type=int, help="new tokens of the requests whose ids are compared (--new)")
    parser.add_argument("--only", help="parts to run, in this order: ids,rate,long,memory,events,kernels,flops")
    parser.add_argument("--no-repeat-ngram", type=int, default=0)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--after")
    args = parser.parse_args()
    if args.device == "meta":
        tokens, counts = flops_on_meta(args)
        known = {}
        if os.path.exists(args.out):
            with open(args.out, encoding="utf-8") as f:
                known = json.load(f)
        if known and (known["prompt_tokens"], known["new_tokens"]) != (tokens, args.new):
            sys.exit(f"{args.out} is for {known['prompt_tokens']} and {known['new_tokens']} tokens, but {tokens} and {args.new} were counted")
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump({**known, "prompt_tokens": tokens, "new_tokens": args.new, "flops": counts, "flops_on": "meta"}, f)
        return
    model = worker.Model({"model": args.model, "weights": "synthetic:0", "device": args.device, "dtype": "auto"})
    first = worker.infer(model, request_of(args, 4))
    while args.after and not os.path.exists(args.after):
        time.sleep(0.2)
    cuda = model.device.type == "cuda"
    result = {"versions": {"torch": torch.__version__, "transformers": worker.transformers.__version__,
                           "device": torch.cuda.get_device_name() if cuda else "cpu"},
              "prompt_tokens": first["prompt_tokens"], "new_tokens": args.new}
    whole = request_of(args, args.new)
    parts = {"ids": lambda: ids(model, request_of(args, args.ids_new or args.new)), "rate": lambda: alternate(model, request_of(args, args.rate_new), args.rate_seconds),
             "long": lambda: long_requests(model, whole, 3), "memory": lambda: memory(model, args), "events": lambda: events(model, args),
             "kernels": lambda: kernels(model, args),
             "flops": lambda: {"prefill": flops_once(model, args, 1), "all": flops_once(model, args, args.new)}}
    wanted = args.only.split(",") if args.only else list(parts) if cuda else ["ids", "flops"]
    for name in wanted:
        start = time.perf_counter()
        try:
            result[name] = parts[name]()
        except Exception as e:  # continue with the other checks
            result[name + "_error"] = f"{type(e).__name__}: {e}"
        print(f"{name}: {time.perf_counter() - start:.1f} s", result.get(name + "_error", ""), flush=True)
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(result, f)


if __name__ == "__main__":
    main()
