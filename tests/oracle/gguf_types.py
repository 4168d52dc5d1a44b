#!/usr/bin/env python3
"""Writes tests/data/engine/gguf_types.json: blocks of every ggml type that the engine reads, and their numbers according
to the `gguf` package (PyPI). Needs gguf and numpy. Scales are moderate; all other bits of the blocks are random."""
import json
import sys

import gguf
import numpy as np

TYPES = {  # type: positions of f16 scales in a block
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "MXFP4": [], "F16": None, "BF16": None,
}
rng = np.random.default_rng(5)
out = {}
for name, scales in TYPES.items():
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    n = max(1, 256 // block) if block > 1 else 256
    if scales is None:
        numbers = rng.standard_normal(n).astype(np.float32)
        raw = gguf.quants.quantize(numbers, kind).view(np.uint8).reshape(-1)
    else:
        raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for at in scales:
            raw[:, at:at + 2] = (rng.uniform(-0.1, 0.1, n).astype(np.float16)).view(np.uint8).reshape(n, 2)
        if name == "MXFP4":
            raw[:, 0] = np.array([0, 1, 2, 120, 127, 130, 100, 126], dtype=np.uint8)[:n]
        raw = raw.reshape(-1)
    values = gguf.quants.dequantize(raw, kind).reshape(-1).astype(np.float32)
    out[name.lower()] = {"bytes": raw.tobytes().hex(), "bits": [int(v) for v in values.view(np.uint32)]}
with open(sys.argv[1], "w", encoding="utf-8") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
