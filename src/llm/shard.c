#include "llm/shard.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

/* ---- Rules by operator */
enum split {
    WHOLE,      /* on every GPU */
    OUT,        /* outputs divided by tp */
    OUT_KV,     /* like OUT, but a KV head is never divided */
    IN,         /* inputs divided by tp; the bias stays whole */
    VOCAB_IN,   /* rows of the embedding table divided by tp */
    VOCAB_OUT,  /* outputs of the head divided by tp */
    HEADS,      /* attention heads divided by tp */
    EXPERT_OUT, /* experts divided by ep, and their outputs by expert_tp() */
    EXPERT_IN,
    SHARED_OUT, /* shared experts: like OUT, or whole on the tokens of this GPU */
    SHARED_IN,
};
enum where { ALL, DENSE, MOE, FULL, SLIDING, FIRST, LAST }; /* layers or pipeline stage with the operator */

static const struct rule {
    const char *name;
    enum split split;
    enum where where;
} rules[] = {
    { "embed_tokens", VOCAB_IN, FIRST },
    { "embed_positions", WHOLE, FIRST },
    { "q_proj", OUT, ALL },
    { "q_b_proj", OUT, ALL },
    { "k_proj", OUT_KV, ALL },
    { "v_proj", OUT_KV, ALL },
    { "kv_b_proj", OUT, ALL },
    { "attention", HEADS, FULL },
    { "attention_window", HEADS, SLIDING },
    { "o_proj", IN, ALL },
    { "fc1", OUT, DENSE },
    { "fc2", IN, DENSE },
    { "gate_proj", OUT, DENSE },
    { "up_proj", OUT, DENSE },
    { "down_proj", IN, DENSE },
    { "router", WHOLE, MOE },
    { "router_correction", WHOLE, MOE },
    { "experts_gate", EXPERT_OUT, MOE },
    { "experts_up", EXPERT_OUT, MOE },
    { "experts_down", EXPERT_IN, MOE },
    { "shared_gate_proj", SHARED_OUT, MOE },
    { "shared_up_proj", SHARED_OUT, MOE },
    { "shared_down_proj", SHARED_IN, MOE },
    { "shared_expert_gate", WHOLE, MOE },
    { "final_norm", WHOLE, LAST },
    { "lm_head", VOCAB_OUT, LAST },
    { "other", WHOLE, FIRST },
};

/* Operators without a row are norms and latent projections: whole, in every layer. Image encoders run on
 * the first stage, and every GPU of that stage has all of them. */
static struct rule rule_of(const struct llm_op *op) {
    static const struct rule norm = { "", WHOLE, ALL }, image = { "", WHOLE, FIRST };
    if (op->stage != LLM_STAGE_DECODER) return image;
    for (size_t i = 0; i < COUNTOF(rules); i++)
        if (strcmp(rules[i].name, op->name) == 0) return rules[i];
    return norm;
}

/* ---- Layout */
struct llm_layout llm_layout_of(uint64_t tp, uint64_t pp, uint64_t ep, uint64_t dp) {
    return (struct llm_layout){ .tp = MAX(1, tp), .pp = MAX(1, pp), .dp = MAX(1, dp), .ep = ep };
}

uint64_t llm_layout_gpus(const struct llm_layout *l) { return l->tp * l->pp * l->dp; }

bool llm_experts_exchange(const struct llm_layout *l) { return l->ep > l->tp; }

static uint64_t expert_tp(const struct llm_layout *l) {
    if (!l->ep) return l->tp;
    return l->ep < l->tp ? l->tp / l->ep : 1;
}

static int check_tensor(const struct llm_text *t, uint64_t tp, struct err *err) {
    if (t->heads % tp)
        return err_set(err,
                       "%" PRIu64 " attention heads cannot be divided among %" PRIu64
                       " GPUs: choose a divisor of %" PRIu64 " for --tp",
                       t->heads, tp, t->heads);
    if (!t->kv_lora_rank && t->kv_heads % tp && tp % t->kv_heads)
        return err_set(err,
                       "%" PRIu64 " KV heads can be neither divided among %" PRIu64
                       " GPUs nor copied evenly to them: choose a divisor or a multiple for --tp",
                       t->kv_heads, tp);
    if (t->layers > t->moe_layers && t->intermediate % tp)
        return err_set(err, "the MLP size %" PRIu64 " cannot be divided among %" PRIu64 " GPUs (--tp)",
                       t->intermediate, tp);
    return 0;
}

static int check_experts(const struct llm_text *t, const struct llm_layout *l, struct err *err) {
    if (!t->experts)
        return l->ep > 1 ? err_set(err, "--ep needs a model with experts; this one has none") : 0;
    if (l->ep > t->experts)
        return err_set(err, "--ep %" PRIu64 ": the model has only %" PRIu64 " experts per layer", l->ep,
                       t->experts);
    if (l->ep && (l->tp * l->dp) % l->ep)
        return err_set(err,
                       "--ep %" PRIu64 ": a pipeline stage has %" PRIu64
                       " GPUs (tp x dp), which cannot form groups of %" PRIu64,
                       l->ep, l->tp * l->dp, l->ep);
    if (l->ep && l->tp % l->ep && l->ep % l->tp)
        return err_set(err, "--ep %" PRIu64 " is neither a divisor nor a multiple of --tp %" PRIu64, l->ep,
                       l->tp);
    if (t->expert_intermediate % expert_tp(l))
        return err_set(err, "the expert size %" PRIu64 " cannot be divided among %" PRIu64 " GPUs",
                       t->expert_intermediate, expert_tp(l));
    if (!llm_experts_exchange(l) && t->shared_intermediate % l->tp)
        return err_set(
            err, "the size of the shared experts, %" PRIu64 ", cannot be divided among %" PRIu64 " GPUs",
            t->shared_intermediate, l->tp);
    return 0;
}

int llm_layout_check(const struct llm_model *m, const struct llm_layout *l, struct err *err) {
    if (l->tp > LLM_GPUS_MAX || l->pp > LLM_GPUS_MAX || l->dp > LLM_GPUS_MAX ||
        llm_layout_gpus(l) > LLM_GPUS_MAX)
        return err_set(err, "--tp x --pp x --dp is more than %d GPUs", LLM_GPUS_MAX);
    if (llm_layout_gpus(l) == 1 && l->ep <= 1) return 0;
    if (!m->decodes) return err_set(err, "only models with a decoder can be shared by several GPUs");
    if (l->pp > m->text.layers)
        return err_set(err, "--pp %" PRIu64 ": the model has only %u layers", l->pp, m->text.layers);
    if (check_tensor(&m->text, l->tp, err) < 0) return -1;
    return check_experts(&m->text, l, err);
}

struct llm_layers llm_stage_layers(const struct llm_model *m, const struct llm_layout *l, uint64_t stage) {
    uint64_t each = m->text.layers / l->pp, more = m->text.layers % l->pp;
    uint64_t first = stage * each + MIN(stage, more);
    return (struct llm_layers){ (uint32_t)first, (uint32_t)(first + each + (stage < more)) };
}

uint64_t llm_experts_per_gpu(const struct llm_model *m, const struct llm_layout *l) {
    uint64_t groups = MAX(1, l->ep);
    return (m->text.experts + groups - 1) / groups;
}

/* ---- Operators of a part */
static uint64_t count_layers(const struct llm_model *m, struct llm_layers range, enum where where) {
    uint64_t n = 0;
    for (uint32_t i = range.first; i < range.end; i++) {
        const struct llm_layer *layer = &m->text.layer[i];
        n += where == ALL || (where == MOE && layer->moe) || (where == DENSE && !layer->moe) ||
             (where == SLIDING && layer->window) || (where == FULL && !layer->window);
    }
    return n;
}

static uint64_t count_in_stage(const struct llm_model *m, const struct llm_layout *l, uint64_t stage,
                               const struct llm_op *op, enum where where) {
    if (l->pp == 1) return op->count;
    if (where == FIRST) return stage == 0 ? op->count : 0;
    if (where == LAST) return stage + 1 == l->pp ? op->count : 0;
    return count_layers(m, llm_stage_layers(m, l, stage), where);
}

/* Scales the bytes of the weight by `share`, and the bytes of the bias by `vector_share`. */
static void scale_bytes(const struct llm_model *m, struct llm_op *op, double share, double vector_share) {
    double vector = fmin((double)op->vector * llm_dtype_bytes(m->dtype), op->instance_bytes);
    op->instance_bytes = (op->instance_bytes - vector) * share + vector * vector_share;
    op->vector = (uint64_t)ceil((double)op->vector * vector_share);
}

static void divide_out(const struct llm_model *m, struct llm_op *op, uint64_t parts) {
    uint64_t out = (op->out + parts - 1) / parts;
    double share = (double)out / (double)op->out;
    scale_bytes(m, op, share, share);
    op->out = out;
}

static void divide_in(const struct llm_model *m, struct llm_op *op, uint64_t parts) {
    uint64_t in = (op->in + parts - 1) / parts;
    scale_bytes(m, op, (double)in / (double)op->in, 1);
    op->in = in;
}

static void divide_heads(const struct llm_model *m, struct llm_op *op, uint64_t tp) {
    scale_bytes(m, op, 1, 1 / (double)tp);
    op->heads /= tp;
    if (!m->text.kv_lora_rank) op->kv /= MIN(tp, m->text.kv_heads);
}

static void divide_experts(const struct llm_model *m, const struct llm_layout *l, struct llm_op *op,
                           bool out) {
    (out ? divide_out : divide_in)(m, op, expert_tp(l));
    op->expert_share = (double)llm_experts_per_gpu(m, l) / (double)m->text.experts;
    if (llm_experts_exchange(l)) op->row_scale = (double)l->ep / (double)l->tp;
}

/* If tokens are exchanged, shared experts process the tokens of this GPU with whole matrices. */
static void divide_shared(const struct llm_model *m, const struct llm_layout *l, struct llm_op *op,
                          bool out) {
    if (llm_experts_exchange(l))
        op->row_scale = 1 / (double)l->tp;
    else
        (out ? divide_out : divide_in)(m, op, l->tp);
}

static void divide(const struct llm_model *m, const struct llm_layout *l, enum split split,
                   struct llm_op *op) {
    switch (split) {
    case WHOLE: break;
    case OUT:
    case VOCAB_OUT: divide_out(m, op, l->tp); break;
    case OUT_KV: divide_out(m, op, MIN(l->tp, m->text.kv_heads)); break;
    case IN: divide_in(m, op, l->tp); break;
    case VOCAB_IN:
        divide_in(m, op, l->tp);
        op->row_scale = 1 / (double)l->tp;
        break;
    case HEADS: divide_heads(m, op, l->tp); break;
    case EXPERT_OUT:
    case EXPERT_IN: divide_experts(m, l, op, split == EXPERT_OUT); break;
    case SHARED_OUT:
    case SHARED_IN: divide_shared(m, l, op, split == SHARED_OUT); break;
    }
}

struct llm_model *llm_shard_new(const struct llm_model *m, const struct llm_layout *l, uint64_t stage) {
    struct llm_model *part = xmalloc(sizeof *part);
    *part = *m;
    part->ops = xcalloc(MAX(1, m->nops), sizeof *part->ops);
    part->nops = 0;
    for (size_t i = 0; i < m->nops; i++) {
        struct rule rule = rule_of(&m->ops[i]);
        struct llm_op op = m->ops[i];
        op.count = count_in_stage(m, l, stage, &op, rule.where);
        if (!op.count) continue;
        /* the embedding table of a tied head is on the first stage, so the last stage needs a copy */
        if (op.tied && stage > 0) op.tied = false;
        divide(m, l, rule.split, &op);
        part->ops[part->nops++] = op;
    }
    return part;
}

void llm_shard_free(struct llm_model *part) {
    if (!part) return;
    free(part->ops);
    free(part);
}

/* ---- All stages */
struct llm_shards llm_shards_new(const struct llm_model *m, const struct llm_layout *l) {
    struct llm_shards s = { xcalloc(l->pp, sizeof *s.parts), l->pp };
    for (uint64_t i = 0; i < l->pp; i++) s.parts[i] = llm_shard_new(m, l, i);
    return s;
}

void llm_shards_free(struct llm_shards *s) {
    for (uint64_t i = 0; i < s->n; i++) llm_shard_free(s->parts[i]);
    free(s->parts);
    *s = (struct llm_shards){ 0 };
}

struct llm_cost llm_shards_prefill(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                   uint64_t tokens, uint64_t past) {
    struct llm_cost sum = { 0 };
    for (uint64_t i = 0; i < s->n; i++) {
        struct llm_cost c = llm_cost_prefill(s->parts[i], setup, batch, tokens, past);
        llm_cost_add(&sum, &c);
    }
    llm_cost_scale(&sum, 1 / (double)s->n);
    return sum;
}

struct llm_cost llm_shards_decode(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                  uint64_t context) {
    return llm_shards_prefill(s, setup, batch, 1, context ? context - 1 : 0);
}

struct llm_cost llm_shards_generate(const struct llm_shards *s, const struct llm_setup *setup, uint64_t batch,
                                    uint64_t context, uint64_t steps) {
    struct llm_cost sum = { 0 };
    for (uint64_t i = 0; i < s->n; i++) {
        struct llm_cost c = llm_cost_generate(s->parts[i], setup, batch, context, steps);
        llm_cost_add(&sum, &c);
    }
    llm_cost_scale(&sum, 1 / (double)s->n);
    return sum;
}
