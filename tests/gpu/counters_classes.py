"""counters_classes.py [--once] [--seconds S]: runs many kinds of kernels, to compare fitted counters with Nsight Compute's.

Seven sections, each in an NVTX range of its name: single operators in random order (micro), prefill and decode of a dense model and of
a mixture-of-experts model with a vision tower, eager and from CUDA graphs. Weights are random and larger than the L2 cache. Each
section is repeated for S seconds; with --once it warms up, then runs one round between cudaProfilerStart and cudaProfilerStop.
"""
import argparse
import json
import random
import time

import torch
import torch.nn.functional as F

nvtx = torch.cuda.nvtx
BF16 = torch.bfloat16
torch.manual_seed(1)


def w(*shape, scale=0.02):
    return torch.randn(*shape, device="cuda", dtype=BF16) * scale


def rms(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


class Micro:
    """Single operators of 2 us to 2 ms. Order and repeats differ in every round."""

    def __init__(self):
        a8, b8 = w(8192, 8192, scale=1), w(8192, 8192, scale=1)
        a4, b4 = w(4096, 4096, scale=1), w(4096, 4096, scale=1)
        a2, b2 = w(2048, 2048, scale=1), w(2048, 2048, scale=1)
        a1, b1 = w(1024, 1024, scale=1), w(1024, 1024, scale=1)
        f2 = torch.randn(2048, 2048, device="cuda")
        batch = w(64, 512, 512, scale=1)
        row, few = w(1, 8192), w(8, 8192)
        q = w(1, 16, 4096, 128, scale=1)
        one, cache = w(8, 16, 1, 128, scale=1), w(8, 16, 4096, 128, scale=1)
        big, small, mid = w(1 << 26, scale=1), w(1 << 18, scale=1), w(1 << 23, scale=1)
        out, half = torch.empty_like(big), torch.empty(1 << 26, device="cuda")
        table, ids = w(131072, 1024), torch.randint(131072, (16384,), device="cuda")
        logits, ln = w(64, 131072, scale=1), w(8192)
        self.ops = {
            "gemm 8192": (1, lambda: a8 @ b8), "gemm 4096": (2, lambda: a4 @ b4), "gemm 2048": (8, lambda: a2 @ b2),
            "gemm 1024": (20, lambda: a1 @ b1), "gemm fp32 2048": (2, lambda: f2 @ f2), "bmm 64x512": (10, lambda: batch @ batch),
            "gemv 8192": (10, lambda: F.linear(row, a8)), "gemm 8 rows": (10, lambda: F.linear(few, a8)),
            "attention 4096": (2, lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)),
            "attention decode": (10, lambda: F.scaled_dot_product_attention(one, cache, cache)),
            "add 64M": (3, lambda: torch.add(big, big, out=out)), "gelu 8M": (10, lambda: F.gelu(mid)),
            "mul 256k": (40, lambda: small * small), "exp 8M": (10, lambda: torch.exp(mid)),
            "cast 64M": (2, lambda: half.copy_(big)), "transpose 8192": (3, lambda: a8.t().contiguous()),
            "gather": (10, lambda: table.index_select(0, ids)), "cat": (4, lambda: torch.cat((mid, mid))),
            "copy strided": (10, lambda: a8[:, ::2].contiguous()),
            "sum 64M": (4, lambda: big.sum()), "sum rows": (4, lambda: a8.sum(-1)), "max rows": (4, lambda: a8.amax(0)),
            "softmax": (3, lambda: F.softmax(a8, -1)), "layer norm": (4, lambda: F.layer_norm(a8, (8192,), ln)),
            "argmax": (10, lambda: logits.argmax(-1)), "cumsum": (3, lambda: a8.cumsum(-1)),
        }
        self.random = random.Random(1)

    def round(self):
        names = list(self.ops)
        self.random.shuffle(names)
        for n in names:
            repeats, op = self.ops[n]
            if not self.many and repeats > 1:  # warm the caches as repeats would
                torch.cuda.profiler.stop()
                op()
                op()
                torch.cuda.profiler.start()
            for _ in range(self.random.randint(1, repeats) if self.many else 1):
                op()

    many = True


class Layer:
    def __init__(self, hidden, heads, ffn, batch, context):
        self.heads, self.head, h = heads, hidden // heads, hidden
        self.n1, self.n2 = w(h), w(h)
        self.qkv, self.o, self.up, self.down = w(3 * h, h), w(h, h), w(2 * ffn, h), w(h, ffn)
        self.kc, self.vc = (w(batch, heads, context, self.head) for _ in "kv")
        self.pos = torch.tensor([context - 1], device="cuda")

    def attend(self, x, cached):
        b, t, h = x.shape
        q, k, v = F.linear(rms(x, self.n1), self.qkv).view(b, t, 3, self.heads, self.head).permute(2, 0, 3, 1, 4)
        if cached:
            self.kc.index_copy_(2, self.pos, k)
            self.vc.index_copy_(2, self.pos, v)
            k, v = self.kc, self.vc
        a = F.scaled_dot_product_attention(q, k, v, is_causal=not cached)
        return x + F.linear(a.transpose(1, 2).reshape(b, t, h), self.o)

    def forward(self, x, cached):
        x = self.attend(x, cached)
        gate, up = F.linear(rms(x, self.n2), self.up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Experts(Layer):
    """16 experts, 4 per token, evenly loaded; decode uses a fixed choice instead of the router's."""

    def __init__(self, hidden, heads, ffn, batch, context, first):
        super().__init__(hidden, heads, 8, batch, context)
        self.router, self.e_up, self.e_down = w(16, hidden), w(16, hidden, 2 * ffn), w(16, ffn, hidden)
        self.chosen = [(first + 3 * i) % 16 for i in range(4)]

    def forward(self, x, cached):
        x = self.attend(x, cached)
        h = rms(x, self.n2)
        score = F.softmax(F.linear(h, self.router).float(), -1)
        weight, _ = score.topk(4, -1)
        return x + (self.some(h, weight) if cached else self.all(h, weight))

    def some(self, h, weight):
        out = torch.zeros_like(h)
        for i, e in enumerate(self.chosen):
            gate, up = (h[0] @ self.e_up[e]).chunk(2, -1)
            out += weight[..., i:i + 1].to(BF16) * ((F.silu(gate) * up) @ self.e_down[e])
        return out

    def all(self, h, weight):
        b, t, n = h.shape
        rows = torch.arange(4 * b * t, device="cuda") % (b * t)
        each = h.view(b * t, n).index_select(0, rows).view(16, b * t // 4, n)
        gate, up = (each @ self.e_up).chunk(2, -1)
        y = (F.silu(gate) * up) @ self.e_down
        y = y.view(4 * b * t, n) * weight.view(-1, 1).to(BF16)
        return torch.zeros(b * t, n, device="cuda", dtype=BF16).index_add_(0, rows, y).view(b, t, n)


class Tower:
    """A vision tower: patches, two encoder layers with 4096 tokens, a strided convolution down to 1024."""

    def __init__(self):
        self.image, self.patch, self.shrink = w(1, 3, 1024, 1024, scale=1), w(768, 3, 16, 16), w(1280, 768, 3, 3)
        self.layers = [Layer(768, 12, 1024, 1, 1) for _ in range(2)]
        self.norm = w(768)

    def forward(self):
        x = F.conv2d(self.image, self.patch, stride=16)
        t = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            t = F.gelu(F.layer_norm(layer.forward(t, False), (768,), self.norm))
        t = t.transpose(1, 2).reshape(1, 768, 64, 64)
        return F.conv2d(t, self.shrink, stride=2, padding=1).flatten(2).transpose(1, 2).contiguous()


class Model:
    def __init__(self, layers, hidden, vocab, tower=None):
        self.layers, self.norm, self.head, self.tower = layers, w(hidden), w(vocab, hidden), tower
        self.embed, self.hidden = w(vocab, hidden), hidden

    def run(self, ids, cached):
        x = F.embedding(ids, self.embed)
        if self.tower and not cached:
            x = torch.cat((x, self.tower.forward()), 1)
        for layer in self.layers:
            x = layer.forward(x, cached)
        return F.linear(rms(x[:, -1:], self.norm), self.head).argmax(-1)


def graph_of(step):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def sections():
    """{name: function that runs one round}"""
    micro = Micro()
    llama = Model([Layer(4096, 32, 11008, 8, 1024) for _ in range(2)], 4096, 32000)
    ocr = Model([Experts(1280, 10, 896, 1, 1024, i) for i in range(4)], 1280, 129280, Tower())
    long, eight, one = (torch.zeros(s, dtype=torch.long, device="cuda") for s in ((1, 2048), (8, 1), (1, 1)))
    text = torch.zeros(1, 256, dtype=torch.long, device="cuda")
    return micro, {
        "micro": micro.round,
        "dense-prefill": lambda: llama.run(long, False), "dense-decode": lambda: llama.run(eight, True),
        "dense-graph": graph_of(lambda: llama.run(eight, True)),
        "moe-prefill": lambda: ocr.run(text, False), "moe-decode": lambda: ocr.run(one, True),
        "moe-graph": graph_of(lambda: ocr.run(one, True)),
    }


def repeat(name, one_round, seconds):
    """Runs rounds in NVTX ranges of 0.1 s, synchronising every 4 rounds."""
    rounds, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        nvtx.range_push(name)
        until = time.perf_counter() + 0.1
        while time.perf_counter() < until:
            for _ in range(4):
                one_round()
            rounds += 4
            torch.cuda.synchronize()
        nvtx.range_pop()
    return rounds


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--once", action="store_true")
    p.add_argument("--seconds", type=float, default=0.6)
    o = p.parse_args()
    counts = {}
    with torch.no_grad():
        micro, todo = sections()
        for one_round in todo.values():
            for _ in range(3):
                one_round()
        micro.many = not o.once
        torch.cuda.synchronize()
        if o.once:
            torch.cuda.profiler.start()
        for name, one_round in todo.items():
            if o.once:
                nvtx.range_push(name)
                one_round()
                torch.cuda.synchronize()
                nvtx.range_pop()
                counts[name] = 1
            else:
                counts[name] = repeat(name, one_round, o.seconds * (2.5 if name == "micro" else 1))
        if o.once:
            torch.cuda.profiler.stop()
    print(json.dumps({"rounds": counts, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
