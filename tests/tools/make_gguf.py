#!/usr/bin/env python3
"""Writes a small GGUF file with zeros as weights: make_gguf.py ARCH TYPE OUT [PARTS]
ARCH: llama, mixtral, qwen3 or gpt-oss. TYPE: F32, F16, BF16, Q8_0, Q4_K or MXFP4, for matrices; vectors are F32.
PARTS > 1: OUT is the stem of the split files OUT-00001-of-0000N.gguf."""
import struct
import sys

TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "BF16": (30, 1, 2),
         "MXFP4": (39, 32, 17)}
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INTER, VOCAB, EXPERTS = 256, 3, 4, 2, 64, 512, 300, 4


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(key, v):
    if isinstance(v, str):
        return text(key) + struct.pack("<I", 8) + text(v)
    if isinstance(v, float):
        return text(key) + struct.pack("<If", 6, v)
    if isinstance(v, list):  # of strings
        return text(key) + struct.pack("<IIQ", 9, 8, len(v)) + b"".join(text(s) for s in v)
    return text(key) + struct.pack("<II", 4, v)


def tensors_of(arch, kind):
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    moe = arch in ("mixtral", "gpt-oss")
    yield "token_embd.weight", kind, (HIDDEN, VOCAB)
    yield "output_norm.weight", "F32", (HIDDEN,)
    yield "output.weight", kind, (HIDDEN, VOCAB)
    for i in range(LAYERS):
        p = "blk.%d." % i
        yield p + "attn_norm.weight", "F32", (HIDDEN,)
        yield p + "attn_q.weight", kind, (HIDDEN, q)
        yield p + "attn_k.weight", kind, (HIDDEN, kv)
        yield p + "attn_v.weight", "Q8_0" if i == 0 and kind == "Q4_K" else kind, (HIDDEN, kv)
        yield p + "attn_output.weight", kind, (q, HIDDEN)
        yield p + ("post_attention_norm.weight" if arch == "gpt-oss" else "ffn_norm.weight"), "F32", (HIDDEN,)
        if arch == "qwen3":
            yield p + "attn_q_norm.weight", "F32", (HEAD,)
            yield p + "attn_k_norm.weight", "F32", (HEAD,)
        if arch == "gpt-oss":
            yield p + "attn_sinks.weight", "F32", (HEADS,)
        ends = ("_exps", (EXPERTS,)) if moe else ("", ())
        if moe:
            yield p + "ffn_gate_inp.weight", "F32", (HIDDEN, EXPERTS)
        yield p + "ffn_gate%s.weight" % ends[0], kind, (HIDDEN, INTER) + ends[1]
        yield p + "ffn_up%s.weight" % ends[0], kind, (HIDDEN, INTER) + ends[1]
        yield p + "ffn_down%s.weight" % ends[0], kind, (INTER, HIDDEN) + ends[1]


def write(path, values, tensors):
    infos, data = b"", 0
    for name, kind, dims in tensors:
        number, block, size = TYPES[kind]
        count = 1
        for d in dims:
            count *= d
        infos += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, number, data)
        data += (count // block * size + 31) // 32 * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    head += b"".join(value(k, v) for k, v in values) + infos
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32 + data))


def main():
    arch, kind, out = sys.argv[1:4]
    parts = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    name = "llama" if arch == "mixtral" else arch
    values = [("general.architecture", name), ("tokenizer.ggml.tokens", ["a", "b"])]
    for key, v in (("embedding_length", HIDDEN), ("block_count", LAYERS), ("context_length", 4096),
                   ("feed_forward_length", INTER), ("attention.head_count", HEADS),
                   ("attention.head_count_kv", KV_HEADS), ("attention.key_length", HEAD), ("rope.freq_base", 1e4)):
        values.append((name + "." + key, v))
    if arch in ("mixtral", "gpt-oss"):
        values += [(name + ".expert_count", EXPERTS), (name + ".expert_used_count", 2)]
    tensors = list(tensors_of(arch, kind))
    if parts == 1:
        return write(out, values, tensors)
    for i in range(parts):
        split = [("split.count", parts), ("split.no", i), ("split.tensors.count", len(tensors))]
        write("%s-%05d-of-%05d.gguf" % (out, i + 1, parts), (values if i == 0 else []) + split, tensors[i::parts])


main()
