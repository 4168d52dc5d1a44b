"""Fixed GPU programs to record and to time, in plain PyTorch with random weights.

    workloads.py PROGRAM[,PROGRAM...] [--rounds N | --until S [--times FILE]] [--torch-profile FILE]

eager    a launch-bound decode: 12 layers, bf16, about 530 kernels per token; the token is read after each step
graph    the same step replayed from a CUDA graph, back to back
reading  the same, and the token is read after each step
prefill  large GEMMs
multi    4 threads, each with its own stream: kernels, copies, synchronisation, NVTX ranges
tiny     N additions to a small tensor, to count records and to time the end of the process

--until S runs until S seconds after the start of the process, and synchronises after each round; --times FILE stores the end time of
each round, in ns of the wall clock. The measured part is in an NVTX range "measured"; with --torch-profile it is recorded by
torch.profiler instead. Prints one JSON object per program.
"""
import argparse
import itertools
import json
import os
import threading
import time

import torch
import torch.nn.functional as F

nvtx = torch.cuda.nvtx
DEV = "cuda"


class Decoder:
    """One token per step with a cache of fixed length, so that every step launches the same kernels."""

    def __init__(self, layers=12, hidden=1280, heads=10, ffn=3584, vocab=32000, context=512):
        g = torch.Generator(device=DEV).manual_seed(1)

        def w(*shape):
            return torch.randn(*shape, device=DEV, dtype=torch.bfloat16, generator=g) * 0.02

        self.heads, self.head = heads, hidden // heads
        self.layers = [
            dict(n1=w(hidden), q=w(hidden, hidden), k=w(hidden, hidden), v=w(hidden, hidden), o=w(hidden, hidden),
                 n2=w(hidden), gate=w(ffn, hidden), up=w(ffn, hidden), down=w(hidden, ffn),
                 kc=torch.zeros(1, heads, context, self.head, device=DEV, dtype=torch.bfloat16),
                 vc=torch.zeros(1, heads, context, self.head, device=DEV, dtype=torch.bfloat16))
            for _ in range(layers)
        ]
        self.embed, self.norm, self.lm = w(vocab, hidden), w(hidden), w(vocab, hidden)
        self.token = torch.zeros(1, 1, dtype=torch.long, device=DEV)
        self.pos = torch.zeros(1, dtype=torch.long, device=DEV)
        angle = torch.arange(context, device=DEV)[:, None] / 10000 ** (torch.arange(0, self.head, 2, device=DEV) / self.head)
        self.cos = torch.cat([angle.cos()] * 2, -1).bfloat16()
        self.sin = torch.cat([angle.sin()] * 2, -1).bfloat16()

    def rms(self, x, weight):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16() * weight

    def rope(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def attention(self, x, l, cos, sin):
        q, k, v = (F.linear(x, l[n]).view(1, 1, self.heads, self.head).transpose(1, 2) for n in "qkv")
        l["kc"].index_copy_(2, self.pos, self.rope(k, cos, sin))
        l["vc"].index_copy_(2, self.pos, v)
        out = F.scaled_dot_product_attention(self.rope(q, cos, sin), l["kc"], l["vc"])
        return F.linear(out.transpose(1, 2).reshape(1, 1, -1), l["o"])

    def step(self, layers=None):
        x = F.embedding(self.token, self.embed)
        cos, sin = self.cos.index_select(0, self.pos), self.sin.index_select(0, self.pos)
        for l in self.layers[:layers]:
            x = x + self.attention(self.rms(x, l["n1"]), l, cos, sin)
            h = self.rms(x, l["n2"])
            x = x + F.linear(F.silu(F.linear(h, l["gate"])) * F.linear(h, l["up"]), l["down"])
        self.token.copy_(F.linear(self.rms(x, self.norm), self.lm).argmax(-1))


class Eager:
    def __init__(self):
        self.model = Decoder()

    def run(self, rounds):
        with torch.no_grad():
            for _ in range(rounds):
                self.model.step()
                self.model.token.item()

    def settle(self):
        """A tenth of a round, run after a switch."""
        with torch.no_grad():
            self.model.step(1)


class Graph(Eager):
    def __init__(self):
        super().__init__()
        Eager.run(self, 3)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.model.step()

    def run(self, rounds):
        for _ in range(rounds):
            self.graph.replay()

    def settle(self):
        self.run(1)


class Reading(Graph):
    def run(self, rounds):
        for _ in range(rounds):
            self.graph.replay()
            self.model.token.item()


class Prefill:
    def __init__(self):
        def w(*shape):
            return torch.randn(*shape, device=DEV, dtype=torch.bfloat16) * 0.02

        self.x, self.gate, self.up, self.down = w(16384, 4096), w(11008, 4096), w(11008, 4096), w(4096, 11008)

    def run(self, rounds):
        with torch.no_grad():
            for _ in range(rounds):
                F.linear(F.silu(F.linear(self.x, self.gate)) * F.linear(self.x, self.up), self.down)

    def settle(self):
        self.run(1)


class Multi:
    def __init__(self):
        self.streams = [torch.cuda.Stream() for _ in range(4)]
        self.a = [torch.randn(256, 256, device=DEV) for _ in range(4)]
        self.host = [torch.randn(256, 256).pin_memory() for _ in range(4)]

    def one(self, i, rounds):
        with torch.cuda.stream(self.streams[i]):
            for r in range(rounds):
                nvtx.range_push(f"thread {i} round {r}")
                self.a[i].copy_(self.host[i], non_blocking=True)
                for _ in range(5):
                    self.a[i].mul_(1.0001)
                (self.a[i] @ self.a[i]).zero_()
                event = torch.cuda.Event()
                event.record(self.streams[i])
                self.streams[(i + 1) % 4].wait_event(event)
                nvtx.range_pop()
            self.streams[i].synchronize()

    def run(self, rounds):
        threads = [threading.Thread(target=self.one, args=(i, rounds)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


class Tiny:
    def __init__(self):
        self.x = torch.zeros(16, device=DEV)

    def run(self, rounds):
        for _ in range(rounds):
            self.x.add_(1)


PROGRAMS = {"eager": (Eager, 32), "graph": (Graph, 32), "reading": (Reading, 32), "prefill": (Prefill, 8), "multi": (Multi, 20), "tiny": (Tiny, 1000)}


def timed(program, rounds):
    torch.cuda.synchronize()
    start = time.perf_counter()
    program.run(rounds)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def age():
    """Seconds since this process was started."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def run_until(program, seconds, times):
    ends, start = [], time.perf_counter()
    while age() < seconds:
        program.run(1)
        torch.cuda.synchronize()
        ends.append(time.time_ns())
    took = time.perf_counter() - start
    if times:
        with open(times, "w") as f:
            json.dump(ends, f)
    return len(ends), took


def summarize_profile(prof):
    """{name: (count, ns)} of kernels and of copies and memsets, from torch.profiler."""
    kernels, other = {}, {}
    for e in prof.profiler.kineto_results.events():
        if e.device_type() == torch.autograd.DeviceType.CUDA and e.duration_ns() >= 0:
            name = e.name()
            into = other if name.startswith(("Memcpy", "Memset")) else kernels
            n, ns = into.get(name, (0, 0))
            into[name] = (n + 1, ns + e.duration_ns())
    return {"kernels": kernels, "copies": other}


def profile(program, rounds):
    act = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[act.CPU, act.CUDA]) as prof:
        torch.cuda.synchronize()
        timed(program, rounds)
    return summarize_profile(prof)


def measure(program, rounds, until, times):
    torch.cuda.synchronize()
    nvtx.range_push("measured")
    rounds, seconds = run_until(program, until, times) if until else (rounds, timed(program, rounds))
    nvtx.range_pop()
    now = time.time()
    return {"rounds": rounds, "seconds": seconds, "start": now - age(), "end": now, "cpu": time.process_time()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("programs", help=", ".join(PROGRAMS))
    p.add_argument("--rounds", type=lambda text: [int(n) for n in text.split(",")], help="per program; one number: for all")
    p.add_argument("--until", type=float)
    p.add_argument("--times")
    p.add_argument("--torch-profile")
    o = p.parse_args()
    profiles = {}
    names = o.programs.split(",")
    for name, rounds in zip(names, itertools.cycle(o.rounds or [PROGRAMS[name][1] for name in names])):
        make = PROGRAMS[name][0]
        program = make()
        program.run(min(rounds, 3))
        if o.torch_profile:
            profiles[name] = profile(program, rounds)
        else:
            print(json.dumps({"program": name, **measure(program, rounds, o.until, o.times)}), flush=True)
    if o.torch_profile:
        with open(o.torch_profile, "w") as f:
            json.dump(profiles, f)


if __name__ == "__main__":
    main()
