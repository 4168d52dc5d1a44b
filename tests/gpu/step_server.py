"""A small language-model server with random weights that logs the truth about its steps. It has no annotations.

    inferprof run -- python3 tests/gpu/step_server.py MODE TRUTH.jsonl [STEPS]

eager    every step is launched kernel by kernel; prompts of new requests run in steps of their own
mixed    prompts and generated tokens share steps
graph    decode steps replay a CUDA graph for 1, 2, 4, 8 or 16 requests; ids come back one step late, on a stream of their own
experts  as eager, with a mixture of experts

TRUTH.jsonl gets one line per step: kind, requests, tokens read, tokens made, start and end in ns of the wall clock.
"""
import json
import random
import sys
import time

import torch
import torch.nn.functional as F

DEV, TYPE = "cuda", torch.bfloat16
LAYERS, HIDDEN, HEADS, FFN, VOCAB, CONTEXT, SLOTS = 8, 1024, 8, 2816, 32000, 512, 16
EXPERTS, ACTIVE, EXPERT_FFN = 8, 2, 704
HEAD = HIDDEN // HEADS


class Model:
    def __init__(self, experts):
        g = torch.Generator(device=DEV).manual_seed(1)

        def w(*shape):
            return torch.randn(*shape, device=DEV, dtype=TYPE, generator=g) * 0.02

        def layer():
            d = dict(n1=w(HIDDEN), qkv=w(3 * HIDDEN, HIDDEN), o=w(HIDDEN, HIDDEN), n2=w(HIDDEN))
            if experts:
                d.update(router=w(EXPERTS, HIDDEN), up=w(EXPERTS, 2 * EXPERT_FFN, HIDDEN), down=w(EXPERTS, HIDDEN, EXPERT_FFN))
            else:
                d.update(up=w(2 * FFN, HIDDEN), down=w(HIDDEN, FFN))
            d.update(k=torch.zeros(SLOTS, CONTEXT, HEADS, HEAD, device=DEV, dtype=TYPE),
                     v=torch.zeros(SLOTS, CONTEXT, HEADS, HEAD, device=DEV, dtype=TYPE))
            return d

        self.layers = [layer() for _ in range(LAYERS)]
        self.embed, self.norm, self.lm = w(VOCAB, HIDDEN), w(HIDDEN), w(VOCAB, HIDDEN)
        angle = torch.arange(CONTEXT, device=DEV)[:, None] / 10000 ** (torch.arange(0, HEAD, 2, device=DEV) / HEAD)
        self.cos, self.sin = torch.cat([angle.cos()] * 2, -1).to(TYPE), torch.cat([angle.sin()] * 2, -1).to(TYPE)
        self.columns = torch.arange(CONTEXT, device=DEV)

    def rope(self, x, pos):
        a, b = x.chunk(2, -1)
        return x * self.cos[pos][:, None] + torch.cat((-b, a), -1) * self.sin[pos][:, None]

    def mlp(self, y, x):
        if "router" not in y:
            a, b = F.linear(x, y["up"]).chunk(2, -1)
            return F.linear(F.silu(a) * b, y["down"])
        gate, chosen = torch.topk(torch.softmax(F.linear(x, y["router"]).float(), -1), ACTIVE)
        out = torch.zeros_like(x)
        for k in range(ACTIVE):
            up, down = y["up"][chosen[:, k]], y["down"][chosen[:, k]]  # [tokens, ...]: gathered experts
            a, b = torch.bmm(up, x[:, :, None])[:, :, 0].chunk(2, -1)
            out = out + gate[:, k, None].to(TYPE) * torch.bmm(down, (F.silu(a) * b)[:, :, None])[:, :, 0]
        return out

    def attend(self, y, q, slot, pos):
        """One query per row: every row attends to the first pos + 1 entries of its slot."""
        mask = (self.columns[None] <= pos[:, None])[:, None, None]
        return F.scaled_dot_product_attention(q[:, :, None], y["k"][slot].transpose(1, 2), y["v"][slot].transpose(1, 2),
                                              attn_mask=mask)[:, :, 0]

    def prompt(self, y, q, k, v, lengths):
        out, at = [], 0
        for n in lengths:
            part = [t[at:at + n].transpose(0, 1)[None] for t in (q, k, v)]
            out.append(F.scaled_dot_product_attention(*part, is_causal=True)[0].transpose(0, 1))
            at += n
        return torch.cat(out)

    def __call__(self, ids, pos, slot, last, lengths=None):
        """`lengths` of the prompts that come first; rows after them are single tokens. Returns sampled ids of rows `last`."""
        x = F.embedding(ids, self.embed)
        for y in self.layers:
            q, k, v = F.linear(F.rms_norm(x, (HIDDEN,), y["n1"]), y["qkv"]).view(-1, 3, HEADS, HEAD).unbind(1)
            q, k = self.rope(q, pos), self.rope(k, pos)
            y["k"][slot, pos] = k
            y["v"][slot, pos] = v
            n = sum(lengths or [])
            parts = []
            if n:
                parts.append(self.prompt(y, q[:n], k[:n], v[:n], lengths))
            if n < len(x):
                parts.append(self.attend(y, q[n:], slot[n:], pos[n:]))
            a = parts[0] if len(parts) == 1 else torch.cat(parts)
            x = x + F.linear(a.reshape(-1, HIDDEN), y["o"])
            x = x + self.mlp(y, F.rms_norm(x, (HIDDEN,), y["n2"]))
        x = F.rms_norm(x if last is None else x[last], (HIDDEN,), self.norm)
        return F.linear(x, self.lm).argmax(-1)


class Graphs:
    def __init__(self, model):
        self.ids, self.pos, self.slot = (torch.zeros(SLOTS, dtype=torch.long, device=DEV) for _ in range(3))
        self.graphs = {}
        for n in (16, 8, 4, 2, 1):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                model(self.ids[:n], self.pos[:n], self.slot[:n], None)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = model(self.ids[:n], self.pos[:n], self.slot[:n], None)
            self.graphs[n] = graph, out

    def __call__(self, ids, pos, slot):
        n = min(k for k in self.graphs if k >= len(ids))
        self.ids[:len(ids)] = ids
        self.pos[:len(ids)] = pos
        self.slot[:len(ids)] = slot
        graph, out = self.graphs[n]
        graph.replay()
        return out[:len(ids)]


def tensor(values):
    return torch.tensor(values, dtype=torch.long).pin_memory().to(DEV, non_blocking=True)


class Server:
    def __init__(self, mode, truth, seed=5):
        self.mode, self.truth, self.rng = mode, open(truth, "w"), random.Random(seed)
        self.model = Model(mode == "experts")
        self.graphs = Graphs(self.model) if mode == "graph" else None
        self.running = []  # [slot, tokens in the cache, tokens still to make, last id]
        self.side = torch.cuda.Stream()
        self.late = None

    def arrivals(self):
        free = sorted(set(range(SLOTS)) - {r[0] for r in self.running})
        if not free or (self.running and self.rng.random() < 0.7):
            return []
        return [(slot, self.rng.randint(5, 200), self.rng.randint(3, 40)) for slot in free[:self.rng.randint(1, 3)]]

    def read(self, ids):
        if self.mode != "graph":
            return ids.tolist()
        done, pinned = torch.cuda.Event(), torch.empty(len(ids), dtype=torch.long, pin_memory=True)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            pinned.copy_(ids, non_blocking=True)
            done.record()
        ids.record_stream(self.side)
        if self.late:
            self.late.synchronize()
        self.late = done
        return [7] * len(ids)  # the ids are not known yet: any will do

    def log(self, start, kind, requests, tokens, made):
        self.truth.write(json.dumps(dict(kind=kind, requests=requests, tokens=tokens, made=made, start_ns=start,
                                         end_ns=time.time_ns())) + "\n")

    def step(self):
        new, start = self.arrivals(), time.time_ns()
        old = self.running if not new or self.mode == "mixed" else []
        lengths = [n for _, n, _ in new]
        rows = [(7, p, slot) for slot, n, _ in new for p in range(n)] + [(r[3], r[1], r[0]) for r in old]
        ids, pos, slot = (tensor(list(c)) for c in zip(*rows))
        if new:
            ends = [sum(lengths[:i + 1]) - 1 for i in range(len(new))] + [sum(lengths) + i for i in range(len(old))]
            made = self.read(self.model(ids, pos, slot, tensor(ends), lengths))
        elif self.graphs:
            made = self.read(self.graphs(ids, pos, slot))
        else:
            made = self.read(self.model(ids, pos, slot, None))
        self.log(start, "decode" if not new else "mixed" if old else "prefill", len(new) + len(old), len(rows), len(made))
        for r, i in zip(old, made[len(new):]):
            r[1], r[2], r[3] = r[1] + 1, r[2] - 1, i
        self.running += [[s, n, m, i] for (s, n, m), i in zip(new, made)]
        self.running = [r for r in self.running if r[2] > 0]


def main():
    server = Server(sys.argv[1], sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    with torch.inference_mode():
        for _ in range(steps):
            server.step()
        torch.cuda.synchronize()
    print(f"{steps} steps")


if __name__ == "__main__":
    main()
