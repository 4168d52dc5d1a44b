"""plain_loop.py MODEL_DIR PROMPT_TOKENS NEW_TOKENS: tokens a second of plain `generate`, timed without inferprof: the figure that a
report's decode rate must agree with."""
import statistics
import sys
import time

import torch
import transformers

path, prompt, new = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = transformers.AutoConfig.from_pretrained(path)
with torch.device("cuda"):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
ids = torch.randint(3, 250, (1, prompt), device="cuda")


def generate(n):
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.no_grad():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize()
    return time.perf_counter() - start


generate(new)
one = statistics.median(generate(1) for _ in range(10))
rates = [(new - 1) / (generate(new) - one) for _ in range(10)]
print("plain generate: prefill %.1f ms, decode %.2f tok/s (median of 10, %.2f to %.2f)" %
      (one * 1e3, statistics.median(rates), min(rates), max(rates)))
