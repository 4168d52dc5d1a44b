"""Hugging Face generate without annotations; logs the truth about its steps.

    inferprof run -- python3 tests/gpu/step_generate.py CONFIG.json MODE TRUTH.jsonl [KEY=VALUE...]

MODE: dynamic (the default cache), static (static cache, not compiled), compiled (static cache, torch.compile as generate chooses),
or saved (the default cache; the weights are loaded from a folder of safetensors, to the CPU first).
KEY=VALUE changes the configuration: num_hidden_layers=4. The weights are random.
"""
import json
import os
import sys
import tempfile

import torch
from transformers import AutoConfig, AutoModelForCausalLM

CALLS = [(1, 37, 24), (1, 300, 40), (3, 64, 24), (1, 100, 1)]  # sequences, prompt tokens of each, new tokens of each


def main():
    path, mode, truth = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        doc = json.load(open(path))
        doc.update((k, json.loads(v)) for k, v in (a.split("=") for a in sys.argv[4:]))
        json.dump(doc, open(os.path.join(folder, "config.json"), "w"))
        config = AutoConfig.from_pretrained(folder)
    if mode == "saved":
        folder = tempfile.TemporaryDirectory()
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder.name)
        model = AutoModelForCausalLM.from_pretrained(folder.name, dtype=torch.bfloat16).eval().cuda()
    else:
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    static = dict(cache_implementation="static", disable_compile=mode == "static")
    more = {} if mode in ("dynamic", "saved") else static
    log = open(truth, "w")
    for batch, prompt, new in CALLS:
        ids = torch.randint(3, 1000, (batch, prompt), device="cuda")
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, pad_token_id=0, **more)
        made = out.shape[1] - prompt
        log.write(json.dumps(dict(kind="prefill", requests=batch, tokens=batch * prompt, made=batch)) + "\n")
        for _ in range(made - 1):
            log.write(json.dumps(dict(kind="decode", requests=batch, tokens=batch, made=batch)) + "\n")
        print(f"{batch} x {prompt} prompt tokens, {made} new ones each", flush=True)


if __name__ == "__main__":
    main()
