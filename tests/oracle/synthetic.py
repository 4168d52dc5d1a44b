"""The generator of synthetic weights (src/engine/weights/synthetic.c) in numpy, so that fixtures need not contain weights."""
import numpy as np

MASK = (1 << 64) - 1


def _words(seed, name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    h ^= (seed * 0x9E3779B97F4A7C15) & MASK
    h = ((h ^ h >> 30) * 0xBF58476D1CE4E5B9) & MASK
    h = ((h ^ h >> 27) * 0x94D049BB133111EB) & MASK
    h ^= h >> 31
    return np.uint32(h & 0xFFFFFFFF), np.uint32(h >> 32)


def stream(seed, name, n, scale, offset=0.0):
    a, b = _words(seed, name)
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) + a
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= x >> np.uint32(15)
        x = (x ^ b) * np.uint32(0x846CA68B)
        x ^= x >> np.uint32(16)
    step = np.float32(scale) * np.float32(2.0 ** -31)
    return np.float32(offset) + x.view(np.int32).astype(np.float32) * step


def matrix(seed, name, rows, cols):
    return stream(seed, name, rows * cols, np.float32(np.sqrt(3.0 / cols))).reshape(rows, cols)


def norm(seed, name, n):
    return stream(seed, name, n, 0.1, 1.0)


def bias(seed, name, n):
    return stream(seed, name, n, 0.1)


def rows(seed, name, n):
    return stream(seed, name, n, 1.0)
