"""nccl_one.py: one NCCL rank alone: 20 all-reduces, and 10 sends and receives to itself, through NCCL's own interface."""
import ctypes
import os

import torch

torch.cuda.set_device(0)
x = torch.ones(1 << 20, device="cuda", dtype=torch.bfloat16)
y = torch.zeros_like(x)


def find_nccl():
    """Returns the library that torch has loaded, else the one of the system."""
    for line in open("/proc/self/maps", encoding="utf-8"):
        if "libnccl" in line:
            return line.split()[-1]
    return "libnccl.so.2"


nccl = ctypes.CDLL(find_nccl())
BF16, SUM = 9, 0


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def call(name, *args):
    status = getattr(nccl, name)(*args)
    if status:
        nccl.ncclGetErrorString.restype = ctypes.c_char_p
        raise SystemExit(f"{name}: {nccl.ncclGetErrorString(status).decode()}")


version = ctypes.c_int()
call("ncclGetVersion", ctypes.byref(version))
ident, comm = Id(), ctypes.c_void_p()
call("ncclGetUniqueId", ctypes.byref(ident))
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
call("ncclCommInitRank", ctypes.byref(comm), 1, ident, 0)
stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
count, source, target = ctypes.c_size_t(x.numel()), ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())
for _ in range(20):
    call("ncclAllReduce", source, target, count, BF16, SUM, comm, stream)
for _ in range(10):
    call("ncclGroupStart")
    call("ncclSend", source, count, BF16, 0, comm, stream)
    call("ncclRecv", target, count, BF16, 0, comm, stream)
    call("ncclGroupEnd")
torch.cuda.synchronize()
assert bool((y == 1).all())
call("ncclCommDestroy", comm)
print("NCCL", version.value, "from", os.path.basename(find_nccl()), "done")
