"""Device memory of a request over time, by kind.

torch's allocator logs its allocations and frees without their stacks. The total after each of them is split: weights (parameters and
buffers), KV cache (the tensors that the model returns, looked at after every forward), workspace (allocated before the request and
neither of the two: libraries' buffers, graph pools) and activations, which are the rest.
"""
import time

import torch

KINDS = ("weights", "kv_cache", "activations", "workspace")
MAX_EVENTS = 1 << 20
MAX_POINTS = 4000


def tensor_bytes(x, seen):
    """Bytes of the tensors in a KV cache: a list, a tuple, or an object with layers or key and value lists."""
    if isinstance(x, torch.Tensor):
        new = x.data_ptr() not in seen
        seen.add(x.data_ptr())
        return x.numel() * x.element_size() if new else 0
    if isinstance(x, (list, tuple)):
        return sum(tensor_bytes(y, seen) for y in x)
    inside = [getattr(x, name) for name in ("layers", "key_cache", "value_cache", "keys", "values") if hasattr(x, name)]
    return sum(tensor_bytes(y, seen) for y in inside if not callable(y))


def split(events, start_bytes, weights, caches):
    """[[time_ns, bytes by kind...]] of allocator events (time_ns, change in bytes) and KV cache sizes (time_ns, bytes)."""
    total, kv, at, points = start_bytes, 0, 0, []
    fixed = min(weights, start_bytes)
    kv_before = caches[0][1] if caches and caches[0][0] <= (events[0][0] if events else 0) else 0
    workspace = max(0, start_bytes - fixed - kv_before)
    for t, change in events:
        total += change
        while at < len(caches) and caches[at][0] <= t:
            kv = caches[at][1]
            at += 1
        rest = max(0, total - fixed - workspace)
        points.append([t, fixed, min(kv, rest), max(0, rest - kv), workspace])
    return points


def thin(points, most=MAX_POINTS):
    """At most `most` points: of each stretch of time the one with the largest total, so that peaks remain."""
    if len(points) <= most:
        return points
    start, step = points[0][0], (points[-1][0] - points[0][0]) / (most - 2) or 1
    best = {}
    for p in points:
        slot = int((p[0] - start) / step)
        if slot not in best or sum(p[1:]) > sum(best[slot][1:]):
            best[slot] = p
    kept = [best[s] for s in sorted(best)]
    return kept if kept[-1] is points[-1] else kept + [points[-1]]


class Recording:
    """Logs the allocations of one request. Without CUDA, `result` says why there is none."""

    def __init__(self, model, device, cache=None):
        self.device, self.on = device, device.type == "cuda"
        self.caches, self.hook = [(0, tensor_bytes(cache, set()))] if cache is not None else [], None
        if not self.on:
            return
        tensors = {t.data_ptr(): t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()] if t.device.type == "cuda"}
        self.weights = sum(tensors.values())
        self.hook = model.register_forward_hook(self._after)
        self.start_bytes, self.start_ns = torch.cuda.memory_allocated(device), time.time_ns()
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=MAX_EVENTS)

    def _after(self, module, args, output):
        cache = getattr(output, "past_key_values", None)
        if cache is not None:
            self.caches.append((time.time_ns(), tensor_bytes(cache, set())))

    def result(self):
        """Ends the recording: {"kinds", "points"}, or {"note"} if nothing was recorded."""
        if not self.on:
            return {"note": "memory is not recorded on the CPU: torch's allocator has no log there"}
        self.hook.remove()
        try:
            index = self.device.index or 0
            log = torch.cuda.memory._snapshot(self.device)["device_traces"][index]
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        signs = {"alloc": 1, "free_completed": -1}
        events = [(int(e["time_us"]) * 1000, signs[e["action"]] * e["size"]) for e in log if e["action"] in signs and "time_us" in e]
        if not events:
            return {"note": "memory was not recorded: this version of torch logs no times of allocations"}
        points = split(events, self.start_bytes, self.weights, self.caches)
        first = [min(self.start_ns, points[0][0] - 1), *split([(points[0][0], 0)], self.start_bytes, self.weights, [])[0][1:]]
        return {"kinds": list(KINDS), "points": thin([first, *points]), "device": index}
