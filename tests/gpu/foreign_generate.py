"""A program without any support for inferprof: a language model with random weights answers two prompts.

    inferprof run -- python3 tests/gpu/foreign_generate.py MODEL_DIR [NEW_TOKENS]
"""
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

new = int(sys.argv[2]) if len(sys.argv) > 2 else 32
with torch.device("cuda"):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(sys.argv[1]), dtype=torch.bfloat16).eval()
for prompt_tokens in (32, 512):
    ids = torch.randint(3, 1000, (1, prompt_tokens), device="cuda")
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, pad_token_id=0)
    print(f"{prompt_tokens} prompt tokens, {out.shape[1] - prompt_tokens} new ones")
