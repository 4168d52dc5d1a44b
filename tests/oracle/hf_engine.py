"""hf_engine.py WORKER FOLDER: tests the Hugging Face engine over its protocol and compares its answers with transformers."""
import json
import os
import subprocess
import sys

import torch
import transformers
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hf_models as models  # noqa: E402

worker, folder = sys.argv[1:]
CPU = {"device": "cpu"}


class Engine:
    def __init__(self):
        self.p = subprocess.Popen([sys.executable, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)

    def ask(self, line):
        self.p.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def load(self, path, **more):
        return self.ask({"op": "load", "model": path, **CPU, **more})

    def infer(self, **more):
        return self.ask({"op": "infer", "ignore_eos": True, **more})

    def end(self):
        assert self.ask({"op": "bye"})["op"] == "bye"
        assert self.p.wait(60) == 0  # torch ends slowly on a busy machine


def must_say(reply, *words):
    assert "error" in reply and all(w in reply["error"] for w in words), (words, reply)


def plain_model(path, cls=transformers.AutoModelForCausalLM):
    torch.manual_seed(0)
    model = cls.from_config(transformers.AutoConfig.from_pretrained(path)).eval()
    model.save_pretrained(path, safe_serialization=True)
    return model


def plain_ids(model, inputs, n):
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=n, do_sample=False, pad_token_id=0)
    return out[0, inputs["input_ids"].shape[1]:].tolist()


def bad_requests(engine):
    assert engine.ask({"op": "hello"})["protocol"] == 1
    must_say(engine.ask("garbage"), "not a JSON")
    must_say(engine.ask({"op": "dance", "id": 7}), "unknown op")
    must_say(engine.ask({"op": "infer"}), "no model")
    llama = models.write(folder, "no_weights", models.LLAMA)
    must_say(engine.load(folder + "/nowhere"), "config.json", "model.path")
    must_say(engine.load(llama), "no_weights", "model.weights=synthetic:0")
    must_say(engine.load(llama, weights="synthetic:x"), "synthetic:SEED")
    must_say(engine.load(llama, weights="synthetic:0", device_map="auto"), "device_map requires")
    must_say(engine.load(models.write(folder, "unknown", {"model_type": "zebra", "architectures": ["ZebraForCausalLM"]}),
                         weights="synthetic:0"), "zebra", transformers.__version__, "another version")
    must_say(engine.load(models.write(folder, "no_decoder", {"model_type": "vit"}), weights="synthetic:0"), "no_decoder")
    if not torch.cuda.is_available():
        must_say(engine.load(llama, device="cuda:0"), "no CUDA device", "device=cpu")
    must_say(engine.load(llama, weights="synthetic:0", attn_implementation="magic"), "magic", "attn_implementation=sdpa")
    if not transformers.utils.is_flash_attn_2_available():
        must_say(engine.load(llama, weights="synthetic:0", attn_implementation="flash_attention_2"), "flash-attn package for " + sys.executable,
                 "attn_implementation=sdpa")
    engine.load(llama, weights="synthetic:0")
    must_say(engine.infer(prompt="x", inputs=["page.png"]), "processor")
    engine.load(llama, weights="synthetic:0", stages={"vision": "model.visual"})
    reply = engine.infer(prompt="x", max_new_tokens=2)
    assert reply["stages"] == {} and "no module 'model.visual'" in reply["notes"][0] and "model.layers" in reply["notes"][0], reply
    engine.load(llama, weights="synthetic:0", max_context=12)
    reply = engine.infer(prompt_ids=[3, 4, 5, 6, 7, 8, 9, 10], max_new_tokens=9, ignore_eos=True)
    assert reply["new_tokens"] == 4 and reply["stop"] == "context", reply
    must_say(engine.infer(prompt_ids=[3] * 12), "engine.max_context is 12")
    assert engine.load(llama, weights="synthetic:0")["max_batch"] > 1
    one = [engine.infer(prompt_ids=ids, max_new_tokens=6, ignore_eos=True)["ids"] for ids in ([3, 4, 5], [9, 8])]
    both = engine.infer(prompt_ids=[[3, 4, 5], [9, 8]], max_new_tokens=6, ignore_eos=True)
    assert [s["ids"] for s in both["sequences"]] == one and both["prompt_tokens"] == 5 and both["new_tokens"] == 12, (both, one)
    assert both["batch"] == 2 and len(both["token_ms"]) == 6, both
    must_say(engine.infer(prompt_ids=[[3], []]), "non-empty lists")


def text_models(engine):
    prompt = list(range(5, 25))
    for name, config in (("llama", models.LLAMA), ("qwen2_moe", models.QWEN2_MOE)):
        path = models.write(folder, name, config)
        ids = torch.tensor([prompt])
        want = plain_ids(plain_model(path), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, 16)
        for how in ({}, {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}, {"device_map": {"": "cpu"}}, {"batch": 3},
                    {"cuda_graphs": True}, {"cuda_graphs": True, "batch": 2}):
            loaded = engine.load(path, **how)
            assert loaded.get("model"), (how, loaded)  # device_map needs the accelerate package
            assert loaded["model"]["weights"] == "auto" and loaded["model"]["batch"] == how.get("batch", 1), loaded
            got = engine.infer(prompt_ids=prompt, max_new_tokens=16, id="x")
            assert got["ids"] == want, (name, how, got, want)
            assert got["id"] == "x" and got["new_tokens"] == 16 * how.get("batch", 1) and len(got["token_ms"]) == 16
            assert abs(got["decode_ms"] - sum(got["token_ms"][1:])) < 1e-6
            assert abs(got["prefill_ms"] - got["token_ms"][0]) < 1e-6
            assert got["ttft_ms"] >= got["prefill_ms"] and got["stop"] == "length"
    assert engine.ask({"op": "warmup", "prompt_ids": prompt, "max_new_tokens": 2, "rounds": 2})["rounds"] == 2


def routed_experts(model, sequences, prompt_tokens):
    """Different experts per routed layer, of prefill and as the mean of the decode steps: from the router logits of one pass over
    the finished sequences, [sequences, tokens]."""
    with torch.no_grad():
        logits = model(sequences, output_router_logits=True).router_logits
    k, (n, length) = model.config.num_experts_per_tok, sequences.shape
    chosen = [x.reshape(n, length, -1).topk(k).indices for x in logits]  # per layer: [sequences, tokens, k]
    prefill = [len(c[:, :prompt_tokens].unique()) for c in chosen]
    decode = [len(c[:, t].unique()) for t in range(prompt_tokens, length - 1) for c in chosen]
    return sum(prefill) / len(prefill), sum(decode) / len(decode)


def experts(engine):
    """The engine reports the experts that its tokens were routed to."""
    path = os.path.join(folder, "qwen2_moe")
    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    prompts = [list(range(5, 13)), list(range(100, 108))]
    engine.load(path)
    for ids in (prompts[0], prompts):
        got = engine.infer(prompt_ids=ids, max_new_tokens=9)
        made = [s["ids"] for s in got["sequences"]] if ids is prompts else [got["ids"]]
        rows = torch.tensor([p + m for p, m in zip(prompts, made)])
        want = routed_experts(model, rows, len(prompts[0]))
        said = got["experts_read"]
        assert abs(said["prefill"] - want[0]) < 1e-9 and abs(said["decode"] - want[1]) < 1e-9, (said, want)
    assert 2 < said["decode"] <= 4, said  # two sequences share some of their two experts each
    engine.load(os.path.join(folder, "llama"))
    assert "experts_read" not in engine.infer(prompt_ids=prompts[0], max_new_tokens=2), "this model has no experts"


def replayed_steps(engine):
    """Decode steps on fixed buffers, over requests of different lengths."""
    prompt, path = list(range(5, 25)), os.path.join(folder, "llama")
    engine.load(path)
    want = engine.infer(prompt_ids=prompt, max_new_tokens=24)["ids"]
    assert engine.load(path, cuda_graphs=True)["model"]["cuda_graphs"]
    for n in (16, 16, 24, 8, 2):
        got = engine.infer(prompt_ids=prompt, max_new_tokens=n)
        assert got.get("ids") == want[:n], (n, got, want)
    must_say(engine.load(path, cuda_graphs=True, compile=True), "Use one of them")


def end_tokens(engine):
    """A model stops at its end token unless ignore_eos is set, in any order of requests."""
    prompt = list(range(5, 25))
    path = os.path.join(folder, "llama")
    first = engine.load(path) and engine.infer(prompt_ids=prompt, max_new_tokens=8)["ids"]
    with open(os.path.join(path, "generation_config.json"), "w", encoding="utf-8") as f:
        json.dump({"eos_token_id": first[2]}, f)
    engine.load(path)
    stop = first.index(first[2]) + 1
    for ignore, n in ((False, stop), (True, 8), (False, stop)):
        got = engine.ask({"op": "infer", "prompt_ids": prompt, "max_new_tokens": 8, "ignore_eos": ignore})
        assert got["ids"] == first[:n] and got["stop"] == ("length" if n == 8 else "eos"), (ignore, got, first)


def deepseek_ocr(engine):
    page = os.path.join(folder, "page.png")
    Image.new("RGB", (300, 400), "white").save(page)
    request = dict(inputs=[page], prompt="<image>\nFree OCR.", max_new_tokens=5, image={"mode": "tiny"})
    path = models.write(folder, "ocr", models.OCR)
    must_say(engine.load(path), ".safetensors", "synthetic:0")
    answers = []
    for batch in (1, 2):
        loaded = engine.load(path, weights="synthetic:3", batch=batch)
        assert loaded["stages"] == ["prefill", "sam", "clip", "projector", "decode"], loaded
        a, b = engine.infer(**request), engine.infer(**request)
        assert a["ids"] == b["ids"] and a["prompt_tokens"] == batch * (1 + 73 + len("\nFree OCR.")), a
        assert set(a["stages"]) == {"sam", "clip", "projector"} and sum(a["stages"].values()) < a["prefill_ms"]
        assert a["experts_read"]["decode"] == 2 and 2 < a["experts_read"]["prefill"] <= 8, a["experts_read"]
        answers.append(a["ids"])
    assert answers[0] == answers[1], answers
    engine.load(path, weights="synthetic:3", stages={})
    assert engine.infer(**request)["stages"] == {}, "sub-stages are switched off"
    engine.load(path, weights="synthetic:3")
    must_say(engine.infer(**{**request, "prompt": "<image><image>"}), "2 <image> marks")


def remote_code(engine):
    """The vendor's code runs only with trust_remote_code, and gets the arguments of its own `infer`."""
    page = os.path.join(folder, "wide.png")
    Image.new("RGB", (1300, 700), "white").save(page)
    small = os.path.join(folder, "small-page.png")
    Image.new("RGB", (300, 400), "white").save(small)
    path = models.remote_ocr(folder)
    for batch in (1, 2):
        loaded = engine.load(path, weights="synthetic:0", trust_remote_code=True, batch=batch)
        assert loaded.get("stages") == ["prefill", "sam", "clip", "projector", "decode"], loaded
        for image in (page, small):
            got = engine.infer(inputs=[image], prompt="<image>\nFree OCR.", max_new_tokens=3, image={"mode": "gundam"})
            assert set(got.get("stages", ())) == {"sam", "clip", "projector"} and got["new_tokens"] == 3 * batch, got
        for words in ({"prompt": "no page"}, {"prompt_ids": [0, 5, 6]}):
            got = engine.infer(max_new_tokens=3, **words)
            assert got.get("stages") == {} and got["new_tokens"] == 3 * batch, got
    must_say(engine.infer(inputs=[page, small], prompt="<image><image>x"), "one image per prompt", "the request has 2", "trust_remote_code")
    old = "from transformers.models.llama.modeling_llama import AttentionOfYore\n" + models.REMOTE_OCR
    must_say(engine.load(models.remote_ocr(folder, "old_ocr", old), weights="synthetic:0", trust_remote_code=True),
             "AttentionOfYore", "transformers", "4.46.3", transformers.__version__)
    missing = "import no_such_package\n" + models.REMOTE_OCR
    must_say(engine.load(models.remote_ocr(folder, "missing_ocr", missing), weights="synthetic:0", trust_remote_code=True),
             "pip install no_such_package")
    if not torch.cuda.is_available():
        engine.load(models.remote_ocr(folder, "cuda_ocr", asks_for_cuda=True), weights="synthetic:0", trust_remote_code=True)
        must_say(engine.infer(inputs=[small], prompt="<image>"), "own code requires CUDA", "leave out trust_remote_code")
    path = models.short_of_memory(folder)
    engine.load(path, weights="synthetic:0", trust_remote_code=True)
    replies = [engine.infer(prompt="abc", max_new_tokens=2) for _ in range(5)]
    assert ["error" in r for r in replies] == [False, False, False, True, False], replies
    assert replies[3]["error"] == ("out of device memory: CUDA out of memory. Tried to allocate 2.00 GiB. Use a smaller batch, "
                                   "fewer tokens, a smaller dtype, or another device"), replies[3]


def vision_model(engine):
    """A vision model of transformers, whose stages are given by module path."""
    path = models.llava(folder)
    model = plain_model(path, transformers.AutoModelForImageTextToText)
    processor = transformers.AutoProcessor.from_pretrained(path)
    page = os.path.join(folder, "small.png")
    Image.effect_noise((40, 30), 50).convert("RGB").save(page)
    inputs = dict(processor(text=["what is this <image>"], images=[Image.open(page).convert("RGB")], return_tensors="pt"))
    want = plain_ids(model, inputs, 8)
    tower = next(n for n, _ in model.named_modules() if n.split(".")[-1] == "vision_tower")
    for batch in (1, 2):
        loaded = engine.load(path, stages={"vision": tower}, batch=batch)
        assert loaded["stages"] == ["prefill", "vision", "decode"] and loaded["model"]["vision"], loaded
        got = engine.infer(inputs=[page], prompt="what is this <image>", max_new_tokens=8)
        assert got.get("ids") == want, (got, want)
        assert 0 < got["stages"]["vision"] < got["prefill_ms"], got


def long_positions(engine):
    """A rotary embedding that looks at positions on the host is computed before each replayed step."""
    path = models.write(folder, "phi3", models.PHI3_LONGROPE)
    torch.manual_seed(0)
    plain_model(path)
    answers = []
    for graphs in (False, True):
        loaded = engine.load(path, cuda_graphs=graphs)
        assert loaded.get("model"), loaded
        answers.append([engine.infer(prompt_ids=list(range(5, 5 + n)), max_new_tokens=12).get("ids") for n in (9, 20, 9)])
    assert answers[0] == answers[1] and answers[0][0], answers


def attention_of_ocr(engine):
    """attn_implementation reaches DeepSeek-OCR, and base_size, image_size and crop_mode its preprocessing."""
    page = os.path.join(folder, "page-tall.png")
    Image.effect_noise((700, 900), 50).convert("RGB").save(page)
    path = models.write(folder, "ocr", models.OCR)
    request = dict(inputs=[page], prompt="<image>x", max_new_tokens=4)
    answers = []
    for how in ("sdpa", "eager", "auto"):
        loaded = engine.load(path, weights="synthetic:3", attn_implementation=how)
        assert loaded["model"]["attention"] == (None if how == "auto" else how), loaded
        answers.append(engine.infer(image={"mode": "tiny"}, **request)["ids"])
    assert answers[0] == answers[1] == answers[2], answers
    must_say(engine.load(path, weights="synthetic:3", attn_implementation="magic"), "magic", "attn_implementation=sdpa")
    engine.load(path, weights="synthetic:3")
    sizes = {"base_size": 512, "image_size": 384, "crop_mode": True}
    for image, rows in ((sizes, 8 * 9 + 1 + 6 * 3 * (6 * 2 + 1)), ({"image_size": 320, "crop_mode": False}, 5 * 6 + 1)):
        got = engine.infer(image=image, **request)
        assert got["prompt_tokens"] == 1 + rows + 1, (image, rows, got)
    must_say(engine.infer(image={"image_size": 100}, **request), "image_size=100", "multiple of 64")


def vision_without_processor(engine):
    """A vision model that is only a config gets the preprocessing of its family."""
    page = os.path.join(folder, "small.png")
    Image.effect_noise((60, 90), 50).convert("RGB").save(page)
    for name, config, tokens in (("bare_llava", models.llava_config(), 4), ("bare_qwen", models.QWEN2_VL, 2 * 3 + 2)):
        path = models.write(folder, name, config)
        loaded = engine.load(path, weights="synthetic:0")
        assert loaded.get("model"), loaded
        got = engine.infer(inputs=[page], prompt="ab", max_new_tokens=3)
        assert got.get("prompt_tokens") == tokens + 2 and got["new_tokens"] == 3, got


engine = Engine()
# remote_code is last: older versions of transformers use its class for every later model of that config
for part in (bad_requests, text_models, experts, replayed_steps, end_tokens, deepseek_ocr, attention_of_ocr, long_positions, vision_model,
             vision_without_processor, remote_code):
    part(engine)
engine.end()
print("ok")
