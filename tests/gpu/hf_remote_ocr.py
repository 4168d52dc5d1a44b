#!/usr/bin/env python3
"""hf_remote_ocr.py MODEL_DIR PAGE OUT.json: runs DeepSeek-OCR's own code in the engine, and compares it with the model's own `infer`
and with engines/hf/dsocr.py.

MODEL_DIR holds config.json (with its auto_map) and the vendor's .py files, which this project does not ship; weights are random.
Needs transformers 4.46.3 and the packages that code imports. Three parts, each written to OUT.json when it is done:
  infer    ids and inputs of the engine against those of the model's own `infer`
  turns    stage times of both implementations in one process, in short requests A B B A, as ratios of pairs
  weights  the same random weights in both: vision features, logits, greedy ids
"""
import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engines/hf"))
import worker  # noqa: E402
from bootstrap import bootstrap  # noqa: E402

PROMPT = "<image>\n<|grounding|>Convert the document to markdown."
SIDES = {"tiny": (512, 512, False), "base": (1024, 1024, False), "gundam": (1024, 640, True)}  # as `infer` takes them


def quietly(call):
    with contextlib.redirect_stdout(io.StringIO()):  # the vendor's code prints shapes
        return call()


def log(*words):
    print(f"[{time.perf_counter() - START:5.1f}]", *words, file=sys.stderr, flush=True)


class Bytes:
    """The engine's fallback without a tokenizer: one token per byte."""
    eos_token_id = 1

    def encode(self, text, add_special_tokens=False):
        return [3 + b for b in text.encode()]

    def decode(self, ids, **more):
        return ""


def load(args, dtype, remote):
    return worker.Model({"model": args.model, "device": args.device, "dtype": dtype, "weights": "synthetic:1",
                         "trust_remote_code": remote})


def page_request(args, **more):
    return {"inputs": [args.page], "prompt": PROMPT, "image": {"mode": args.mode}, **more}


# ---- infer

def own_infer(model, args, new):
    """The arguments that the model's `infer` passes to `generate`, and the result."""
    seen, generate = {}, model.model.generate

    def watched(ids, **options):
        seen.update(options, ids=ids)
        seen["out"] = generate(ids, **{**options, "max_new_tokens": new})
        return seen["out"]

    base, side, crop = SIDES[args.mode]
    model.model.generate = watched
    try:
        quietly(lambda: model.model.infer(Bytes(), prompt=PROMPT, image_file=args.page, output_path=args.scratch, base_size=base,
                                          image_size=side, crop_mode=crop, eval_mode=True))
    finally:
        del model.model.generate
    return seen


def check_infer(model, args, new=16):
    request = page_request(args, max_new_tokens=new, sampling={"no_repeat_ngram": 35})  # 35 as in eval_mode
    got, mine = quietly(lambda: worker.infer(model, request)), model.inputs(request)
    want = own_infer(model, args, new)
    pixels = [float((a.float() - b.float()).abs().max()) for a, b in zip(want["images"][0], mine["images"][0])]
    same = {k: torch.equal(a, b) for k, a, b in (("prompt", want["ids"], mine["input_ids"]),
                                                 ("mask", want["images_seq_mask"], mine["images_seq_mask"]),
                                                 ("grid", want["images_spatial_crop"], mine["images_spatial_crop"]))}
    ids = want["out"][0, want["ids"].shape[1]:].tolist()
    return {"ids_equal": ids == got["ids"], "ids": got["ids"], "prompt_tokens": got["prompt_tokens"], "inputs_equal": same,
            "pixels_max_difference": pixels}


# ---- turns

def stage_ms(model, request):
    got = quietly(lambda: worker.infer(model, request))
    return {"prefill": got["prefill_ms"], **got["stages"], "token": statistics.median(got["token_ms"][1:])}


def turns(vendor, own, args):
    request = page_request(args, max_new_tokens=6, ignore_eos=True)
    for model in (vendor, own, vendor, own):
        stage_ms(model, request)
    pairs, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        a, b, c, d = (stage_ms(m, request) for m in (vendor, own, own, vendor))
        pairs += [(a, b), (d, c)]
    out = {"pairs": len(pairs)}
    for stage in pairs[0][0]:
        ratio, low, high = bootstrap([a[stage] / b[stage] for a, b in pairs], statistics.median, 2000)
        out[stage] = {"vendor_ms": statistics.median(a[stage] for a, _ in pairs), "own_ms": statistics.median(b[stage] for _, b in pairs),
                      "ratio": ratio, "ratio_ci95": [low, high]}
    return out


# ---- weights

def share_weights(vendor, own):
    """Gives both models the same weights. Norms, biases and position tables are random too: ones and zeros would hide errors."""
    mine = dict(own.model.named_parameters())
    generator = torch.Generator(device=vendor.device).manual_seed(7)
    with torch.no_grad():
        for name, p in vendor.model.named_parameters():
            if p.dim() < 2:
                p.normal_(1.0 if name.endswith("weight") else 0.0, 0.1, generator=generator)
            elif any(table in name for table in ("rel_pos", "pos_embed", "position_embedding")):
                p.normal_(0.0, 0.3, generator=generator)
            elif "embed_tokens" in name:
                p.normal_(0.0, 1.0, generator=generator)
            if worker.dsocr_name(name) in mine:
                mine.pop(worker.dsocr_name(name)).copy_(p)
    assert not mine, list(mine)[:3]


def difference(a, b):
    return {"max_difference": float((a.float() - b.float()).abs().max()), "max": float(a.float().abs().max())}


def view_features(vendor, own, side):
    pixels = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(side)).to(vendor.device, vendor.dtype) * 0.5
    theirs = vendor.model.model
    sam = theirs.sam_model(pixels)
    clip = theirs.vision_model(pixels, sam)[:, 1:]
    both = torch.cat((clip, sam.flatten(2).permute(0, 2, 1)), dim=-1)
    return {"sam": difference(sam, own.model.sam_model(pixels)), "clip": difference(clip, own.model.vision_model(sam)),
            "projector": difference(theirs.projector(both), own.model.projector(both))}


def same_weights(vendor, own, args, new=24):
    share_weights(vendor, own)
    request = page_request(args, max_new_tokens=new, ignore_eos=True)
    with torch.no_grad():
        with vendor.autocast():
            out = {f"view of {side}": view_features(vendor, own, side) for side in args.sides}
            logits = quietly(lambda: vendor.model(**vendor.inputs(request), return_dict=True).logits[:, -1])
        out["logits"] = difference(logits, own.model(**own.inputs(request)).logits[:, -1])
    ids = [quietly(lambda m=m: worker.infer(m, request))["ids"] for m in (vendor, own)]
    return {**out, "ids_equal": ids[0] == ids[1], "ids": ids[0], "ids_own": ids[1]}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("page")
    p.add_argument("out")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--mode", default="gundam", choices=sorted(SIDES))
    p.add_argument("--seconds", type=float, default=15, help="duration of the part `turns`")
    p.add_argument("--sides", type=lambda s: [int(n) for n in s.split(",")], default=[512, 640, 1024, 1280])
    p.add_argument("--parts", default="infer,turns,weights")
    p.add_argument("--dtypes", default="bf16,f32", help="dtypes of the part `weights`")
    p.add_argument("--scratch", default="/tmp/hf_remote_ocr")
    return p.parse_args()


def main():
    args = arguments()
    result = {"versions": {"torch": torch.__version__, "transformers": worker.transformers.__version__, "python": sys.version.split()[0],
                           "device": torch.cuda.get_device_name() if args.device != "cpu" else "cpu"}}

    def done(name, value):
        result[name] = value
        log(name, json.dumps(value))
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for dtype in args.dtypes.split(","):
        vendor, own = load(args, dtype, True), load(args, dtype, False)
        done(f"{dtype} parameters", [sum(p.numel() for p in m.model.parameters()) for m in (vendor, own)])
        if dtype == "bf16" and "infer" in args.parts:
            done("infer", check_infer(vendor, args))
        if dtype == "bf16" and "turns" in args.parts:
            done("turns", turns(vendor, own, args))
        if "weights" in args.parts:
            done(f"{dtype} weights", same_weights(vendor, own, args))
        del vendor, own
        worker.free_memory()


START = time.perf_counter()
worker.import_libraries()
import torch  # noqa: E402  (the worker reports it if missing)

if __name__ == "__main__":
    main()
