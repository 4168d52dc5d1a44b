"""gemm_log.py FILE: writes the lines of cuBLASLt's logger for a few products to FILE, and prints the logger's overhead on a small product.
The lines in tests/unit/collect/test_gemm_log.c were recorded with it.
"""
import ctypes
import sys
import time

import torch

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)


def library():
    for line in open("/proc/self/maps"):
        if "libcublasLt.so" in line:
            return ctypes.CDLL(line.split()[-1])
    raise SystemExit("cuBLASLt is not loaded")


def per_product_us(a, n=2000):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        a @ a
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n * 1e6


def main():
    a = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    a @ a
    lt = library()
    out = open(sys.argv[1], "w")
    on = [True]

    def log(level, function, message):
        if on[0]:
            out.write(f"{level}\t{(function or b'').decode()}\t{(message or b'').decode()}\n")

    callback = CALLBACK(log)
    quiet = per_product_us(a)
    print("file:", lt.cublasLtLoggerOpenFile(b"/dev/null"), "callback:", lt.cublasLtLoggerSetCallback(callback),
          "mask:", lt.cublasLtLoggerSetMask(2))
    x = torch.randn(16, 4096, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(1024, 4096, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.linear(x, w)
    torch.nn.functional.linear(x, w, torch.zeros(1024, device="cuda", dtype=torch.bfloat16))
    torch.bmm(torch.randn(4, 64, 32, device="cuda"), torch.randn(4, 32, 48, device="cuda"))
    torch.randn(100, 200, device="cuda", dtype=torch.float16) @ torch.randn(200, 300, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    out.flush()
    on[0] = False
    logged = per_product_us(a)
    lt.cublasLtLoggerSetMask(0)
    print(f"a 512x512x512 product: {quiet:.2f} us, {logged:.2f} us with the logger and an empty Python callback")


if __name__ == "__main__":
    main()
