#!/usr/bin/env python3
"""Writes fixtures for DeepSeek-OCR from a small, plain PyTorch implementation with synthetic weights.
Single blocks on random pixels, then the whole model on a page with tiles -> tests/data/engine/dsocr_*.json.
Needs torch, numpy and Pillow. Usage: deepseek_ocr.py OUT_DIR"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageOps

import synthetic

SEED = 5


def config(sam_layers=3, sam_global=(1,), clip_layers=2, sam_image=1024, clip_image=224):
    return dict(
        architectures=["DeepseekOCRForCausalLM"], model_type="deepseek_vl_v2", torch_dtype="float32", bos_token_id=0,
        eos_token_id=1, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
        intermediate_size=96, moe_intermediate_size=40, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
        first_k_dense_replace=1, moe_layer_freq=1, n_group=1, topk_group=1, topk_method="greedy", norm_topk_prob=False,
        routed_scaling_factor=1.0, scoring_func="softmax", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0,
        attention_bias=False, tie_word_embeddings=False, use_mla=False, q_lora_rank=None, kv_lora_rank=None,
        qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0, vocab_size=1024, max_position_embeddings=2048,
        projector_config=dict(input_dim=64, n_embed=64, projector_type="linear", model_type="mlp_projector"),
        vision_config=dict(image_size=1024, model_name="deeplip_b_l", model_type="vision", width={
            "sam_vit_b": dict(width=32, layers=sam_layers, heads=2, global_attn_indexes=list(sam_global),
                              neck_channels=16, downsample_channels=[24, 32], image_size=sam_image),
            "clip-l-14-224": dict(width=32, layers=clip_layers, heads=2, patch_size=14, image_size=clip_image)}))


# ---- weights by name
def matrix(name, *shape):
    return torch.tensor(synthetic.matrix(SEED, name, shape[0], math.prod(shape[1:]))).reshape(shape)


def vector(kind, name, *shape):
    return torch.tensor(getattr(synthetic, kind)(SEED, name, math.prod(shape))).reshape(shape)


def linear(x, name, out):
    return F.linear(x, matrix(name + ".weight", out, x.shape[-1]), vector("bias", name + ".bias", out))


def plain_linear(x, name, out):
    return F.linear(x, matrix(name + ".weight", out, x.shape[-1]))


def layer_norm(x, name, eps):
    n = x.shape[-1]
    return F.layer_norm(x, (n,), vector("norm", name + ".weight", n), vector("bias", name + ".bias", n), eps)


# ---- SAM
def relative_table(table, side):
    if table.shape[0] == 2 * side - 1:
        return table
    return F.interpolate(table.T[None], size=2 * side - 1, mode="linear")[0].T


def sam_attention(x, name, heads, table_side):
    """x [batch, side, side, width]"""
    batch, side, _, width = x.shape
    dim = width // heads
    qkv = linear(x.reshape(batch, side * side, width), name + ".qkv", 3 * width)
    q, k, v = qkv.reshape(batch, side * side, 3, heads, dim).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(dim)
    index = torch.arange(side)[:, None] - torch.arange(side)[None] + side - 1
    by_axis = []
    for axis in ("h", "w"):
        table = vector("bias", f"{name}.rel_pos_{axis}", 2 * table_side - 1, dim)
        by_axis.append(relative_table(table, side)[index])  # [query, key, dim]
    grid = q.reshape(batch, heads, side, side, dim)
    rel_h = torch.einsum("bhyxd,ykd->bhyxk", grid, by_axis[0])
    rel_w = torch.einsum("bhyxd,xkd->bhyxk", grid, by_axis[1])
    scores = scores.reshape(batch, heads, side, side, side, side)
    scores = (scores + rel_h[..., :, None] + rel_w[..., None, :]).reshape(batch, heads, side * side, side * side)
    out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, side, side, width)
    return linear(out, name + ".proj", width)


def sam_block(x, i, tower):
    name, m = f"model.sam_model.blocks.{i}", 14
    h = layer_norm(x, name + ".norm1", 1e-6)
    g = x.shape[1]
    if i in tower["global_attn_indexes"]:
        h = sam_attention(h, name + ".attn", tower["heads"], tower["image_size"] // 16)
    else:
        pad = -g % m
        h = F.pad(h, (0, 0, 0, pad, 0, pad))
        n = h.shape[1] // m
        h = h.reshape(n, m, n, m, -1).permute(0, 2, 1, 3, 4).reshape(n * n, m, m, -1)
        h = sam_attention(h, name + ".attn", tower["heads"], m)
        h = h.reshape(n, n, m, m, -1).permute(0, 2, 1, 3, 4).reshape(1, n * m, n * m, -1)[:, :g, :g]
    x = x + h
    h = F.gelu(linear(layer_norm(x, name + ".norm2", 1e-6), name + ".mlp.lin1", 4 * tower["width"]))
    return x + linear(h, name + ".mlp.lin2", tower["width"])


def stretch(table, side):
    """resamples positions [from, from, width] to another grid"""
    if table.shape[0] == side:
        return table
    return F.interpolate(table.permute(2, 0, 1)[None], size=(side, side), mode="bicubic", antialias=True,
                         align_corners=False)[0].permute(1, 2, 0)


def sam(pixels, tower):
    """pixels [3, S, S] -> [(S/64)^2, channels]"""
    p, width, neck, down = "model.sam_model", tower["width"], tower["neck_channels"], tower["downsample_channels"]
    x = F.conv2d(pixels[None], matrix(p + ".patch_embed.proj.weight", width, 3, 16, 16),
                 vector("bias", p + ".patch_embed.proj.bias", width), stride=16).permute(0, 2, 3, 1)
    grid = tower["image_size"] // 16
    x = x + stretch(vector("rows", p + ".pos_embed", grid, grid, width), x.shape[1])
    for i in range(tower["layers"]):
        x = sam_block(x, i, tower)
    x = F.conv2d(x.permute(0, 3, 1, 2), matrix(p + ".neck.0.weight", neck, width, 1, 1))
    x = layer_norm(x.permute(0, 2, 3, 1), p + ".neck.1", 1e-6).permute(0, 3, 1, 2)
    x = F.conv2d(x, matrix(p + ".neck.2.weight", neck, neck, 3, 3), padding=1)
    x = layer_norm(x.permute(0, 2, 3, 1), p + ".neck.3", 1e-6).permute(0, 3, 1, 2)
    x = F.conv2d(x, matrix(p + ".net_2.weight", down[0], neck, 3, 3), stride=2, padding=1)
    x = F.conv2d(x, matrix(p + ".net_3.weight", down[1], down[0], 3, 3), stride=2, padding=1)
    return x[0].flatten(1).T


# ---- CLIP and projector
def clip(features, tower):
    p, width, heads = "model.vision_model", tower["width"], tower["heads"]
    n, grid = math.isqrt(features.shape[0]), tower["image_size"] // 14
    table = vector("rows", p + ".embeddings.position_embedding.weight", 1 + grid * grid, width)
    positions = torch.cat([table[:1], stretch(table[1:].reshape(grid, grid, width), n).reshape(-1, width)])
    x = torch.cat([vector("rows", p + ".embeddings.class_embedding", 1, width), features]) + positions
    x = layer_norm(x, p + ".pre_layrnorm", 1e-5)
    for i in range(tower["layers"]):
        q = f"{p}.transformer.layers.{i}"
        qkv = linear(layer_norm(x, q + ".layer_norm1", 1e-5), q + ".self_attn.qkv_proj", 3 * width)
        a, k, v = qkv.reshape(-1, 3, heads, width // heads).permute(1, 2, 0, 3)
        out = F.scaled_dot_product_attention(a, k, v).transpose(0, 1).reshape(-1, width)
        x = x + linear(out, q + ".self_attn.out_proj", width)
        h = linear(layer_norm(x, q + ".layer_norm2", 1e-5), q + ".mlp.fc1", 4 * width)
        x = x + linear(h * torch.sigmoid(1.702 * h), q + ".mlp.fc2", width)
    return x[1:]


def view(pixels, c):
    towers = c["vision_config"]["width"]
    s = sam(pixels, towers["sam_vit_b"])
    t = clip(s, towers["clip-l-14-224"])
    return linear(torch.cat([t, s], dim=-1), "model.projector.layers", c["hidden_size"])


# ---- decoder
def rms(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * vector("norm", name + ".weight", x.shape[-1])


def swiglu(x, name, inner):
    return plain_linear(F.silu(plain_linear(x, name + ".gate_proj", inner)) * plain_linear(x, name + ".up_proj", inner),
                        name + ".down_proj", x.shape[-1])


def turn(x):
    """rotary positions, halves: x [heads, tokens, dim]"""
    dim = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None].float() * 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
    c, s = angle.cos(), angle.sin()
    a, b = x[..., : dim // 2], x[..., dim // 2:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def decoder(x, c):
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}"
        h = rms(x, p + ".input_layernorm")
        q, k, v = (plain_linear(h, f"{p}.self_attn.{n}_proj", hidden).reshape(len(x), heads, -1).transpose(0, 1)
                   for n in "qkv")
        out = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        x = x + plain_linear(out.transpose(0, 1).reshape(len(x), hidden), p + ".self_attn.o_proj", hidden)
        h = rms(x, p + ".post_attention_layernorm")
        if i < c["first_k_dense_replace"]:
            x = x + swiglu(h, p + ".mlp", c["intermediate_size"])
            continue
        scores = plain_linear(h, p + ".mlp.gate", c["n_routed_experts"]).softmax(-1)
        weight, chosen = scores.topk(c["num_experts_per_tok"], dim=-1)
        y = swiglu(h, p + ".mlp.shared_experts", c["n_shared_experts"] * c["moe_intermediate_size"])
        for e in range(c["n_routed_experts"]):
            token, place = torch.where(chosen == e)
            if len(token):
                y[token] += weight[token, place, None] * swiglu(h[token], f"{p}.mlp.experts.{e}",
                                                                c["moe_intermediate_size"])
        x = x + y
    return plain_linear(rms(x[-1:], "model.norm"), "lm_head", c["vocab_size"])[0]


# ---- the page
def page():
    im = Image.new("RGB", (700, 450), (250, 248, 240))
    d = ImageDraw.Draw(im)
    for y in range(20, 430, 30):
        d.rectangle([30, y, 30 + (y * 7) % 600, y + 12], fill=(20, (y * 3) % 200, 90))
    d.ellipse([420, 150, 660, 400], fill=(200, 60, 40))
    return im


def grid_of(width, height, most=9):
    best, best_d = (1, 1), float("inf")
    pairs = sorted(((w, h) for w in range(1, most + 1) for h in range(1, most + 1) if 2 <= w * h <= most),
                   key=lambda p: p[0] * p[1])
    for w, h in pairs:
        d = abs(width / height - w / h)
        if d < best_d:
            best, best_d = (w, h), d
        elif d == best_d and width * height > 0.5 * 640 * 640 * w * h:
            best = (w, h)
    return best


def pixels(im):
    return torch.tensor(np.asarray(im, np.float32) / np.float32(255)).permute(2, 0, 1).sub(0.5).div(0.5)


def image_rows(im, c):
    w, h = grid_of(*im.size)
    whole = im.resize((640 * w, 640 * h), Image.BICUBIC)
    newline, end = vector("rows", "model.image_newline", 1, 64), vector("rows", "model.view_seperator", 1, 64)
    tiles = [[view(pixels(whole.crop((640 * x, 640 * y, 640 * x + 640, 640 * y + 640))), c).reshape(10, 10, -1)
              for x in range(w)] for y in range(h)]
    rows = []
    for y in range(h):
        for r in range(10):
            rows += [tiles[y][x][r] for x in range(w)] + [newline]
    full = view(pixels(ImageOps.pad(im, (1024, 1024), color=(127, 127, 127), method=Image.BICUBIC)), c)
    for r in full.reshape(16, 16, -1):
        rows += [r, newline]
    return torch.cat(rows + [end]), (w, h)


def numbers(t):
    return [float(f"{v:.6g}") for v in t.flatten().tolist()]


def write(name, data):
    with open(f"{sys.argv[1]}/dsocr_{name}.json", "w") as f:
        json.dump(data, f, separators=(",", ":"))
        f.write("\n")


def blocks():
    cases = {"window": (config(1, ()), 256), "global": (config(1, (0,), sam_image=256), 256),
             "resampled": (config(1, (0,)), 192), "neck": (config(2, (1,), sam_image=256), 256)}
    for name, (c, side) in cases.items():
        x = torch.tensor(synthetic.rows(SEED, "pixels", 3 * side * side)).reshape(3, side, side)
        towers = c["vision_config"]["width"]
        s = sam(x, towers["sam_vit_b"])
        write(name, dict(config=c, seed=SEED, side=side, sam=numbers(s), clip=numbers(clip(s, towers["clip-l-14-224"])),
                         view=numbers(view(x, c))))


def whole():
    c, im = config(), page()
    im.save(f"{sys.argv[1]}/dsocr_page.png", optimize=True)
    rows, grid = image_rows(im, c)
    embed = matrix("model.embed_tokens.weight", 1024, 64)
    x = torch.cat([embed[:1], rows])
    logits, seq, margins = decoder(x, c), [], []
    for _ in range(64):
        last = decoder(torch.cat([x, embed[seq]]), c)
        top = last.topk(2).values
        margins.append(float(top[0] - top[1]))
        seq.append(int(last.argmax()))
    print(f"grid {grid}, {len(x)} tokens, smallest margin {min(margins):.2e}", file=sys.stderr)
    write("whole", dict(config=c, seed=SEED, prompt_tokens=len(x), logits=numbers(logits), greedy=seq,
                        rows=numbers(rows[::37])))


if __name__ == "__main__":
    with torch.no_grad():
        blocks()
        whole()
