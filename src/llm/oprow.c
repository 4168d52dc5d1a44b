#include "llm/oprow.h"

#include "base/vec.h"

static bool row_applies(const struct opbuild *b, const struct oprow *r) {
    return (b->has & r->when) == r->when && !(b->has & r->unless) && b->numbers[r->count] > 0;
}

static struct llm_op make_op(const struct opbuild *b, const struct oprow *r) {
    const uint64_t *n = b->numbers;
    return (struct llm_op){
        .name = r->name,
        .module = r->module,
        .stage = b->stage,
        .kind = r->kind,
        .rows = r->rows == LLM_ROWS_TOKENS && b->tokens ? b->tokens : r->rows,
        .pairs = r->pairs == LLM_PAIRS_CAUSAL && b->causal ? b->causal : r->pairs,
        .count = n[r->count],
        .in = n[r->in],
        .out = n[r->out],
        .vector = (b->has & r->vector_when) == r->vector_when ? n[r->vector] : 0,
        .experts = n[r->experts],
        .topk = n[r->topk],
        .heads = n[r->heads],
        .qk_dim = n[r->qk_dim],
        .v_dim = n[r->v_dim],
        .window = n[r->window],
        .kv = n[r->kv],
        .io = n[r->io],
        .weight = r->quant & b->quant_scope ? b->quantized : LLM_DTYPE_UNKNOWN,
        .tied = r->tied,
        .idle = r->idle,
    };
}

void oprow_add(const struct opbuild *b, const struct oprow *rows, size_t n) {
    struct llm_model *m = b->model;
    size_t cap = m->nops;
    for (size_t i = 0; i < n; i++) {
        if (!row_applies(b, &rows[i])) continue;
        m->ops = vec_fit(m->ops, m->nops + 1, &cap, sizeof *m->ops);
        m->ops[m->nops++] = make_op(b, &rows[i]);
    }
}
