#!/usr/bin/env python3
"""Writes tests/data/engine/safetensors_types.json: fp8 and int8 numbers according to PyTorch, and stacked MXFP4 experts of gpt_oss
according to transformers. Needs torch and transformers."""
import json
import sys

import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors


def bits(t):
    return [int(v) & 0xFFFFFFFF for v in t.float().contiguous().view(torch.int32).flatten().tolist()]


codes = torch.tensor([c for c in range(256) if c & 0x7F != 0x7F], dtype=torch.uint8)  # without NaN
every = torch.arange(256, dtype=torch.uint8)
torch.manual_seed(3)
blocks = torch.randint(0, 256, (2, 6, 2, 16), dtype=torch.uint8)  # 2 experts, gate and up of 3 rows each, 64 columns
scales = torch.randint(118, 134, (2, 6, 2), dtype=torch.uint8)
numbers = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
if tuple(numbers.shape) == (2, 64, 6):  # transformers transposes for its own product
    numbers = numbers.transpose(1, 2)
assert tuple(numbers.shape) == (2, 6, 64), numbers.shape
out = {
    "f8_e4m3": {"bytes": bytes(codes.tolist()).hex(), "bits": bits(codes.view(torch.float8_e4m3fn))},
    "i8": {"bytes": bytes(every.tolist()).hex(), "bits": bits(every.view(torch.int8))},
    "stacked": {"blocks": bytes(blocks.flatten().tolist()).hex(), "scales": bytes(scales.flatten().tolist()).hex(), "bits": bits(numbers)},
}
with open(sys.argv[1], "w", encoding="utf-8") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
