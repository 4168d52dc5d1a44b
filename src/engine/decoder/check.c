/* Checks whether the decoder and the backend support a model. */
#include <math.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "engine/decoder/decoder.h"

static const char *const families[] = { "llama",     "mistral",     "mixtral",     "qwen2",
                                        "qwen2_moe", "qwen3",       "qwen3_moe",   "phi3",
                                        "gemma",     "gemma2",      "gemma3_text", "gpt_oss",
                                        "deepseek",  "deepseek_v2", "deepseek_v3", "qwen2_vl_text" };

static int check_family(const struct llm_text *c, struct err *err) {
    for (size_t i = 0; c->family && i < COUNTOF(families); i++)
        if (strcmp(c->family, families[i]) == 0) return 0;
    struct strbuf known = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(families); i++) strbuf_addf(&known, "%s%s", i ? ", " : "", families[i]);
    err_set(err, "the native engine does not support '%s' models; it supports %s and DeepSeek-OCR",
            c->family ? c->family : "text-free", known.buf);
    strbuf_free(&known);
    return -1;
}

static int check_experts(const struct llm_text *c, struct err *err) {
    if (c->experts > ROUTING_MAX_EXPERTS || c->experts_per_token > ROUTING_MAX_CHOSEN ||
        c->experts_per_token > c->experts)
        return err_set(
            err, "config.json: %llu experts, %llu per token: the native engine supports up to %d and %d",
            (unsigned long long)c->experts, (unsigned long long)c->experts_per_token, ROUTING_MAX_EXPERTS,
            ROUTING_MAX_CHOSEN);
    uint64_t groups = c->experts ? c->expert_groups : 0, kept = c->groups_per_token;
    if (groups > 1 &&
        (c->experts % groups || kept == 0 || kept * (c->experts / groups) < c->experts_per_token))
        return err_set(
            err,
            "config.json: %llu experts in %llu groups, of which %llu are used: they do not provide "
            "%llu experts per token",
            (unsigned long long)c->experts, (unsigned long long)groups, (unsigned long long)kept,
            (unsigned long long)c->experts_per_token);
    return 0;
}

static bool is_supported_activation(const char *name) {
    static const char *const names[] = { "silu", "gelu", "gelu_new", "gelu_pytorch_tanh" };
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Returns the features that the model needs from the backend, and appends their names to `names`. */
static unsigned extras_of(const struct llm_text *c, struct strbuf *names) {
    const struct {
        bool needed;
        unsigned extra;
        const char *name;
    } rows[] = {
        { c->clamped_glu || (c->activation && strcmp(c->activation, "silu") != 0), OPS_EXTRA_GLU,
          "gates other than silu" },
        { c->scaled_embedding || !isnan(c->logit_softcap), OPS_EXTRA_ADJUST, "scaled embeddings" },
        { !isnan(c->attention_softcap), OPS_EXTRA_SOFTCAP, "capped scores" },
        { c->sinks, OPS_EXTRA_SINKS, "attention sinks" },
        { c->experts && c->expert_bias, OPS_EXTRA_EXPERT_BIAS, "biases of experts" },
        { c->experts && (c->sigmoid_scores || c->correction_bias), OPS_EXTRA_SIGMOID, "sigmoid routing" },
    };
    unsigned out = 0;
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (rows[i].needed) {
            strbuf_addf(names, "%s%s", out ? ", " : "", rows[i].name);
            out |= rows[i].extra;
        }
    return out;
}

static int check_backend(const struct llm_text *c, const struct ops *o, struct err *err) {
    struct strbuf names = STRBUF_INIT;
    int rc = 0;
    if (extras_of(c, &names) & ~o->backend->extras)
        rc = err_set(err, "the device %s does not support '%s' models (%s): use device=cpu", ops_name(o),
                     c->family, names.buf);
    strbuf_free(&names);
    return rc;
}

int decoder_check(const struct llm_text *c, const struct ops *o, struct err *err) {
    if (check_family(c, err) < 0 || check_experts(c, err) < 0) return -1;
    if (c->activation && !is_supported_activation(c->activation))
        return err_set(
            err, "config.json: hidden_act '%s' is not supported by the native engine; silu and gelu are",
            c->activation);
    if (c->clamped_glu && c->glu_limit != 7)
        return err_set(err, "config.json: swiglu_limit is %g; the native engine supports 7", c->glu_limit);
    if (c->kv_heads == 0 || c->heads % c->kv_heads)
        return err_set(err, "config.json: %llu attention heads cannot share %llu key-value heads",
                       (unsigned long long)c->heads, (unsigned long long)c->kv_heads);
    if (c->fused_projections && (c->qkv_bias || c->mlp_bias))
        return err_set(err, "config.json: biases of fused projections are not supported");
    return check_backend(c, o, err);
}
