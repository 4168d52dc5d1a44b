"""Does the engine change the answer? Runs plain `generate` twice and the engine once under several settings, until plain `generate`
repeats itself bit by bit: only then can the answers be compared. If plain `generate` does not repeat itself, reports the first module
whose output differs, and how close the two best tokens were where the answers diverge.
"""
import contextlib

import torch
import worker
from hf_rates import plain_call


@contextlib.contextmanager
def without_cudnn_attention():
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with without_cudnn_attention():
            yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def eager_experts(model):
    """Runs the experts one by one, and adds their results in that order."""
    before = getattr(model.model.config, "_experts_implementation", None)
    if before:
        model.model.set_experts_implementation("eager")
    try:
        with deterministic():
            yield
    finally:
        if before:
            model.model.set_experts_implementation(before)


def settings(model):
    yield "as it is", contextlib.nullcontext()
    yield "without cuDNN's attention", without_cudnn_attention()
    yield "deterministic algorithms, without cuDNN's attention", deterministic()
    if getattr(model.model.config, "_experts_implementation", None):
        yield "deterministic algorithms, experts one by one, without cuDNN's attention", eager_experts(model)


def answer(model, request):
    """ids and logits [tokens, vocabulary] of plain `generate`."""
    inputs = model.inputs(request)
    options = worker.generate_options(model, request, inputs["input_ids"].shape[1])
    with torch.no_grad():
        out = model.model.generate(**inputs, **options, output_logits=True, return_dict_in_generate=True)
    return out.sequences[0, inputs["input_ids"].shape[1]:].tolist(), torch.cat([x[:1].float() for x in out.logits])


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def margins(logits):
    """Difference of the two best logits, per step."""
    top = logits.topk(2, dim=-1).values
    return top[:, 0] - top[:, 1]


def divergence(a, b):
    """Where two plain answers diverge, and by how much their logits differ."""
    (ids_a, logits_a), (ids_b, logits_b) = a, b
    moved = (logits_a - logits_b).abs().amax(dim=-1)
    step = first_difference(ids_a, ids_b)
    result = {"first_step_with_other_logits": next((i for i, d in enumerate(moved.tolist()) if d > 0), None), "first_other_id": step,
            "smallest_margin": margins(logits_a).min().item(), "median_margin": margins(logits_a).median().item()}
    if step is not None:
        result.update(margin_there=margins(logits_a)[step].item(), logits_moved_there=moved[step].item())
    return result


def fingerprints(model, request):
    """(module, "input" or "output", sum of the bits) of every call of a leaf module in one plain request."""
    seen, handles = [], []

    def note(name, what, x):
        x = x[0] if isinstance(x, tuple) and x else x
        if torch.is_tensor(x) and x.is_floating_point():
            seen.append((name, what, x.detach().contiguous().view(torch.int16).to(torch.int64).sum()))

    for name, m in model.model.named_modules():
        if not list(m.children()):
            handles.append(m.register_forward_hook(lambda m, a, o, n=name: (note(n, "input", a), note(n, "output", o)) and None))
    try:
        plain_call(model, request)()
    finally:
        for h in handles:
            h.remove()
    return [(name, what, int(x)) for name, what, x in seen]


def where_sums_differ(model, request):
    """The first module call whose input or output differs between two equal requests, and the call before it."""
    a, b = fingerprints(model, request), fingerprints(model, request)
    at = first_difference(a, b)
    return None if at is None else {"call": at, "of": len(a), "module": a[at][0], "what": a[at][1], "before": a[max(0, at - 1)][:2]}


def ids(model, request):
    tried = []
    for name, setting in settings(model):
        with setting:
            a, b = answer(model, request), answer(model, request)
            repeats = a[0] == b[0] and torch.equal(a[1], b[1])
            result = {"setting": name, "new_tokens": request["max_new_tokens"], "plain_repeats_itself": repeats, "engine_as_plain": worker.infer(model, request)["ids"] == a[0],
                    **divergence(a, b)}
            if not repeats:
                result["where"] = where_sums_differ(model, {**request, "max_new_tokens": min(8, request["max_new_tokens"])})
            tried.append(result)
        if repeats:
            break
    return tried
