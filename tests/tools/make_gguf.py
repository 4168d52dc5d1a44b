#!/usr/bin/env python3
"""Writes a GGUF file with zeros as weights: make_gguf.py ARCH TYPE OUT [PARTS]
ARCH: llama, mixtral, qwen3 or gpt-oss, with small matrices; in full size qwen3-8b and dsocr (the decoder of DeepSeek-OCR), as sparse files. TYPE: F32, F16, BF16, Q8_0, Q4_K or MXFP4, for matrices; vectors are F32.
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


# layers, hidden, heads, KV heads, MLP, vocabulary; of experts: dense layers, number, per token, MLP, shared
FULL = {"qwen3-8b": ("qwen3", 36, 4096, 32, 8, 12288, 151936, None),
        "dsocr": ("deepseek2-ocr", 12, 1280, 10, 10, 6848, 129280, (1, 64, 6, 896, 2))}


def full_model(arch, kind):
    """Name of the architecture, metadata and tensors of a published shape, with heads of 128."""
    name, layers, hidden, heads, kv, inter, vocab, moe = FULL[arch]
    values = [("general.architecture", name), ("general.name", arch), ("tokenizer.ggml.model", "none")]
    for key, v in (("block_count", layers), ("embedding_length", hidden), ("context_length", 8192), ("feed_forward_length", inter),
                   ("attention.head_count", heads), ("attention.head_count_kv", kv), ("attention.key_length", 128),
                   ("attention.value_length", 128), ("rope.dimension_count", 128), ("attention.layer_norm_rms_epsilon", 1e-6),
                   ("rope.freq_base", 1e4 if moe else 1e6), ("vocab_size", vocab)):
        values.append((name + "." + key, v))
    if moe:
        for key, v in zip(("leading_dense_block_count", "expert_count", "expert_used_count", "expert_feed_forward_length",
                           "expert_shared_count"), moe):
            values.append((name + "." + key, v))
    tensors = [("token_embd.weight", kind, (hidden, vocab)), ("output_norm.weight", "F32", (hidden,)), ("output.weight", kind, (hidden, vocab))]
    for i in range(layers):
        def add(base, dims, of=kind):
            tensors.append(("blk.%d.%s.weight" % (i, base), of, dims))
        add("attn_norm", (hidden,), "F32")
        add("ffn_norm", (hidden,), "F32")
        add("attn_q", (hidden, heads * 128))
        add("attn_k", (hidden, kv * 128))
        add("attn_v", (hidden, kv * 128))
        add("attn_output", (heads * 128, hidden))
        if name == "qwen3":
            add("attn_q_norm", (128,), "F32")
            add("attn_k_norm", (128,), "F32")
        if moe and i >= moe[0]:
            add("ffn_gate_inp", (hidden, moe[1]), "F32")
        for end, width, number in (("_exps", moe[3], (moe[1],)), ("_shexp", moe[3] * moe[4], ())) if moe and i >= moe[0] else (("", inter, ()),):
            add("ffn_gate" + end, (hidden, width) + number)
            add("ffn_up" + end, (hidden, width) + number)
            add("ffn_down" + end, (width, hidden) + number)
    return values, tensors


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
        f.write(head)
        f.truncate(len(head) + -len(head) % 32 + data)


def main():
    arch, kind, out = sys.argv[1:4]
    parts = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if arch in FULL:
        return write(out, *full_model(arch, kind))
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
