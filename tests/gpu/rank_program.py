"""rank_program.py gloo|nccl: a rank of two on one GPU: matrix products, and 50 all-reduces of 1,048,576 elements."""
import os
import sys

import torch
import torch.distributed as dist

backend = sys.argv[1]
torch.cuda.set_device(0)
dist.init_process_group(backend)
rank = dist.get_rank()
x = torch.ones(1 << 20, device="cuda", dtype=torch.bfloat16)
w = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
for step in range(50):
    torch.cuda.nvtx.range_push("decode")
    for _ in range(4 + 4 * rank):  # rank 1 computes longer
        w = torch.tanh(w @ w)
    dist.all_reduce(x)
    torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
dist.barrier()
dist.destroy_process_group()
print("rank", rank, "of", os.environ["WORLD_SIZE"], "done")
