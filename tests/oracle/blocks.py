#!/usr/bin/env python3
"""Writes fixtures for single decoder blocks: attention with its norm, rotary positions, routed experts. The
blocks are transformers' own in fp32 with synthetic weights, their input is random -> tests/data/engine/block_*.json.
Needs torch and transformers. Usage: blocks.py OUT_DIR"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.llama import modeling_llama

import synthetic
import text_models

SEED = text_models.SEED
TOKENS = 21
BASE = dict(text_models.BASE, hidden_size=48, num_hidden_layers=1, intermediate_size=32, vocab_size=32,
            max_position_embeddings=4096)


def base(kind, **more):
    names = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "mixtral": "Mixtral",
             "qwen3_moe": "Qwen3Moe", "deepseek_v2": "DeepseekV2"}
    return dict(BASE, model_type=kind, architectures=[names[kind] + "ForCausalLM"], **more)


LATENT = dict(num_key_value_heads=4, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
              attention_bias=False, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
              moe_intermediate_size=16, topk_method="greedy", norm_topk_prob=False, scoring_func="softmax",
              n_group=1, topk_group=1, routed_scaling_factor=1.0, first_k_dense_replace=1, moe_layer_freq=1)
YARN = dict(rope_type="yarn", type="yarn", factor=4.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=1024)
ATTENTION = {
    "mha": base("llama", num_key_value_heads=4, attention_bias=False),
    "gqa": base("llama", num_key_value_heads=2, attention_bias=False),
    "mqa": base("llama", num_key_value_heads=1, attention_bias=True),
    "window": base("mistral", num_key_value_heads=2, sliding_window=6, head_dim=20),
    "bias": base("qwen2", num_key_value_heads=2, use_sliding_window=False),
    "qk_norm": base("qwen3", num_key_value_heads=2, head_dim=16, attention_bias=False, use_sliding_window=False),
    "mla": base("deepseek_v2", q_lora_rank=None, rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=0.707), **LATENT),
    "mla_q_lora": base("deepseek_v2", q_lora_rank=16, **LATENT),
}
ROPE = {
    "default": base("llama"),
    "theta": base("llama", rope_theta=1e6, head_dim=20),
    "linear": base("llama", rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama3": base("llama", rope_theta=500000.0, head_dim=32,
                   rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_position_embeddings=512)),
    "yarn": base("llama", rope_scaling=YARN, head_dim=32),
    "yarn_factor": base("llama", rope_scaling=dict(YARN, attention_factor=0.83, truncate=False), head_dim=32),
    "interleaved": base("deepseek_v2", q_lora_rank=None, **LATENT),
    "interleaved_yarn": base("deepseek_v2", q_lora_rank=None,
                             rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.707), **LATENT),
}
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, decoder_sparse_step=1,
               mlp_only_layers=[], attention_bias=False, use_sliding_window=False, head_dim=16)
DEEP = dict(LATENT, q_lora_rank=None, n_routed_experts=12, num_experts_per_tok=3, moe_intermediate_size=20,
            first_k_dense_replace=0)
MOE = {
    "softmax_topk": base("qwen3_moe", **dict(EXPERTS, norm_topk_prob=False)),
    "softmax_topk_normalised": base("qwen3_moe", **dict(EXPERTS, norm_topk_prob=True)),
    "mixtral": base("mixtral", num_local_experts=8, num_experts_per_tok=2, sliding_window=None),
    "shared": base("deepseek_v2", **dict(DEEP, n_shared_experts=2)),
    "groups": base("deepseek_v2", **dict(DEEP, n_group=4, topk_group=2, topk_method="group_limited_greedy",
                                         routed_scaling_factor=2.5)),
}


def build(raw):
    config = text_models.config_of(raw)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    text_models.fill(model, raw["model_type"])
    return model.model, config


def rows(name, n, width):
    return torch.tensor(synthetic.rows(SEED, name, n * width)).reshape(1, n, width)


def causal(n, window):
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    seen = (j <= i) & (j > i - window) if window else j <= i
    return torch.zeros(n, n).masked_fill(~seen, float("-inf"))[None, None]


def attention(raw):
    """The residual that attention adds to the rows x at positions 0.."""
    model, config = build(raw)
    x = rows("x", TOKENS, config.hidden_size)
    turns = model.rotary_emb(x, torch.arange(TOKENS)[None])
    layer = model.layers[0]
    out = layer.self_attn(hidden_states=layer.input_layernorm(x), position_embeddings=turns,
                          attention_mask=causal(TOKENS, raw.get("sliding_window")))[0]
    return dict(tokens=TOKENS, out=numbers(out))


POSITIONS = [0, 1, 2, 17, 300, 1023, 4095]


def rope(raw):
    """Two heads of x with rotary positions, and the scaling of the scores that belongs to the frequencies (MLA)."""
    model, config = build(raw)
    deepseek = raw["model_type"] == "deepseek_v2"
    dims = raw["qk_rope_head_dim"] if deepseek else model.layers[0].self_attn.head_dim
    x = rows("x", len(POSITIONS) * 2, dims).reshape(1, len(POSITIONS), 2, dims).transpose(1, 2)
    turns = model.rotary_emb(x, torch.tensor([POSITIONS]))
    if deepseek:
        out = modeling_deepseek_v2.apply_rotary_emb(x, x, turns)[0]
    else:
        out = modeling_llama.apply_rotary_pos_emb(x, x, *turns)[0]
    return dict(positions=POSITIONS, heads=2, out=numbers(out.transpose(1, 2)))


def experts(raw):
    """The routed block without its norm, and the chosen experts with their weights."""
    model, config = build(raw)
    x, block = rows("x", TOKENS, config.hidden_size), model.layers[0].mlp
    _, weights, chosen = block.gate(x[0])
    order = weights.argsort(dim=-1, descending=True)
    return dict(tokens=TOKENS, out=numbers(block(x)), chosen=chosen.gather(1, order).flatten().tolist(),
                weights=numbers(weights.gather(1, order)))


def numbers(t):
    return [float(f"{v:.7g}") for v in t.flatten().tolist()]


if __name__ == "__main__":
    for group, cases, run in (("attention", ATTENTION, attention), ("rope", ROPE, rope), ("moe", MOE, experts)):
        with torch.no_grad():
            made = {name: dict(config=raw, seed=SEED, **run(raw)) for name, raw in cases.items()}
        with open(f"{sys.argv[1]}/block_{group}.json", "w") as f:
            json.dump(made, f, separators=(",", ":"))
            f.write("\n")
