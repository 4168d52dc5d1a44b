#!/usr/bin/env python3
"""GFLOP/s of PyTorch's matrix products on the CPU (oneDNN), for the shapes of `bench_engine gemm`: f32 and bf16.

    tests/bench/torch_products.py [THREADS]

Run it directly after build/bench/bench_engine gemm on the same idle machine. Takes the fastest of the repeats, as bench_engine does."""
import sys
import time

import torch

CASES = [("sam qkv", 4900, 2304, 768), ("sam lin1", 4096, 3072, 768), ("sam lin2", 4096, 768, 3072), ("clip fc1", 257, 4096, 1024),
         ("prefill qkv", 512, 1280, 1280), ("prefill gate", 512, 6848, 1280), ("prefill down", 512, 1280, 6848),
         ("expert gate", 48, 896, 1280)]


def best_s(x, w, repeats):
    best = float("inf")
    for _ in range(repeats + 2):
        start = time.perf_counter()
        torch.nn.functional.linear(x, w)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    print("torch %s, %d threads, oneDNN %s" % (torch.__version__, torch.get_num_threads(), torch.backends.mkldnn.is_available()))
    for name, m, n, k in CASES:
        flops = 2.0 * m * n * k
        repeats = 60 if flops < 1e9 else 9
        speed = {}
        for dtype in (torch.float32, torch.bfloat16):
            x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
            with torch.no_grad():
                speed[dtype] = flops / best_s(x, w, repeats) / 1e9
        print("%-13s [%d,%d]x[%d,%d]  f32 %.1f GFLOP/s  bf16 %.1f" % (name, m, k, n, k, speed[torch.float32], speed[torch.bfloat16]))


if __name__ == "__main__":
    main()
