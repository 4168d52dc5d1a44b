"""Counts the experts that the tokens of a pass were routed to. Nothing is computed while the request is timed: hooks keep the
chosen indices (or the router's logits) on the device, and `counts` evaluates them afterwards.

Two kinds of mixture-of-experts blocks are supported. Newer versions of transformers call one `experts` module with the chosen
indices as an argument. Older ones, and dsocr.py, have a list of experts and a `gate` or `router`: a linear layer whose largest
outputs choose the experts, or a module that returns indices. In all other cases the routing is unknown, and nothing is reported.
"""
import torch

MAX_BYTES = 256 << 20  # kept per request; longer requests are not counted


def integers(values):
    """The first tensor of integers in arguments or outputs, of shape [..., k]."""
    for x in values:
        if torch.is_tensor(x) and not x.is_floating_point() and x.dtype != torch.bool and x.dim() >= 2:
            return x
    return None


def experts_per_token(model):
    config = model.config
    for c in (config, getattr(config, "text_config", None), getattr(config, "language_config", None)):
        for name in ("num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts"):
            value = c.get(name) if isinstance(c, dict) else getattr(c, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


class Routing:
    def __init__(self, model, steps):
        self.steps, self.k = steps, experts_per_token(model)
        self.passes, self.bytes, self.unknown, self.handles = {}, 0, False, []
        for block in model.modules():
            experts = getattr(block, "experts", None)
            if isinstance(experts, torch.nn.ModuleList):
                self.watch_router(getattr(block, "gate", None) or getattr(block, "router", None))
            elif isinstance(experts, torch.nn.Module):
                self.handles.append(experts.register_forward_pre_hook(
                    lambda m, args, kwargs: self.keep(integers([*args, *kwargs.values()])), with_kwargs=True))

    def watch_router(self, router):
        if not isinstance(router, torch.nn.Module):
            self.unknown = True
            return
        linear = isinstance(router, torch.nn.Linear)

        def hook(module, args, output):
            if linear and self.k:
                self.keep(output)
            else:
                self.keep(None if linear else integers(output if isinstance(output, (list, tuple)) else [output]))
        self.handles.append(router.register_forward_hook(hook))

    def keep(self, tensor):
        """`tensor`: indices [..., k], or logits [..., experts]."""
        self.bytes += tensor.numel() * tensor.element_size() if tensor is not None else 0
        if tensor is None or self.bytes > MAX_BYTES:
            self.unknown, self.passes = True, {}
        if not self.unknown:
            self.passes.setdefault(len(self.steps.moments) - 1, []).append(tensor.detach())

    def distinct(self, tensors):
        """Mean number of different experts of tensors of one shape: one per routed layer and pass."""
        x = torch.stack([t.reshape(-1, t.shape[-1]) for t in tensors])  # [tensors, tokens, k or experts]
        chosen = x.float().topk(self.k, dim=-1).indices if x.is_floating_point() else x
        ordered = chosen.flatten(1).sort(dim=1).values
        return ((ordered[:, 1:] != ordered[:, :-1]).sum(1) + 1).double().mean().item()

    def mean_of(self, passes):
        """Over all passes and layers. A stack holds the tensors of one shape and device: layers may be on several."""
        groups = {}
        for tensors in passes:
            for t in tensors:
                groups.setdefault((t.shape, t.device, t.dtype), []).append(t)
        n = sum(len(g) for g in groups.values())
        return sum(self.distinct(g) * len(g) for g in groups.values()) / n if n else None

    def counts(self, decode_passes):
        """{"prefill", "decode"}: experts per routed layer and pass; None: the model has none, or the routing is unknown.
        The decode steps of a CUDA graph do not call the hooks, so that decode is unknown then."""
        if self.unknown or not self.passes.get(0):
            return None
        decode = [t for number, t in self.passes.items() if number > 0]
        made = {"prefill": self.mean_of([self.passes[0]])}
        if decode and len(decode) >= decode_passes:
            made["decode"] = self.mean_of(decode)
        return made

    def close(self):
        for h in self.handles:
            h.remove()
