#include "llm/cost.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

/* Returns the expected number of different experts that `tokens` rows use under uniform routing. */
static double experts_touched(uint64_t experts, uint64_t topk, double tokens) {
    double e = (double)experts, missed = 1 - (double)topk / e;
    return e * (1 - pow(missed, tokens));
}

/* Returns the type of activations and caches: 16 bits if the model is stored in fewer bits. */
static enum llm_dtype activation_dtype(const struct llm_model *m) {
    return llm_dtype_bytes(m->dtype) >= 2 ? m->dtype : LLM_BF16;
}

enum llm_dtype llm_kv_dtype(const struct llm_model *m, enum llm_dtype override) {
    return override ? override : activation_dtype(m);
}

/* Returns the number of query-key pairs of one sequence: the sum of min(past + i, window) for i = 1..tokens.
 * window 0: no limit. */
static double causal_pairs(double tokens, double past, double window) {
    double growing =
        window > 0 ? fmax(0, fmin(tokens, window - past)) : tokens; /* queries before the window is full */
    double sum = growing * past + growing * (growing + 1) / 2;
    return sum + (tokens - growing) * window;
}

static double pairs_of(const struct llm_op *op, const struct llm_pass *p) {
    if (op->pairs != LLM_PAIRS_CAUSAL) return p->counts.pairs[op->pairs];
    double each = causal_pairs((double)p->tokens, (double)p->past, (double)op->window);
    return (double)p->batch * (each + p->extra_pairs);
}

static double attention_flops(const struct llm_op *op, double pairs) {
    return 2 * (double)op->count * (double)op->heads * (double)(op->qk_dim + op->v_dim) * pairs;
}

static double full_pairs(const struct llm_op *op, const struct llm_pass *p) {
    if (op->pairs != LLM_PAIRS_CAUSAL) return p->counts.pairs[op->pairs];
    return (double)p->batch * (double)p->tokens * (double)(p->past + p->tokens);
}

static double rows_of(const struct llm_op *op, const struct llm_pass *p) {
    return p->counts.rows[op->rows] * llm_op_row_scale(op);
}

static double op_flops(const struct llm_op *op, const struct llm_pass *p) {
    double rows = rows_of(op, p);
    switch (op->kind) {
    case LLM_OP_LINEAR:
    case LLM_OP_CONV: return 2 * rows * (double)op->in * (double)op->out * (double)op->count;
    case LLM_OP_EXPERTS:
        return 2 * rows * (double)op->topk * llm_op_expert_share(op) * (double)op->in * (double)op->out *
               (double)op->count;
    case LLM_OP_ATTENTION: return attention_flops(op, pairs_of(op, p));
    case LLM_OP_EMBEDDING:
    case LLM_OP_NORM:
    case LLM_OP_PARAM: break;
    }
    return 0;
}

/* Returns the bytes of the weights that the rows use, each counted once. */
static double weight_bytes(const struct llm_setup *s, const struct llm_op *op, double rows) {
    double one = op->instance_bytes;
    if (op->idle || rows == 0) return 0;
    if (op->kind == LLM_OP_EMBEDDING) return fmin(rows, (double)op->in) * (one / (double)op->in);
    if (op->kind == LLM_OP_EXPERTS)
        one *= s->experts_read > 0 ? fmin(s->experts_read, (double)op->experts)
                                   : experts_touched(op->experts, op->topk, rows);
    return one * (double)op->count * llm_op_expert_share(op);
}

/* Sets the bytes for reading the cache of past tokens and writing the cache of new tokens. A sliding window
 * limits the past tokens to its width - 1, and the new tokens to its width. */
static void add_kv(const struct llm_op *op, const struct llm_pass *p, double width, struct llm_cost *c) {
    double numbers = (double)op->kv * (double)op->count * (double)p->batch * width;
    double past = (double)p->past, fresh = (double)p->tokens;
    if (op->window) {
        past = fmin(past, (double)op->window - 1);
        fresh = fmin(fresh, (double)op->window);
    }
    c->kv_read_bytes = numbers * past;
    c->kv_write_bytes = numbers * fresh;
}

static double peak_of(const struct llm_op *op, const struct llm_peak *peak) {
    return op->weight && peak->quantized_flop_per_s > 0 ? peak->quantized_flop_per_s : peak->flop_per_s;
}

static void set_floor(const struct llm_op *op, struct llm_cost *c, const struct llm_peak *peak) {
    c->compute_s = c->flops > 0 ? c->flops / peak_of(op, peak) : 0;
    c->memory_s = c->bytes > 0 ? c->bytes / peak->bytes_per_s : 0;
    bool known = !isnan(c->compute_s) && !isnan(c->memory_s);
    c->floor_s = known ? fmax(c->compute_s, c->memory_s) : NAN;
    c->compute_bound_s = !known ? NAN : c->compute_s >= c->memory_s ? c->floor_s : 0;
}

struct llm_cost llm_cost_op(const struct llm_model *m, const struct llm_setup *s, const struct llm_op *op,
                            const struct llm_pass *pass) {
    struct llm_cost c = { 0 };
    double rows = rows_of(op, pass);
    c.flops = op_flops(op, pass);
    *(op->kind == LLM_OP_ATTENTION ? &c.attention_flops
      : op->rows == LLM_ROWS_HEAD  ? &c.head_flops
                                   : &c.linear_flops) = c.flops;
    c.weight_bytes = weight_bytes(s, op, rows);
    if (op->kv) add_kv(op, pass, llm_dtype_bytes(llm_kv_dtype(m, s->kv)), &c);
    c.io_bytes = rows * (double)op->io * llm_dtype_bytes(activation_dtype(m));
    c.bytes = c.weight_bytes + c.kv_read_bytes + c.kv_write_bytes + c.io_bytes;
    if (op->kind == LLM_OP_ATTENTION) c.full_attention_flops = attention_flops(op, full_pairs(op, pass));
    set_floor(op, &c, &s->peak);
    if (op->kind != LLM_OP_ATTENTION) {
        c.weights_s = c.floor_s;
        c.weights_compute_bound_s = c.compute_bound_s;
    }
    return c;
}

void llm_cost_add(struct llm_cost *sum, const struct llm_cost *c) {
    sum->flops += c->flops;
    sum->linear_flops += c->linear_flops;
    sum->attention_flops += c->attention_flops;
    sum->full_attention_flops += c->full_attention_flops;
    sum->head_flops += c->head_flops;
    sum->bytes += c->bytes;
    sum->weight_bytes += c->weight_bytes;
    sum->kv_read_bytes += c->kv_read_bytes;
    sum->kv_write_bytes += c->kv_write_bytes;
    sum->io_bytes += c->io_bytes;
    sum->floor_s += c->floor_s;
    sum->compute_s += c->compute_s;
    sum->memory_s += c->memory_s;
    sum->compute_bound_s += c->compute_bound_s;
    sum->weights_s += c->weights_s;
    sum->weights_compute_bound_s += c->weights_compute_bound_s;
}

double llm_intensity(double flops, double bytes) { return bytes > 0 ? flops / bytes : NAN; }

double llm_utilization(double work, double seconds, double peak_per_s) {
    return seconds > 0 ? work / (seconds * peak_per_s) : NAN;
}

double llm_cost_hard_bound_s(const struct llm_cost *c) {
    bool known = !isnan(c->compute_s) && !isnan(c->memory_s);
    return known ? fmax(c->compute_s, c->memory_s) : NAN;
}

static const char *bound_of(double all_s, double compute_s) {
    if (isnan(all_s)) return NULL;
    return compute_s * 2 >= all_s ? "compute" : "memory";
}

const char *llm_cost_bound(const struct llm_cost *c) { return bound_of(c->floor_s, c->compute_bound_s); }

const char *llm_cost_weights_bound(const struct llm_cost *c) {
    return bound_of(c->weights_s, c->weights_compute_bound_s);
}

struct llm_cost llm_cost_stage(const struct llm_model *m, const struct llm_setup *s, int stage,
                               const struct llm_pass *pass) {
    struct llm_cost sum = { 0 };
    for (size_t i = 0; i < m->nops; i++) {
        if (m->ops[i].stage != stage) continue;
        struct llm_cost c = llm_cost_op(m, s, &m->ops[i], pass);
        llm_cost_add(&sum, &c);
    }
    return sum;
}

struct llm_pass llm_pass_decoder(const struct llm_setup *s, uint64_t batch, uint64_t tokens, uint64_t past) {
    struct llm_pass p = { .batch = batch, .tokens = tokens, .past = past };
    p.counts.rows[LLM_ROWS_TOKENS] = (double)batch * (double)tokens;
    p.counts.rows[LLM_ROWS_HEAD] = (double)batch * (tokens == 0 ? 0 : s->head_all ? (double)tokens : 1);
    return p;
}

struct llm_cost llm_cost_prefill(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                 uint64_t tokens, uint64_t past) {
    struct llm_pass p = llm_pass_decoder(s, batch, tokens, past);
    return llm_cost_stage(m, s, LLM_STAGE_DECODER, &p);
}

struct llm_cost llm_cost_decode(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                uint64_t context) {
    return llm_cost_prefill(m, s, batch, 1, context ? context - 1 : 0);
}

struct llm_cost llm_cost_vision(const struct llm_model *m, const struct llm_setup *s, int stage,
                                const struct llm_counts *counts) {
    struct llm_pass p = { .counts = *counts };
    return llm_cost_stage(m, s, stage, &p);
}

void llm_cost_scale(struct llm_cost *c, double by) {
    double *v[] = {
        &c->flops,          &c->linear_flops,    &c->attention_flops, &c->full_attention_flops,
        &c->head_flops,     &c->bytes,           &c->weight_bytes,    &c->kv_read_bytes,
        &c->kv_write_bytes, &c->io_bytes,        &c->floor_s,         &c->compute_s,
        &c->memory_s,       &c->compute_bound_s, &c->weights_s,       &c->weights_compute_bound_s
    };
    for (size_t i = 0; i < COUNTOF(v); i++) *v[i] *= by;
}

/* Adds the cost of a run of steps in which no window becomes full. FLOPs and bytes then grow linearly, so the
 * mean of the first and the last step is exact. The roofline time is approximate if an operator changes from
 * memory-bound to compute-bound in the run. */
static void add_run(const struct llm_model *m, const struct llm_setup *s, uint64_t batch, uint64_t first,
                    uint64_t steps, struct llm_cost *sum) {
    struct llm_cost a = llm_cost_decode(m, s, batch, first),
                    b = llm_cost_decode(m, s, batch, first + steps - 1);
    llm_cost_add(&a, &b);
    llm_cost_scale(&a, (double)steps / 2);
    llm_cost_add(sum, &a);
}

struct llm_cost llm_cost_generate(const struct llm_model *m, const struct llm_setup *s, uint64_t batch,
                                  uint64_t context, uint64_t steps) {
    struct llm_cost sum = { 0 };
    while (steps) {
        uint64_t run = steps; /* steps until the next window becomes full */
        for (size_t i = 0; i < m->nops; i++)
            if (m->ops[i].window > context) run = MIN(run, m->ops[i].window - context);
        add_run(m, s, batch, context, run, &sum);
        context += run;
        steps -= run;
    }
    return sum;
}

double llm_kv_bytes_per_token(const struct llm_model *m, enum llm_dtype kv) {
    double numbers = 0;
    for (size_t i = 0; i < m->nops; i++) numbers += (double)m->ops[i].kv * (double)m->ops[i].count;
    return numbers * llm_dtype_bytes(llm_kv_dtype(m, kv));
}

double llm_kv_bytes_held(const struct llm_model *m, enum llm_dtype kv, uint64_t tokens) {
    double sum = 0;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        double kept = op->window ? fmin((double)tokens, (double)op->window) : (double)tokens;
        sum += (double)op->kv * (double)op->count * kept;
    }
    return sum * llm_dtype_bytes(llm_kv_dtype(m, kv));
}

/* Returns the sum of the outputs of all matrix products and convolutions in op's module and stage, for one
 * layer. These outputs are assumed to be in memory at the same time. */
static double module_outputs(const struct llm_model *m, const struct llm_op *op,
                             const struct llm_pass *pass) {
    double sum = 0;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *o = &m->ops[i];
        bool makes = o->kind == LLM_OP_LINEAR || o->kind == LLM_OP_CONV || o->kind == LLM_OP_EXPERTS;
        if (!makes || o->stage != op->stage || strcmp(o->module, op->module) != 0) continue;
        sum += rows_of(o, pass) * (double)o->out * (double)MAX(1, o->topk) * llm_op_expert_share(o);
    }
    return sum;
}

double llm_activation_bytes(const struct llm_model *m, int stage, const struct llm_pass *pass) {
    double widest = 0, stream = 0;
    for (size_t i = 0; i < m->nops; i++) {
        const struct llm_op *op = &m->ops[i];
        if (op->stage != stage) continue;
        widest = fmax(widest, module_outputs(m, op, pass));
        /* the residual and its normalised copy, both as wide as the input of the norm */
        if (op->kind == LLM_OP_NORM) stream = fmax(stream, 2 * pass->counts.rows[op->rows] * (double)op->in);
    }
    return (widest + stream) * llm_dtype_bytes(activation_dtype(m));
}
