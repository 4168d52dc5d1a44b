#include "engine/decoder/steps.h"

#include <stdlib.h>

#include "base/die.h"
#include "engine/decoder/latent.h"

struct decoder_steps {
    struct decoder *decoder; /* borrowed */
    const struct ops_decode_calls *calls;
    void *state;
    enum decode_path path;
    unsigned reserved; /* value of decoder->reserved when `state` was made */
};

static struct decode_layer layer_of(const struct decoder_layer *l) {
    struct decode_layer out = { .norm1 = l->norm1,
                                .norm2 = l->norm2,
                                .q = l->q,
                                .k = l->k,
                                .v = l->v,
                                .o = l->o,
                                .q_norm = l->q_norm,
                                .k_norm = l->k_norm,
                                .keys = l->keys,
                                .values = l->values,
                                .q_a = l->q_a,
                                .q_b = l->q_b,
                                .kv_a = l->kv_a,
                                .kv_b = l->kv_b,
                                .q_a_norm = l->q_a_norm,
                                .kv_a_norm = l->kv_a_norm,
                                .window = l->window,
                                .mlp = l->mlp };
    if (!l->moe.routing.n) return out;
    out.router = &l->moe.router;
    out.experts = l->moe.experts;
    out.shared = l->moe.shared;
    out.routing = l->moe.routing;
    return out;
}

/* Calls open() of the steps, or with n > 1 of the batch. */
static void *open_state(struct decoder *d, enum decode_path path, int n) {
    struct decode_layer *layers = xcalloc((size_t)d->layers, sizeof *layers);
    const struct ops_backend *b = d->ops->backend;
    for (int i = 0; i < d->layers; i++) layers[i] = layer_of(&d->layer[i]);
    struct decode_plan plan = { .path = path,
                                .hidden = d->hidden,
                                .heads = d->heads,
                                .kv_heads = d->kv_heads,
                                .dim = d->dim_k,
                                .nope = (int)d->c->qk_nope_dim,
                                .value = d->dim_v,
                                .rank = (int)d->c->kv_lora_rank,
                                .rotated = (int)d->c->qk_rope_dim,
                                .latent_eps = LATENT_EPS,
                                .vocab = d->vocab,
                                .max_context = d->positions,
                                .eps = (float)d->c->norm_eps,
                                .scale = d->score_scale,
                                .embed = d->embed,
                                .head = d->head,
                                .norm = d->norm,
                                .rope = &d->rope,
                                .layer = layers,
                                .layers = d->layers };
    void *state = n > 1 ? b->batch->open(d->ops->context, &plan, n) : b->decode->open(d->ops->context, &plan);
    free(layers);
    return state;
}

/* Returns true if the model needs a feature that no backend supports in whole steps. */
static bool needs_operators(const struct decoder *d) {
    const struct llm_text *c = d->c;
    return (d->dim_k != d->dim_v && !c->kv_lora_rank) || c->shared_gate || c->sandwich_norms ||
           c->scaled_embedding || c->sinks || c->sigmoid_scores || rope_fits_length(&c->rope) ||
           c->rope.kind == LLM_ROPE_MROPE || c->rope.local_plain;
}

struct decoder_steps *decoder_steps_open(struct decoder *d, enum decode_path path) {
    const struct ops_decode_calls *calls = d->ops->backend->decode;
    if (!calls || needs_operators(d)) return NULL;
    void *state = open_state(d, path, 1);
    if (!state) return NULL;
    struct decoder_steps *s = xcalloc(1, sizeof *s);
    *s = (struct decoder_steps){ d, calls, state, path, d->reserved };
    return s;
}

void decoder_steps_close(struct decoder_steps *s) {
    if (!s) return;
    s->calls->close(s->state);
    free(s);
}

bool decoder_steps_ready(struct decoder_steps *s) {
    if (!s->state || s->reserved != s->decoder->reserved) {
        void *old = s->state;
        s->state = NULL; /* stays so if open() fails or runs out of memory */
        s->calls->close(old);
        s->state = open_state(s->decoder, s->path, 1);
        s->reserved = s->decoder->reserved;
    }
    if (s->state && s->calls->prepare) s->calls->prepare(s->state);
    return s->state;
}
void decoder_steps_begin(struct decoder_steps *s, const struct decode_start *start) {
    s->calls->begin(s->state, start);
}
int decoder_steps_portion(struct decoder_steps *s) { return s->calls->portion(s->state); }
void decoder_steps_stop(struct decoder_steps *s) { s->calls->stop(s->state); }
void decoder_steps_submit(struct decoder_steps *s, int steps) { s->calls->submit(s->state, steps); }
bool decoder_steps_take(struct decoder_steps *s, uint32_t *token) { return s->calls->take(s->state, token); }
void decoder_steps_read(struct decoder_steps *s, enum decode_vector which, float *to, size_t n) {
    s->calls->read(s->state, which, to, n);
}
size_t decoder_steps_spans(struct decoder_steps *s, struct decode_span **spans) {
    return s->calls->spans(s->state, spans);
}

/* ---- batches */
struct decoder_batch {
    const struct ops_batch_calls *calls;
    void *state;
    int n;
    unsigned reserved; /* as in struct decoder_steps */
};

struct decoder_batch *decoder_batch_open(struct decoder_batch *old, struct decoder *d, int n) {
    const struct ops_batch_calls *calls = d->ops->backend->batch;
    if (old && old->n == n && old->reserved == d->reserved) return old;
    decoder_batch_close(old);
    if (!calls || needs_operators(d)) return NULL;
    void *state = open_state(d, DECODE_GRAPH, n);
    if (!state) return NULL;
    struct decoder_batch *b = xcalloc(1, sizeof *b);
    *b = (struct decoder_batch){ calls, state, n, d->reserved };
    return b;
}
void decoder_batch_close(struct decoder_batch *b) {
    if (!b) return;
    b->calls->close(b->state);
    free(b);
}
void decoder_batch_begin(struct decoder_batch *b, const uint32_t *tokens, const int *positions) {
    b->calls->begin(b->state, tokens, positions);
}
void decoder_batch_submit(struct decoder_batch *b, int steps) { b->calls->submit(b->state, steps); }
bool decoder_batch_take(struct decoder_batch *b, uint32_t *tokens) {
    return b->calls->take(b->state, tokens);
}
size_t decoder_batch_spans(struct decoder_batch *b, struct decode_span **spans) {
    return b->calls->spans(b->state, spans);
}
