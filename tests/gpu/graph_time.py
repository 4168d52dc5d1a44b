"""A PyTorch program that knows nothing of inferprof: replays a CUDA graph and reads a result after each replay, as a decode loop does.
Prints the mean time per replay in ms: of all, and of those after the first 100.

    inferprof run -- python3 tests/gpu/graph_time.py [REPLAYS]
"""
import json
import sys
import time

import torch

replays = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
layer = torch.nn.Linear(2048, 2048, bias=False).to("cuda", torch.bfloat16)
x = torch.randn(1, 2048, device="cuda", dtype=torch.bfloat16)


def step():
    y = x
    for _ in range(60):
        y = torch.nn.functional.rms_norm(y + layer(y), (2048,))
    return y.argmax()


with torch.no_grad():
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    times = [time.perf_counter()]
    for _ in range(replays):
        graph.replay()
        out.item()
        times.append(time.perf_counter())
print(json.dumps({"replays": replays, "mean_ms": 1e3 * (times[-1] - times[0]) / replays,
                  "later_ms": 1e3 * (times[-1] - times[100]) / (replays - 100)}))
