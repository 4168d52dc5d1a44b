#!/usr/bin/env python3
"""Writes fixtures for the decoders: small models of transformers with synthetic weights -> tests/data/engine/*.json.
Needs torch and transformers. Usage: text_models.py OUT_DIR"""
import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import synthetic

SEED = 11
BASE = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=112,
            vocab_size=320, max_position_embeddings=1024, rms_norm_eps=1e-6, hidden_act="silu", rope_theta=10000.0,
            tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, torch_dtype="float32")
MODELS = {
    "llama": dict(BASE, model_type="llama", architectures=["LlamaForCausalLM"], attention_bias=False, mlp_bias=False),
    "llama3": dict(BASE, model_type="llama", architectures=["LlamaForCausalLM"], attention_bias=False,
                   tie_word_embeddings=True, rope_theta=500000.0,
                   rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_position_embeddings=256)),
    "mistral": dict(BASE, model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=20, head_dim=24),
    "qwen2": dict(BASE, model_type="qwen2", architectures=["Qwen2ForCausalLM"], use_sliding_window=False),
    "qwen3": dict(BASE, model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=32, attention_bias=False,
                  use_sliding_window=False),
    "mixtral": dict(BASE, model_type="mixtral", architectures=["MixtralForCausalLM"], num_local_experts=8,
                    num_experts_per_tok=2, sliding_window=None),
    "qwen3_moe": dict(BASE, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], head_dim=32,
                      num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=True,
                      decoder_sparse_step=1, mlp_only_layers=[1], attention_bias=False, use_sliding_window=False),
    "deepseek_v2": dict(BASE, model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"],
                        num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=24,
                        qk_rope_head_dim=16, v_head_dim=20, n_routed_experts=8, num_experts_per_tok=3,
                        n_shared_experts=2, moe_intermediate_size=40, first_k_dense_replace=1, moe_layer_freq=1,
                        n_group=1, topk_group=1, topk_method="greedy", norm_topk_prob=False,
                        routed_scaling_factor=1.0, scoring_func="softmax", attention_bias=False,
                        rope_scaling=dict(rope_type="yarn", type="yarn", factor=4.0, mscale=0.707, mscale_all_dim=0.707,
                                          beta_fast=32, beta_slow=1, original_max_position_embeddings=256)),
    "deepseek_v2_groups": dict(BASE, model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"],
                               num_key_value_heads=4, q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=24,
                               qk_rope_head_dim=16, v_head_dim=20, n_routed_experts=12, num_experts_per_tok=3,
                               n_shared_experts=1, moe_intermediate_size=40, first_k_dense_replace=1, moe_layer_freq=1,
                               n_group=4, topk_group=2, topk_method="group_limited_greedy", norm_topk_prob=False,
                               routed_scaling_factor=2.5, scoring_func="softmax", attention_bias=False),
    "deepseek_v3": dict(BASE, model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"],
                        num_key_value_heads=4, q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=24,
                        qk_rope_head_dim=16, v_head_dim=20, n_routed_experts=16, num_experts_per_tok=4,
                        n_shared_experts=1, moe_intermediate_size=40, first_k_dense_replace=1, moe_layer_freq=1,
                        n_group=4, topk_group=2, topk_method="noaux_tc", norm_topk_prob=True,
                        routed_scaling_factor=2.5, scoring_func="sigmoid", attention_bias=False,
                        rope_scaling=dict(rope_type="yarn", type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=1.0,
                                          beta_fast=32, beta_slow=1, original_max_position_embeddings=256)),
    "qwen2_moe": dict(BASE, model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], num_experts=8,
                      num_experts_per_tok=3, moe_intermediate_size=40, shared_expert_intermediate_size=72,
                      norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[1], use_sliding_window=False),
    "gemma": dict(BASE, model_type="gemma", architectures=["GemmaForCausalLM"], head_dim=24,
                  hidden_act="gelu_pytorch_tanh"),
    "gemma2": dict(BASE, model_type="gemma2", architectures=["Gemma2ForCausalLM"], head_dim=24,
                   hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh",
                   sliding_window=20, query_pre_attn_scalar=24, attn_logit_softcapping=2.0,
                   final_logit_softcapping=3.0),
    "gemma3": dict(BASE, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], head_dim=24,
                   num_hidden_layers=4, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh",
                   sliding_window=20, sliding_window_pattern=3, query_pre_attn_scalar=40,
                   rope_theta=1000000.0, rope_local_base_freq=10000.0,
                   rope_scaling=dict(rope_type="linear", factor=8.0)),
    "phi3": dict(BASE, model_type="phi3", architectures=["Phi3ForCausalLM"], partial_rotary_factor=0.75,
                 original_max_position_embeddings=256, sliding_window=None, pad_token_id=0,
                 rope_scaling=dict(type="longrope", short_factor=[1.0, 1.02, 1.05, 1.1, 1.2, 1.5],
                                   long_factor=[1.1, 1.5, 2.0, 3.0, 5.0, 8.0])),
    "gpt_oss": dict(BASE, model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=32, num_local_experts=8,
                    num_experts_per_tok=3, intermediate_size=64, sliding_window=20, attention_bias=True,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"], swiglu_limit=7.0,
                    rope_theta=150000.0,
                    rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                      original_max_position_embeddings=256)),
    "dynamic": dict(BASE, model_type="llama", architectures=["LlamaForCausalLM"], attention_bias=False,
                    max_position_embeddings=64, rope_scaling=dict(rope_type="dynamic", factor=4.0)),
}
MODELS["phi3_long"] = dict(MODELS["phi3"], original_max_position_embeddings=32)
WITH_CACHE = ("dynamic", "phi3", "phi3_long")  # frequencies depend on the length, so cached keys matter


def expert_names(family, prefix):
    if family == "mixtral":
        p = prefix.replace(".mlp.experts", ".block_sparse_moe.experts")
        return lambda e: (f"{p}.{e}.w1.weight", f"{p}.{e}.w3.weight", f"{p}.{e}.w2.weight")
    return lambda e: tuple(f"{prefix}.{e}.{n}_proj.weight" for n in ("gate", "up", "down"))


def oss_expert(name, shape):
    """gpt_oss stores [experts, in, out] with gate and up interleaved, and their biases likewise."""
    prefix, kind = name.rsplit(".", 1)
    bias = kind.endswith("_bias")
    rows, cols = (shape[1], 1) if bias else (shape[2], shape[1])

    def one(e, which, n):
        full = f"{prefix}.{e}.{which}_proj." + ("bias" if bias else "weight")
        return torch.tensor(synthetic.bias(SEED, full, n) if bias else synthetic.matrix(SEED, full, n, cols))
    parts = []
    for e in range(shape[0]):
        if kind.startswith("down"):
            value = one(e, "down", rows)
        else:
            value = torch.stack([one(e, "gate", rows // 2), one(e, "up", rows // 2)], dim=1).flatten(0, 1)
        parts.append(value if bias else value.T)
    return torch.stack(parts)


def fill(model, family):
    for name, p in model.named_parameters():
        shape = tuple(p.shape)
        if family == "gpt_oss" and ".experts." in name:
            value = oss_expert(name, shape)
        elif name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
            prefix = name.rsplit(".", 1)[0]
            names, parts = expert_names(family, prefix), []
            for e in range(shape[0]):
                gate, up, down = names(e)
                if name.endswith("gate_up_proj"):
                    half = shape[1] // 2
                    parts.append(torch.cat([torch.tensor(synthetic.matrix(SEED, gate, half, shape[2])),
                                            torch.tensor(synthetic.matrix(SEED, up, half, shape[2]))]))
                else:
                    parts.append(torch.tensor(synthetic.matrix(SEED, down, shape[1], shape[2])))
            value = torch.stack(parts)
        elif len(shape) == 2:
            file_name = name.replace(".mlp.gate.weight", ".block_sparse_moe.gate.weight") if family == "mixtral" else name
            value = torch.tensor(synthetic.matrix(SEED, file_name, *shape))
        elif name.endswith("bias"):
            value = torch.tensor(synthetic.bias(SEED, name, shape[0]))
        elif name.endswith("sinks"):
            value = torch.tensor(synthetic.rows(SEED, name, shape[0]))
        else:
            value = torch.tensor(synthetic.norm(SEED, name, shape[0])) - (1 if family.startswith("gemma") else 0)
        assert value.shape == p.shape, (name, value.shape, p.shape)
        with torch.no_grad():
            p.copy_(value)
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.copy_(torch.tensor(synthetic.bias(SEED, name, b.shape[0])))


def config_of(raw):
    config = AutoConfig.for_model(**{k: v for k, v in raw.items() if k not in ("architectures", "torch_dtype")})
    config._attn_implementation = "eager"
    if raw["model_type"] in ("deepseek_v2", "deepseek_v3"):
        config.head_dim = raw["qk_rope_head_dim"]
    return config


def run(name, raw, prompt_len):
    config = config_of(raw)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    fill(model, raw["model_type"])
    ids = [(i * 37 + 11) % raw["vocab_size"] for i in range(prompt_len)]
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
        logits = out.logits[0, -1]
        seq, margins = list(ids), []
        cache = None
        for _ in range(64):
            if name in WITH_CACHE:
                step = model(torch.tensor([seq if cache is None else seq[-1:]]), past_key_values=cache, use_cache=True)
                cache, last = step.past_key_values, step.logits[0, -1]
            else:
                last = model(torch.tensor([seq])).logits[0, -1]
            top = torch.topk(last, 2).values
            margins.append(float(top[0] - top[1]))
            seq.append(int(last.argmax()))
        bf16 = AutoModelForCausalLM.from_config(config).float().eval()
        fill(bf16, raw["model_type"])
        bf16 = bf16.bfloat16()
        low = bf16(torch.tensor([ids])).logits[0, -1].float()
    print(f"{name}: smallest margin of a greedy choice {min(margins):.2e}, bf16 differs by {float((low - logits).abs().max()):.3f}",
          file=sys.stderr)
    return dict(config=raw, seed=SEED, prompt_ids=ids, logits=[float(f"{v:.7g}") for v in logits.tolist()],
                bf16_logits=[float(f"{v:.5g}") for v in low.tolist()], greedy=seq[len(ids):], margin=min(margins))


if __name__ == "__main__":
    wanted = sys.argv[2:] or MODELS
    for n in wanted:
        fixture = run(n, MODELS[n], 600 if n == "llama" else 45)
        with open(f"{sys.argv[1]}/{n}.json", "w") as f:
            json.dump(fixture, f, separators=(",", ":"))
            f.write("\n")
