#!/usr/bin/env python3
"""Counts parameters and FLOPs of Hugging Face models with PyTorch's own counter, as an independent check.

Builds the model of each config (random weights; no download) and runs a prefill and one decode step under
torch.utils.flop_counter.FlopCounterMode. Dense models are on the meta device: nothing is computed, only
counted. Models with experts run on the CPU, because routing depends on values; their configs are small.

What the counter counts: matrix products and convolutions as they are executed. Eager attention multiplies
every query with every key and masks afterwards, so causal attention and windows save nothing here; the head
is computed for every row. The test that reads the result allows for both.

    python3 tests/gpu/flop_oracle.py > tests/data/flops/oracle.json
Needs: torch, transformers (the versions used are in the output).
"""
import json
import os
import sys
import warnings

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "data", "models")
PROMPT = 96


def released(name):
    with open(os.path.join(MODELS, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


TINY = dict(vocab_size=1000, hidden_size=256, intermediate_size=640, num_hidden_layers=3, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=512)


def tiny(model_type, architecture, **changes):
    config = dict(TINY, model_type=model_type, architectures=[architecture], torch_dtype="float32",
                  tie_word_embeddings=False)
    config.update(changes)
    return {k: v for k, v in config.items() if v != "drop"}


MLA = dict(q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=24,
           n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=128, n_shared_experts=2,
           first_k_dense_replace=1, num_key_value_heads=8, n_group=1, topk_group=1)
GPT2 = {k: "drop" for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                            "intermediate_size", "max_position_embeddings")}
CLIP_TOWER = dict(hidden_size=128, intermediate_size=320, num_hidden_layers=3, num_attention_heads=4, image_size=56,
                  patch_size=14, projection_dim=64)
TEXT = {k: v for k, v in TINY.items()}

# name, device, config
DECODERS = [
    ("llama-3.1-8b", "meta", released("llama-3.1-8b-instruct")),
    ("llama-2-7b", "meta", released("llama-2-7b")),
    ("llama-3.2-1b", "meta", released("llama-3.2-1b-instruct")),
    ("qwen2.5-32b", "meta", released("qwen2.5-32b-instruct")),
    ("qwen3-8b", "meta", released("qwen3-8b")),
    ("phi-4", "meta", released("phi-4")),
    ("gemma-2-9b", "meta", released("gemma-2-9b")),
    ("llama-biased", "cpu", tiny("llama", "LlamaForCausalLM", attention_bias=True, mlp_bias=True, head_dim=48)),
    ("mistral", "cpu", tiny("mistral", "MistralForCausalLM", head_dim=64, sliding_window=None)),
    ("qwen3-moe", "cpu", tiny("qwen3_moe", "Qwen3MoeForCausalLM", num_experts=8, num_experts_per_tok=3, head_dim=32,
                              moe_intermediate_size=96, decoder_sparse_step=2, mlp_only_layers=[])),
    ("mixtral", "cpu", tiny("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2)),
    ("qwen2-moe", "cpu", tiny("qwen2_moe", "Qwen2MoeForCausalLM", num_experts=6, num_experts_per_tok=2,
                              moe_intermediate_size=96, shared_expert_intermediate_size=200, decoder_sparse_step=1,
                              mlp_only_layers=[1])),
    ("gemma", "meta", tiny("gemma", "GemmaForCausalLM", head_dim=64, num_key_value_heads=1,
                           tie_word_embeddings=True)),
    ("gemma3-text", "meta", tiny("gemma3_text", "Gemma3ForCausalLM", head_dim=48, num_hidden_layers=7,
                                 sliding_window=256, tie_word_embeddings=True)),
    ("gpt2", "meta", tiny("gpt2", "GPT2LMHeadModel", n_embd=256, n_layer=3, n_head=8, n_positions=512,
                          tie_word_embeddings=True, **GPT2)),
    ("gpt-neox", "meta", tiny("gpt_neox", "GPTNeoXForCausalLM", num_key_value_heads="drop", rotary_pct=0.25)),
    ("gpt-oss", "cpu", tiny("gpt_oss", "GptOssForCausalLM", num_local_experts=8, num_experts_per_tok=4, head_dim=32,
                            sliding_window=256, attention_bias=True)),
    ("deepseek-v2", "cpu", tiny("deepseek_v2", "DeepseekV2ForCausalLM", **dict(MLA, q_lora_rank=None))),
    ("deepseek-v2-lora", "cpu", tiny("deepseek_v2", "DeepseekV2ForCausalLM", **MLA)),
    ("deepseek-v3", "cpu", tiny("deepseek_v3", "DeepseekV3ForCausalLM", **MLA)),
]

# name, config, image input as the processor would pass it: None for a pixel tensor, or (grid_h, grid_w) of patches
TOWERS = [
    ("clip-vision", dict(CLIP_TOWER, model_type="clip_vision_model", architectures=["CLIPVisionModel"]), None),
    ("siglip-vision", dict(CLIP_TOWER, model_type="siglip_vision_model", architectures=["SiglipVisionModel"]), None),
    ("vit", dict(CLIP_TOWER, model_type="vit", architectures=["ViTForImageClassification"],
                 id2label={str(i): str(i) for i in range(10)}), None),
    ("llava", dict(model_type="llava", architectures=["LlavaForConditionalGeneration"],
                   tie_word_embeddings=False, vision_feature_layer=-1,  # all layers count
                   vision_config=dict(CLIP_TOWER, model_type="clip_vision_model"),
                   text_config=dict(TEXT, model_type="llama")), None),
    ("gemma3", dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"], mm_tokens_per_image=4,
                    vision_config=dict(CLIP_TOWER, model_type="siglip_vision_model", vision_use_head=False),
                    text_config=dict(TEXT, model_type="gemma3_text", head_dim=32)), None),
    ("internvl", dict(model_type="internvl", architectures=["InternVLForConditionalGeneration"],
                      tie_word_embeddings=False, downsample_ratio=0.5, image_seq_length=4,
                      vision_config=dict(hidden_size=128, intermediate_size=320, num_hidden_layers=3,
                                         num_attention_heads=4, image_size=[56, 56], patch_size=[14, 14],
                                         model_type="internvl_vision", attention_bias=True),
                      text_config=dict(TEXT, model_type="qwen2")), None),
    ("qwen2-vl", dict(model_type="qwen2_vl", architectures=["Qwen2VLForConditionalGeneration"],
                      tie_word_embeddings=False,
                      vision_config=dict(model_type="qwen2_vl", depth=3, embed_dim=128, hidden_size=256, num_heads=4,
                                         mlp_ratio=4, patch_size=14, spatial_merge_size=2, temporal_patch_size=2),
                      text_config=dict(TEXT, model_type="qwen2_vl_text",
                                       rope_scaling=dict(type="mrope", mrope_section=[4, 6, 6]))), (10, 14)),
    ("qwen2.5-vl", dict(model_type="qwen2_5_vl", architectures=["Qwen2_5_VLForConditionalGeneration"],
                        tie_word_embeddings=False,
                        vision_config=dict(model_type="qwen2_5_vl", depth=4, hidden_size=128, intermediate_size=320,
                                           num_heads=4, out_hidden_size=256, patch_size=14, spatial_merge_size=2,
                                           temporal_patch_size=2, window_size=112, fullatt_block_indexes=[3]),
                        text_config=dict(TEXT, model_type="qwen2_5_vl_text",
                                         rope_scaling=dict(type="mrope", mrope_section=[4, 6, 6]))), (20, 26)),
]
COUNTED_ONLY = [
    ("clip", dict(model_type="clip", architectures=["CLIPModel"], projection_dim=64,
                  vision_config=dict(CLIP_TOWER, model_type="clip_vision_model"),
                  text_config=dict(vocab_size=1000, hidden_size=96, intermediate_size=200, num_hidden_layers=2,
                                   num_attention_heads=4, max_position_embeddings=77, model_type="clip_text_model"))),
    ("gemma-3-27b", released("gemma-3-27b-it")),
    ("qwen2.5-vl-3b", released("qwen2.5-vl-3b-instruct")),
    ("deepseek-v2-lite", dict(released("deepseek-v2-lite"), q_lora_rank=None)),
    ("gpt-oss-20b", {k: v for k, v in released("gpt-oss-20b").items() if k != "quantization_config"}),
    ("qwen3-30b-a3b", released("qwen3-30b-a3b")),
]


def make_config(config):
    return transformers.CONFIG_MAPPING[config["model_type"]].from_dict(json.loads(json.dumps(config)))


def build(config, device):
    cfg = make_config(config)
    cls = getattr(transformers, config["architectures"][0])
    cfg._attn_implementation = "eager"
    cfg._experts_implementation = "eager"
    for part in ("text_config", "vision_config"):
        if hasattr(cfg, part) and getattr(cfg, part) is not None:
            getattr(cfg, part)._attn_implementation = "eager"
    with torch.device(device):
        model = cls._from_config(cfg) if device == "meta" else cls(cfg)
    return model.eval()


def parameters(model):
    seen, total = set(), 0
    configs = (model.config, model.config.get_text_config())
    is_tied = any(getattr(c, "tie_word_embeddings", False) for c in configs)
    tied = set(getattr(model, "_tied_weights_keys", None) or {}) if is_tied else set()
    for name, p in model.named_parameters():
        if id(p) in seen or name in tied:
            continue
        seen.add(id(p))
        total += p.numel()
    # buffers that released checkpoints store as weights
    total += sum(b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
    return total


def counted(call):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        out = call()
    by_op = {str(k): v for k, v in counter.get_flop_counts()["Global"].items()}
    return out, counter.get_total_flops(), by_op


def decoder_case(name, device, config):
    model = build(config, device)
    ids = torch.zeros((1, PROMPT), dtype=torch.long, device=device)
    cache = transformers.DynamicCache(config=model.config)
    out, prefill, by_op = counted(lambda: model(input_ids=ids, use_cache=True, past_key_values=cache))
    one = torch.zeros((1, 1), dtype=torch.long, device=device)
    _, decode, _ = counted(lambda: model(input_ids=one, use_cache=True, past_key_values=out.past_key_values))
    return dict(name=name, config=config, params=parameters(model), prompt_tokens=PROMPT, prefill_flops=prefill,
                decode_context=PROMPT + 1, decode_flops=decode, prefill_by_op=by_op)


def tower_case(name, config, grid):
    model = build(config, "cpu")
    if grid:
        v = config["vision_config"]
        patch = 3 * v["temporal_patch_size"] * v["patch_size"] ** 2
        pixels = torch.zeros((grid[0] * grid[1], patch))
        thw = torch.tensor([[1, *grid]])
        call = lambda: model.model.get_image_features(pixel_values=pixels, image_grid_thw=thw)
        size = (grid[1] * v["patch_size"], grid[0] * v["patch_size"])
    else:
        v = config.get("vision_config", config)
        side = v["image_size"][0] if isinstance(v["image_size"], list) else v["image_size"]
        pixels = torch.zeros((1, 3, side, side))
        size = (side, side)
        if hasattr(model, "model") and hasattr(model.model, "get_image_features"):
            call = lambda: model.model.get_image_features(pixel_values=pixels)
        else:
            call = lambda: model(pixel_values=pixels)
    _, flops, by_op = counted(call)
    return dict(name=name, config=config, params=parameters(model), image=list(size), vision_flops=flops,
                vision_by_op=by_op)


def main():
    cases = []
    for job in ([(decoder_case, c) for c in DECODERS] + [(tower_case, c) for c in TOWERS] +
                [(lambda n, c: dict(name=n, config=c, params=parameters(build(c, "meta"))), c) for c in COUNTED_ONLY]):
        try:
            cases.append(job[0](*job[1]))
        except Exception as e:  # continue with the other models
            print(f"{job[1][0]}: {type(e).__name__}: {e}", file=sys.stderr)
    json.dump(dict(torch=torch.__version__, transformers=transformers.__version__,
                   attention="eager: every query with every key, mask afterwards", head="every row", cases=cases),
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
