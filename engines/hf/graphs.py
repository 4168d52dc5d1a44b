"""Decode steps as a CUDA graph: recorded once, then replayed with one launch per token.

`StepGraph` replaces a model's forward. A step is a call with one new token per sequence. Its input tensors are copied to
fixed buffers, and the recorded graph runs on those. Other calls (prefill, the first steps of a new shape) run normally.
The KV cache must keep its address, so all requests pass the same fixed-size cache to `generate`.
"""
import functools
import inspect

import torch
import transformers
from torch.utils import _pytree as pytree

WARM_STEPS = 2  # normal steps before one is recorded, in which libraries load and choose their kernels


class FixedCache:
    """A static KV cache that is kept as long as the model, and replaced by a larger one when a request needs it."""

    def __init__(self, model, batch):
        self.model, self.batch = model, batch
        self.cache, self.length = None, 0

    def for_request(self, length):
        if length <= self.length:
            self.cache.reset()
            return self.cache
        text = self.model.config.get_text_config(decoder=True)
        where = next(self.model.parameters())
        ask = {"config": text, "max_batch_size": self.batch, "max_cache_len": length, "device": where.device, "dtype": where.dtype}
        known = inspect.signature(transformers.StaticCache.__init__).parameters  # newer versions have fewer arguments
        self.cache, self.length = transformers.StaticCache(**{k: v for k, v in ask.items() if k in known}), length
        return self.cache


class HostRope:
    """A rotary embedding that chooses its frequencies on the host by the position (longrope, dynamic). Such a choice cannot be
    recorded, so the embedding runs before each replay, and the recorded step reads its result from fixed buffers."""

    def __init__(self, module):
        self.forward, self.x, self.results = module.forward, None, None
        module.forward = functools.wraps(self.forward)(lambda *args, **kwargs: self.call(*args, **kwargs))

    def call(self, x, *args, **kwargs):
        if self.results is not None:
            return self.results
        self.x = x
        return self.forward(x, *args, **kwargs)

    def prepare(self, positions):
        made = self.forward(self.x, positions)
        if self.results is None:
            self.results = tuple(m.clone() for m in made)
        for place, m in zip(self.results, made):
            place.copy_(m)


def host_ropes(model):
    return [HostRope(m) for m in model.modules() if getattr(m, "rope_type", "default") in ("longrope", "dynamic")]


def positions_of(kwargs, cache):
    """The positions of the step's tokens, [batch, 1]."""
    if kwargs.get("position_ids") is not None:
        return kwargs["position_ids"]
    if kwargs.get("cache_position") is not None:
        return kwargs["cache_position"][None]
    ids = kwargs["input_ids"]
    return torch.full(ids.shape, int(cache.get_seq_length()), dtype=torch.long, device=ids.device)


class StepGraph:
    def __init__(self, model):
        self.forward = model.forward
        self.ropes = host_ropes(model)
        self.key = self.graph = self.inputs = self.output = None
        self.seen = 0
        self.cuda = next(model.parameters()).is_cuda
        model.forward = functools.wraps(self.forward)(lambda *args, **kwargs: self.call(args, kwargs))

    def use_ropes_normally(self):
        for rope in self.ropes:
            rope.results = None

    def call(self, args, kwargs):
        ids = kwargs.get("input_ids")
        if args or ids is None or ids.shape[-1] != 1 or kwargs.get("past_key_values") is None:
            kept = [rope.results for rope in self.ropes]
            self.use_ropes_normally()
            try:
                return self.forward(*args, **kwargs)
            finally:
                for rope, results in zip(self.ropes, kept):
                    rope.results = results
        cache = kwargs.pop("past_key_values")
        leaves, spec = pytree.tree_flatten(kwargs)
        key = (id(cache), spec, *(tuple(x.shape) if torch.is_tensor(x) else x for x in leaves))
        if key != self.key:
            self.key, self.seen, self.graph = key, 0, None
            self.use_ropes_normally()
        if self.graph is None and self.seen < WARM_STEPS:
            self.seen += 1
            return self.forward(**kwargs, past_key_values=cache)
        for rope in self.ropes:
            rope.prepare(positions_of(kwargs, cache))
        if self.graph is None:
            self.record(leaves, spec, cache)
        for place, x in zip(self.inputs, leaves):
            if torch.is_tensor(x):
                place.copy_(x)
        self.graph.replay()
        return self.output

    def record(self, leaves, spec, cache):
        self.inputs = [x.clone() if torch.is_tensor(x) else x for x in leaves]
        step = functools.partial(self.forward, **pytree.tree_unflatten(self.inputs, spec), past_key_values=cache)
        if not self.cuda:
            self.graph = EagerReplay(self, step)
            return
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.output = step()
        except RuntimeError as e:
            raise ValueError("cuda_graphs: a decode step of this model cannot be recorded, because it reads a value back from the "
                             f"GPU or has shapes that depend on one ({str(e).strip().splitlines()[0]}); leave out "
                             "engine.load.cuda_graphs, or use engine.load.compile=reduce-overhead") from e
        self.graph = graph


class EagerReplay:
    """The fallback without CUDA: runs the same step on the same fixed buffers."""

    def __init__(self, owner, step):
        self.owner, self.step = owner, step

    def replay(self):
        self.owner.output = self.step()
