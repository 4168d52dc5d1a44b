"""counters_load.py OUT.json: 0.5 s of copies, then 0.5 s of matrix products; writes when each phase ran, and how fast."""
import json
import sys
import time

import torch

phases = []


def phase(name, work, seconds=0.5):
    work()
    torch.cuda.synchronize()
    start, wall, n = time.time_ns(), time.perf_counter(), 0
    while time.perf_counter() - wall < seconds:
        for _ in range(4):
            work()
        n += 4
        torch.cuda.synchronize()
    phases.append({"name": name, "start_ns": start, "end_ns": time.time_ns(), "per_second": n / (time.perf_counter() - wall)})


a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
big = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
other = torch.empty_like(big)
phase("copy", lambda: other.copy_(big))
phase("gemm", lambda: a @ b)
time.sleep(0.2)
phases[0]["gb_per_s"] = phases[0]["per_second"] * 2 * big.numel() / 1e9
phases[1]["tflop_per_s"] = phases[1]["per_second"] * 2 * 8192**3 / 1e12
json.dump(phases, open(sys.argv[1], "w"))
print(phases)
