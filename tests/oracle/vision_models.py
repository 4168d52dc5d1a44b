#!/usr/bin/env python3
"""Writes fixtures for models with vision: small models of transformers with synthetic weights -> tests/data/engine/*.json, and the
images that they read. Pixels come from transformers' image processor with Pillow up to version 12, whose resizing the engine repeats.
Needs torch, transformers and Pillow. Usage: vision_models.py OUT_DIR"""
import json
import sys

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import synthetic

SEED = 13
TEXT = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=112, vocab_size=1040,
            max_position_embeddings=1024, rms_norm_eps=1e-6, hidden_act="silu", tie_word_embeddings=False, bos_token_id=0,
            eos_token_id=1)
QWEN = dict(model_type="qwen2_5_vl", architectures=["Qwen2_5_VLForConditionalGeneration"], torch_dtype="float32",
            image_token_id=1030, vision_start_token_id=1031, vision_end_token_id=1032, video_token_id=1033, tie_word_embeddings=False,
            text_config=dict(TEXT, model_type="qwen2_5_vl_text", use_sliding_window=False,
                             rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 3, 3])),
            vision_config=dict(model_type="qwen2_5_vl_vision", depth=4, hidden_size=48, num_heads=4, intermediate_size=56,
                               out_hidden_size=64, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=56,
                               fullatt_block_indexes=[1, 3], in_channels=3, hidden_act="silu"))
LLAVA = dict(model_type="llava", architectures=["LlavaForConditionalGeneration"], torch_dtype="float32", image_token_index=1030,
             vision_feature_layer=-2, vision_feature_select_strategy="default", projector_hidden_act="gelu", tie_word_embeddings=False,
             text_config=dict(TEXT, model_type="llama", rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
             vision_config=dict(model_type="clip_vision_model", hidden_size=48, intermediate_size=112, num_hidden_layers=4,
                                num_attention_heads=4, image_size=70, patch_size=14, projection_dim=32, hidden_act="quick_gelu"))
# size, and text ids before and after the image
CASES = {"qwen2_5_vl": (QWEN, (155, 97)), "llava": (LLAVA, (131, 90))}
BEFORE, AFTER = [5, 9, 77, 301], [12, 700, 33, 8, 41]


def image(width, height):
    """Smooth waves and noise, so that resizing and clamping both matter."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 9 + c) + np.cos(y / (7 + c)) for c in range(3)], -1)
    return Image.fromarray(np.clip(128 + 60 * waves + rng.normal(0, 25, (height, width, 3)), 0, 255).astype(np.uint8))


def file_name(name):
    """The name of a tensor in published files."""
    for ours, theirs in (("model.language_model.", "model."), ("model.visual.", "visual."),
                         ("model.vision_tower.vision_model.", "vision_tower.vision_model."),
                         ("model.vision_tower.", "vision_tower.vision_model."),
                         ("model.multi_modal_projector.", "multi_modal_projector.")):
        if name.startswith(ours):
            return theirs + name[len(ours):]
    return name


def fill(model):
    for name, p in model.named_parameters():
        shape, file = tuple(p.shape), file_name(name)
        if "class_embedding" in name or "position_embedding" in name:
            value = synthetic.rows(SEED, file, p.numel()).reshape(shape)
        elif len(shape) > 1:
            value = synthetic.matrix(SEED, file, shape[0], p.numel() // shape[0]).reshape(shape)
        elif name.endswith("bias"):
            value = synthetic.bias(SEED, file, shape[0])
        else:
            value = synthetic.norm(SEED, file, shape[0])
        with torch.no_grad():
            p.copy_(torch.tensor(value))


def inputs_of(name, picture):
    if name == "llava":
        side = LLAVA["vision_config"]["image_size"]
        done = CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side})(
            picture, return_tensors="pt")
        return {"pixel_values": done["pixel_values"]}, (side // LLAVA["vision_config"]["patch_size"]) ** 2
    done = Qwen2VLImageProcessorPil()(picture, return_tensors="pt")
    grid = done["image_grid_thw"]
    return {"pixel_values": done["pixel_values"], "image_grid_thw": grid}, int(grid.prod()) // 4


def config_of(raw):
    config = AutoConfig.for_model(**{k: v for k, v in raw.items() if k not in ("architectures", "torch_dtype")})
    config._attn_implementation = "eager"
    return config


def run(name, raw, size, out_dir):
    picture = image(*size)
    picture.save(f"{out_dir}/{name}.png")
    model = AutoModelForImageTextToText.from_config(config_of(raw)).float().eval()
    fill(model)
    extra, tokens = inputs_of(name, picture)
    image_id = raw.get("image_token_id", raw.get("image_token_index"))
    ids = BEFORE + [image_id] * tokens + AFTER
    seq, margins, first, logits = list(ids), [], None, None
    with torch.no_grad():
        for _ in range(64):
            types = torch.tensor([[1 if i == image_id else 0 for i in seq]])
            more = dict(extra, mm_token_type_ids=types) if name == "qwen2_5_vl" else extra
            model.model.rope_deltas = None
            last = model(input_ids=torch.tensor([seq]), use_cache=False, **more).logits[0, -1]
            logits = last if logits is None else logits
            top = torch.topk(last, 2).values
            margins.append(float(top[0] - top[1]))
            seq.append(int(last.argmax()))
        features = model.model.get_image_features(**extra)
        features = getattr(features, "pooler_output", features)
        features = torch.cat([f.reshape(-1, f.shape[-1]) for f in features])
    pixels = extra["pixel_values"].reshape(-1)
    print(f"{name}: {tokens} image tokens, smallest margin {min(margins):.2e}, image token chosen "
          f"{image_id in seq[len(ids):]}", file=sys.stderr)
    return dict(config=raw, seed=SEED, prompt_ids=BEFORE + [image_id] + AFTER, prompt_tokens=len(ids),
                pixels=[float(f"{v:.6g}") for v in pixels[::97].tolist()], npixels=len(pixels),
                rows=[float(f"{v:.7g}") for v in features[::3].reshape(-1).tolist()],
                logits=[float(f"{v:.7g}") for v in logits.tolist()], greedy=seq[len(ids):], margin=min(margins))


if __name__ == "__main__":
    for n, (config, shape) in CASES.items():
        fixture = run(n, config, shape, sys.argv[1])
        with open(f"{sys.argv[1]}/{n}.json", "w") as f:
            json.dump(fixture, f, separators=(",", ":"))
            f.write("\n")
