#include "engine/weights/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Translations of names in safetensors files to names in GGUF files, without ".weight" and ".bias".
 * layer_names contains the parts after "model.layers.N."; the first row whose tensor is in the file is
 * used. */
static const struct name_row {
    const char *ours, *theirs;
} model_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
};
static const struct name_row layer_names[] = {
    { "input_layernorm", "attn_norm" },
    { "post_attention_layernorm", "post_attention_norm" }, /* gemma2, gemma3, gpt_oss */
    { "post_attention_layernorm", "ffn_norm" },
    { "pre_feedforward_layernorm", "ffn_norm" },
    { "post_feedforward_layernorm", "post_ffw_norm" },
    { "self_attn.qkv_proj", "attn_qkv" },
    { "mlp.gate_up_proj", "ffn_up" },
    { "mlp.router", "ffn_gate_inp" },
    { "mlp.shared_expert.gate_proj", "ffn_gate_shexp" },
    { "mlp.shared_expert.up_proj", "ffn_up_shexp" },
    { "mlp.shared_expert.down_proj", "ffn_down_shexp" },
    { "mlp.shared_expert_gate", "ffn_gate_inp_shexp" },
    { "self_attn.q_proj", "attn_q" },
    { "self_attn.k_proj", "attn_k" },
    { "self_attn.v_proj", "attn_v" },
    { "self_attn.o_proj", "attn_output" },
    { "self_attn.q_norm", "attn_q_norm" },
    { "self_attn.k_norm", "attn_k_norm" },
    { "self_attn.q_a_proj", "attn_q_a" },
    { "self_attn.q_a_layernorm", "attn_q_a_norm" },
    { "self_attn.q_b_proj", "attn_q_b" },
    { "self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa" },
    { "self_attn.kv_a_layernorm", "attn_kv_a_norm" },
    { "self_attn.kv_b_proj", "attn_kv_b" },
    { "mlp.gate_proj", "ffn_gate" },
    { "mlp.up_proj", "ffn_up" },
    { "mlp.down_proj", "ffn_down" },
    { "mlp.gate", "ffn_gate_inp" },
    { "block_sparse_moe.gate", "ffn_gate_inp" },
    { "mlp.shared_experts.gate_proj", "ffn_gate_shexp" },
    { "mlp.shared_experts.up_proj", "ffn_up_shexp" },
    { "mlp.shared_experts.down_proj", "ffn_down_shexp" },
};
static const struct name_row expert_names[] = {
    { "gate_proj", "ffn_gate" }, { "up_proj", "ffn_up" }, { "down_proj", "ffn_down" },
    { "w1", "ffn_gate" },        { "w3", "ffn_up" },      { "w2", "ffn_down" },
};

static bool is_part(const char *name, const char *part, size_t n) {
    return strlen(name) == n && strncmp(name, part, n) == 0;
}

/* NULL: unknown */
static const char *translate(const struct name_row *rows, size_t nrows, const char *part, size_t n) {
    for (size_t i = 0; i < nrows; i++)
        if (is_part(rows[i].ours, part, n)) return rows[i].theirs;
    return NULL;
}

/* "mlp.experts.7.up_proj" is one slice of a stacked tensor, or a separate tensor in old files. */
static void place_expert(struct gguf_place *p, const struct gguf *g, int layer, const char *rest, size_t n,
                         const char *ending) {
    char *end;
    long expert = strtol(rest, &end, 10);
    size_t used = (size_t)(end - rest) + 1;
    if (end == rest || *end != '.' || used >= n) return;
    const char *theirs = translate(expert_names, COUNTOF(expert_names), rest + used, n - used);
    if (!theirs) return;
    snprintf(p->name, sizeof p->name, "blk.%d.%s.%ld%s", layer, theirs, expert, ending);
    if ((p->tensor = gguf_find(g, p->name))) return;
    snprintf(p->name, sizeof p->name, "blk.%d.%s_exps%s", layer, theirs, ending);
    p->tensor = gguf_find(g, p->name);
    p->slice = (int)expert;
}

/* Finds the keys and values of kv_b if they are separate tensors. */
static void place_halves(struct gguf_place *p, const struct gguf *g, int layer) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.attn_v_b.weight", layer);
    p->halves[1] = gguf_find(g, name);
    snprintf(name, sizeof name, "blk.%d.attn_k_b.weight", layer);
    if (!(p->halves[0] = gguf_find(g, name))) return;
    snprintf(p->name, sizeof p->name, "%s", name);
}

/* Names that do not end with ".weight" in safetensors files and end differently in GGUF files. */
static const struct name_row whole_names[] = {
    { "self_attn.sinks", "attn_sinks.weight" },
    { "mlp.gate.e_score_correction_bias", "exp_probs_b.bias" },
};

static bool place_whole(struct gguf_place *p, const struct gguf *g, int layer, const char *rest) {
    for (size_t i = 0; i < COUNTOF(whole_names); i++)
        if (strcmp(whole_names[i].ours, rest) == 0) {
            snprintf(p->name, sizeof p->name, "blk.%d.%s", layer, whole_names[i].theirs);
            p->tensor = gguf_find(g, p->name);
            return true;
        }
    return false;
}

static void place_in_layer(struct gguf_place *p, const struct gguf *g, const char *name, size_t stem) {
    static const char *const experts[] = { "mlp.experts.", "block_sparse_moe.experts." };
    char *part;
    int layer = (int)strtol(name + strlen("model.layers."), &part, 10);
    if (*part != '.' || place_whole(p, g, layer, part + 1)) return;
    size_t n = stem - (size_t)(part + 1 - name);
    for (size_t i = 0; i < COUNTOF(experts); i++) {
        size_t head = strlen(experts[i]);
        if (n > head && strncmp(part + 1, experts[i], head) == 0) {
            place_expert(p, g, layer, part + 1 + head, n - head, name + stem);
            return;
        }
    }
    for (size_t i = 0; i < COUNTOF(layer_names) && !p->tensor; i++) {
        if (!is_part(layer_names[i].ours, part + 1, n)) continue;
        snprintf(p->name, sizeof p->name, "blk.%d.%s%s", layer, layer_names[i].theirs, name + stem);
        p->tensor = gguf_find(g, p->name);
    }
    if (!p->tensor && is_part("self_attn.kv_b_proj", part + 1, n)) place_halves(p, g, layer);
}

struct gguf_place gguf_place_of(const struct gguf *g, const char *name) {
    struct gguf_place p = { .slice = -1 };
    const char *ending = strrchr(name, '.');
    size_t stem = ending ? (size_t)(ending - name) : strlen(name);
    snprintf(p.name, sizeof p.name, "%s", name);
    if (strncmp(name, "model.layers.", 13) == 0) {
        place_in_layer(&p, g, name, stem);
        return p;
    }
    const char *theirs = translate(model_names, COUNTOF(model_names), name, stem);
    if (theirs) snprintf(p.name, sizeof p.name, "%s%s", theirs, name + stem);
    /* all other names are names of the GGUF file, such as rope_freqs.weight */
    p.tensor = gguf_find(g, p.name);
    return p;
}
