"""hf_engine.py WORKER FOLDER: drives the Hugging Face engine over its protocol and compares with transformers itself."""
import json
import os
import subprocess
import sys

import torch
import transformers

worker, folder = sys.argv[1:]
CONFIGS = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
              "torch_dtype": "float32", "max_position_embeddings": 512},
    "qwen2_moe": {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
                  "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
                  "torch_dtype": "float32"},
    "ocr": {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"], "torch_dtype": "float32",
            "language_config": {"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "num_hidden_layers": 3,
                                "num_attention_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "vocab_size": 400},
            "vision_config": {"width": {"sam_vit_b": {"width": 48, "layers": 3, "heads": 4, "global_attn_indexes": [2],
                                                      "downsample_channels": [32, 64]},
                                        "clip-l-14-224": {"width": 64, "layers": 2, "heads": 4}}}},
}


def folder_of(name):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(CONFIGS[name], f)
    return path


class Engine:
    def __init__(self):
        self.p = subprocess.Popen([sys.executable, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)

    def ask(self, line):
        self.p.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())


def plain_ids(path, prompt_ids, n):
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(path, safe_serialization=True)
    out = model.generate(torch.tensor([prompt_ids]), max_new_tokens=n, do_sample=False, eos_token_id=None, pad_token_id=0)
    return out[0, len(prompt_ids):].tolist()


engine = Engine()
assert engine.ask({"op": "hello"})["protocol"] == 1
assert "not a JSON" in engine.ask("garbage")["error"]
assert "unknown op" in engine.ask({"op": "dance", "id": 7})["error"]
assert "no model" in engine.ask({"op": "infer"})["error"]
assert "config.json" in engine.ask({"op": "load", "model": folder + "/nowhere"})["error"]
if not torch.cuda.is_available():
    assert "device=cpu" in engine.ask({"op": "load", "model": folder_of("llama"), "device": "cuda:0"})["error"]

for name in ("llama", "qwen2_moe"):
    path, prompt = folder_of(name), list(range(5, 25))
    want = plain_ids(path, prompt, 16)
    assert engine.ask({"op": "load", "model": path, "device": "cpu"})["model"]["weights"] == "auto"
    got = engine.ask({"op": "infer", "prompt_ids": prompt, "max_new_tokens": 16, "ignore_eos": True, "id": "x"})
    assert got["ids"] == want, (name, got["ids"], want)
    assert got["id"] == "x" and got["new_tokens"] == 16 and len(got["token_ms"]) == 16
    assert abs(got["decode_ms"] - sum(got["token_ms"][1:])) < 1e-6
    assert abs(got["prefill_ms"] - got["token_ms"][0]) < 1e-6

from PIL import Image
page = os.path.join(folder, "page.png")
Image.new("RGB", (300, 400), "white").save(page)
loaded = engine.ask({"op": "load", "model": folder_of("ocr"), "weights": "synthetic:3", "device": "cpu"})
assert loaded["stages"] == ["prefill", "sam", "clip", "projector", "decode"], loaded
request = {"op": "infer", "inputs": [page], "prompt": "<image>\nFree OCR.", "max_new_tokens": 5, "ignore_eos": True,
           "image": {"mode": "tiny"}}
a, b = engine.ask(request), engine.ask(request)
assert a["ids"] == b["ids"] and a["prompt_tokens"] == 1 + 73 + len("\nFree OCR."), a
assert set(a["stages"]) == {"sam", "clip", "projector"} and sum(a["stages"].values()) < a["prefill_ms"]
assert "marks 2 images" in engine.ask({**request, "prompt": "<image><image>"})["error"]
assert engine.ask({"op": "bye"})["op"] == "bye"
assert engine.p.wait(10) == 0
print("ok")
