#include "engine/weights/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Translation of the parts of a name. The first match is used; a part inside a layer has no surrounding
 * dots. */
static const struct name_row {
    const char *ours, *theirs;
} model_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
};
static const struct name_row layer_names[] = {
    { "input_layernorm", "attn_norm" },
    { "post_attention_layernorm", "ffn_norm" },
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

/* Returns the translation of the n characters at `part`; NULL if unknown. */
static const char *translate(const struct name_row *rows, size_t nrows, const char *part, size_t n) {
    for (size_t i = 0; i < nrows; i++)
        if (strlen(rows[i].ours) == n && strncmp(rows[i].ours, part, n) == 0) return rows[i].theirs;
    return NULL;
}

/* "mlp.experts.7.up_proj" is one slice of a stacked tensor, or a separate tensor in old files. */
static void place_expert(struct gguf_place *p, const struct gguf *g, int layer, const char *rest, size_t n) {
    char *end;
    long expert = strtol(rest, &end, 10);
    size_t used = (size_t)(end - rest) + 1;
    if (end == rest || *end != '.' || used >= n) return;
    const char *theirs = translate(expert_names, COUNTOF(expert_names), rest + used, n - used);
    if (!theirs) return;
    snprintf(p->name, sizeof p->name, "blk.%d.%s.%ld.weight", layer, theirs, expert);
    if ((p->tensor = gguf_find(g, p->name))) return;
    snprintf(p->name, sizeof p->name, "blk.%d.%s_exps.weight", layer, theirs);
    p->tensor = gguf_find(g, p->name);
    p->slice = (int)expert;
}

static void place_in_layer(struct gguf_place *p, const struct gguf *g, const char *name, size_t stem) {
    static const char *const experts[] = { "mlp.experts.", "block_sparse_moe.experts." };
    char *part;
    int layer = (int)strtol(name + strlen("model.layers."), &part, 10);
    size_t n = stem - (size_t)(part + 1 - name);
    for (size_t i = 0; i < COUNTOF(experts); i++) {
        size_t head = strlen(experts[i]);
        if (n > head && strncmp(part + 1, experts[i], head) == 0) {
            place_expert(p, g, layer, part + 1 + head, n - head);
            return;
        }
    }
    const char *theirs = translate(layer_names, COUNTOF(layer_names), part + 1, n);
    if (!theirs) return;
    snprintf(p->name, sizeof p->name, "blk.%d.%s%s", layer, theirs, name + stem);
    p->tensor = gguf_find(g, p->name);
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
    /* any other name is already one of the GGUF file, such as rope_freqs.weight */
    p.tensor = gguf_find(g, p.name);
    return p;
}
