"""Writes a folder with DeepSeek-OCR's config.json and a model.safetensors of random bf16 numbers (6.7 GB), to measure loading.
    python3 checkpoint.py CONFIG FOLDER
With SPARSE=1 the file has no data blocks: all numbers are zeros."""
import json
import os
import shutil
import struct
import sys


def tensors(config):
    text, vision = config["language_config"], config["vision_config"]["width"]
    sam, clip = vision["sam_vit_b"], vision["clip-l-14-224"]
    hidden, dim, heads, vocab = text["hidden_size"], sam["width"], sam["heads"], text["vocab_size"]
    yield "model.embed_tokens.weight", [vocab, hidden]
    yield "lm_head.weight", [vocab, hidden]
    yield "model.norm.weight", [hidden]

    def mlp(name, width):
        for part in ("gate_proj", "up_proj"):
            yield f"{name}.{part}.weight", [width, hidden]
        yield f"{name}.down_proj.weight", [hidden, width]

    for i in range(text["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for part in ("q", "k", "v", "o"):
            yield f"{layer}.self_attn.{part}_proj.weight", [hidden, hidden]
        for part in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{part}.weight", [hidden]
        if i < text["first_k_dense_replace"]:
            yield from mlp(f"{layer}.mlp", text["intermediate_size"])
            continue
        inner = text["moe_intermediate_size"]
        yield f"{layer}.mlp.gate.weight", [text["n_routed_experts"], hidden]
        yield from mlp(f"{layer}.mlp.shared_experts", inner * text["n_shared_experts"])
        for e in range(text["n_routed_experts"]):
            yield from mlp(f"{layer}.mlp.experts.{e}", inner)

    def linear(name, out, width):
        yield f"{name}.weight", [out, width]
        yield f"{name}.bias", [out]

    def norm(name, width):
        yield f"{name}.weight", [width]
        yield f"{name}.bias", [width]

    top = "model.sam_model"
    yield f"{top}.patch_embed.proj.weight", [dim, 3, 16, 16]
    yield f"{top}.patch_embed.proj.bias", [dim]
    yield f"{top}.pos_embed", [1, 64, 64, dim]
    for i in range(sam["layers"]):
        block, side = f"{top}.blocks.{i}", 64 if i in sam["global_attn_indexes"] else 14
        yield from norm(f"{block}.norm1", dim)
        yield from norm(f"{block}.norm2", dim)
        yield from linear(f"{block}.attn.qkv", 3 * dim, dim)
        yield from linear(f"{block}.attn.proj", dim, dim)
        yield f"{block}.attn.rel_pos_h", [2 * side - 1, dim // heads]
        yield f"{block}.attn.rel_pos_w", [2 * side - 1, dim // heads]
        yield from linear(f"{block}.mlp.lin1", 4 * dim, dim)
        yield from linear(f"{block}.mlp.lin2", dim, 4 * dim)
    yield f"{top}.neck.0.weight", [256, dim, 1, 1]
    yield from norm(f"{top}.neck.1", 256)
    yield f"{top}.neck.2.weight", [256, 256, 3, 3]
    yield from norm(f"{top}.neck.3", 256)
    yield f"{top}.net_2.weight", [512, 256, 3, 3]
    yield f"{top}.net_3.weight", [1024, 512, 3, 3]
    top, wide = "model.vision_model", clip["width"]
    yield f"{top}.embeddings.class_embedding", [wide]
    yield f"{top}.embeddings.position_embedding.weight", [257, wide]
    yield from norm(f"{top}.pre_layrnorm", wide)
    for i in range(clip["layers"]):
        layer = f"{top}.transformer.layers.{i}"
        yield from norm(f"{layer}.layer_norm1", wide)
        yield from norm(f"{layer}.layer_norm2", wide)
        yield from linear(f"{layer}.self_attn.qkv_proj", 3 * wide, wide)
        yield from linear(f"{layer}.self_attn.out_proj", wide, wide)
        yield from linear(f"{layer}.mlp.fc1", 4 * wide, wide)
        yield from linear(f"{layer}.mlp.fc2", wide, 4 * wide)
    yield from linear("model.projector.layers", hidden, 2 * wide)
    yield "model.image_newline", [hidden]
    yield "model.view_seperator", [hidden]


def main():
    source, folder = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        config = json.load(f)
    header, at = {}, 0
    for name, shape in tensors(config):
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(source, os.path.join(folder, "config.json"))
    # small positive bf16 numbers: the high byte is 0x3c
    block = bytearray(os.urandom(16 << 20))
    block[1::2] = b"\x3c" * (8 << 20)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        if os.environ.get("SPARSE"):
            f.truncate(8 + len(text) + at)
            return
        for start in range(0, at, len(block)):
            f.write(block[:min(len(block), at - start)])


main()
