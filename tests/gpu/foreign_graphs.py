"""A program without any support for inferprof: transformer layers captured into a CUDA graph and replayed. Its phases are named by NVTX
ranges, as in inference servers.

    inferprof run -- python3 tests/gpu/foreign_graphs.py [REPLAYS]
"""
import sys

import torch

replays = int(sys.argv[1]) if len(sys.argv) > 1 else 100
layers = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, norm_first=True)
                               for _ in range(8)]).to("cuda", torch.bfloat16).eval()
x = torch.randn(1, 512, 2048, device="cuda", dtype=torch.bfloat16)
one = torch.randn(1, 1, 2048, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(3):
        layers(x)
        layers(one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layers(one)
    torch.cuda.nvtx.range_push("prefill")
    layers(x)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_push("decode")
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
print("replayed", replays, "times, the last sum is", "finite" if torch.isfinite(y).all() else "not finite")
