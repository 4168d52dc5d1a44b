#!/usr/bin/env python3
"""Writes GGUF files of the shape of Qwen3-0.6B with random weights and no vocabulary, for tests/bench/llama_bench.py.

    tests/bench/make_gguf.py [--layers N] FOLDER [bf16] [f16] [f32] [q8_0] [q4_k_m]

With fewer than the 28 layers the vocabulary shrinks in proportion, so that the layers' share of the work stays the same. Needs
only Python: each tensor repeats a tile of random numbers, which costs as much as other numbers. Q4_K_M is the mixture of
llama.cpp: Q6_K for the embedding, and for the values and the down projection of half of the layers."""
import os
import random
import struct
import sys

ALL_LAYERS, HIDDEN, HEADS, KV, DIM, INNER, ALL_VOCAB = 28, 1024, 16, 8, 128, 3072, 151936
F32, F16, BF16, Q8_0, Q4_K, Q6_K = 0, 1, 30, 8, 12, 14
BLOCKS = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}
KINDS = {"bf16": (BF16, 32), "f16": (F16, 1), "f32": (F32, 0), "q8_0": (Q8_0, 7), "q4_k_m": (Q4_K, 15)}
ALIGN = 32


def tile(kind):
    """About 1 MB of blocks: numbers between -0.04 and 0.04."""
    rng = random.Random(kind)
    half = struct.pack("<e", 0.0003)
    out = bytearray()
    if kind in (F32, F16, BF16):
        for _ in range(1 << 17):
            v = rng.uniform(-0.04, 0.04)
            out += struct.pack("<f", v)[2:] if kind == BF16 else struct.pack("<e" if kind == F16 else "<f", v)
        return bytes(out)
    for _ in range((1 << 20) // BLOCKS[kind][1]):
        if kind == Q8_0:
            out += half + rng.randbytes(32)
        elif kind == Q4_K:
            out += struct.pack("<ee", 0.00008, 0.0006) + bytes(b & 0x3f for b in rng.randbytes(12)) + rng.randbytes(128)
        else:
            out += rng.randbytes(192) + rng.randbytes(16) + struct.pack("<e", 0.00001)
    return bytes(out)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def vocabulary(layers):
    return ALL_VOCAB * layers // ALL_LAYERS // 32 * 32


def metadata(file_type, layers):
    u32, f32 = 4, 6
    rows = [("general.architecture", None, "qwen3"), ("general.name", None, "random"), ("tokenizer.ggml.model", None, "none"),
            ("general.file_type", u32, file_type), ("qwen3.block_count", u32, layers), ("qwen3.embedding_length", u32, HIDDEN),
            ("qwen3.context_length", u32, 8192), ("qwen3.feed_forward_length", u32, INNER), ("qwen3.attention.head_count", u32, HEADS),
            ("qwen3.attention.head_count_kv", u32, KV), ("qwen3.attention.key_length", u32, DIM),
            ("qwen3.attention.value_length", u32, DIM), ("qwen3.rope.dimension_count", u32, DIM),
            ("qwen3.attention.layer_norm_rms_epsilon", f32, 1e-6), ("qwen3.rope.freq_base", f32, 1e6),
            ("qwen3.vocab_size", u32, vocabulary(layers))]
    out = b""
    for key, kind, value in rows:
        out += text(key)
        out += struct.pack("<I", 8) + text(value) if kind is None else struct.pack("<II" if kind == u32 else "<If", kind, value)
    return out, len(rows)


def tensors(main, layers):
    """(name, type, dimensions, innermost first)"""
    better = Q6_K if main == Q4_K else main
    out = [("token_embd.weight", better, (HIDDEN, vocabulary(layers))), ("output_norm.weight", F32, (HIDDEN,))]
    for i in range(layers):
        more = i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2
        p = "blk.%d." % i
        out += [(p + "attn_norm.weight", F32, (HIDDEN,)), (p + "ffn_norm.weight", F32, (HIDDEN,)),
                (p + "attn_q_norm.weight", F32, (DIM,)), (p + "attn_k_norm.weight", F32, (DIM,)),
                (p + "attn_q.weight", main, (HIDDEN, HEADS * DIM)), (p + "attn_k.weight", main, (HIDDEN, KV * DIM)),
                (p + "attn_v.weight", better if more else main, (HIDDEN, KV * DIM)),
                (p + "attn_output.weight", main, (HEADS * DIM, HIDDEN)),
                (p + "ffn_gate.weight", main, (HIDDEN, INNER)), (p + "ffn_up.weight", main, (HIDDEN, INNER)),
                (p + "ffn_down.weight", better if more else main, (INNER, HIDDEN))]
    return out


def size_of(kind, dims):
    n = 1
    for d in dims:
        n *= d
    return n // BLOCKS[kind][0] * BLOCKS[kind][1]


def write(path, main, file_type, layers):
    data, count = metadata(file_type, layers)
    list_, at, info = tensors(main, layers), 0, b""
    for name, kind, dims in list_:
        info += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind, at)
        at += -(-size_of(kind, dims) // ALIGN) * ALIGN
    head = b"GGUF" + struct.pack("<IQQ", 3, len(list_), count) + data + info
    tiles = {kind: tile(kind) for kind in {k for _, k, _ in list_}}
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for name, kind, dims in list_:
            size = size_of(kind, dims)
            if kind == F32 and len(dims) == 1:
                body = struct.pack("<f", 1.0) * dims[0]
            else:
                body = tiles[kind] * (size // len(tiles[kind]) + 1)
            f.write(body[:size] + b"\0" * (-size % ALIGN))


def name_of(kind, layers):
    return "qwen3-0.6b-%s.gguf" % kind if layers == ALL_LAYERS else "qwen3-0.6b-%d-layers-%s.gguf" % (layers, kind)


def make(folder, kind, layers=ALL_LAYERS):
    """Writes the file unless it exists; returns its path."""
    path = os.path.join(folder, name_of(kind, layers))
    if not os.path.exists(path):
        write(path + ".part", *KINDS[kind], layers)
        os.rename(path + ".part", path)
    return path


def main():
    arguments, layers = sys.argv[1:], ALL_LAYERS
    if arguments[:1] == ["--layers"] and len(arguments) > 1:
        layers, arguments = int(arguments[1]), arguments[2:]
    if not arguments or layers < 1 or any(k not in KINDS for k in arguments[1:]):
        sys.exit(__doc__)
    for kind in arguments[1:] or KINDS:
        make(arguments[0], kind, layers)


if __name__ == "__main__":
    main()
